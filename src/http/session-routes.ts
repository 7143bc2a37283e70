import type { FastifyInstance } from 'fastify';
import { SCOPES } from '../access/scopes.js';
import * as descriptions from './description/session.js';

/** What does not change while the process runs, but for what its processor says. */
export interface SessionFacts {
  readonly access: 'none' | 'required';
  readonly version: string;
  readonly deployment: 'embedded' | 'distributed';
  /** Names this process in the rows that it claims. */
  readonly instance: string;
  readonly processor: {
    readonly name: string;
    /** Null: the processor has not answered yet. */
    movesMoney(): Promise<boolean | null>;
  };
  readonly recovery: { readonly dedupSeconds: number; readonly keyTtlSeconds: number };
}

/** What the console asks first: who it is that asks, what they may do, and of whom. */
export function registerSessionRoutes(app: FastifyInstance, facts: SessionFacts): void {
  app.get(
    '/api/session',
    { config: { scopes: SCOPES, description: descriptions.session } },
    async ({ caller }, reply) => {
      const { access, version, deployment, instance, processor, recovery } = facts;
      // In the order of the list, whatever the order in the credential.
      const scopes = SCOPES.filter((scope) => !caller || caller.scopes.has(scope));
      return reply.header('cache-control', 'no-store').send({
        client: caller?.client ?? null,
        access,
        scopes,
        version,
        deployment,
        instance,
        processor: { name: processor.name, movesMoney: await processor.movesMoney() },
        recovery,
      });
    },
  );
}
