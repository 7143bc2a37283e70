import type { FastifyInstance } from 'fastify';
import { SCOPES } from '../../access/scopes.js';
import { shownProcessor } from '../../payments/processors/processor-url.js';
import { visibleClient } from '../requests/access-check.js';
import * as descriptions from './service-description.js';

/** Facts that stay the same while the process runs, except `movesMoney`. */
export interface SessionFacts {
  readonly access: 'none' | 'required';
  readonly version: string;
  readonly deployment: 'embedded' | 'distributed';
  /** Names this process in the rows that it claims. */
  readonly instance: string;
  readonly processor: {
    readonly name: string;
    /** Null until the processor has answered. */
    movesMoney(): Promise<boolean | null>;
  };
  readonly recovery: { readonly dedupSeconds: number; readonly keyTtlSeconds: number };
}

/** The first request of the console: the caller, its scopes, and facts about this process. `clients`: those of the file of API keys. */
export function registerSessionRoutes(
  app: FastifyInstance,
  facts: SessionFacts,
  clients: () => readonly string[],
): void {
  app.get('/api/session', { config: { scopes: SCOPES, description: descriptions.session } }, async (request, reply) => {
    const { caller } = request;
    const { access, version, deployment, instance, processor, recovery } = facts;
    // In the order of the list, whatever the order in the credential.
    const scopes = SCOPES.filter((scope) => !caller || caller.scopes.has(scope));
    return reply.header('cache-control', 'no-store').send({
      client: caller?.client ?? null,
      access,
      scopes,
      clients: caller?.scopes.has('operations') ? clients() : [],
      version,
      deployment,
      instance,
      processor: {
        name: shownProcessor(processor.name, visibleClient(request)),
        movesMoney: await processor.movesMoney(),
      },
      recovery,
    });
  });
}
