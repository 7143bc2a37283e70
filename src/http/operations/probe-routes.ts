import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyInstance } from 'fastify';
import type { Readiness } from '../../health/readiness.js';
import { publicErrors } from '../errors/public-errors.js';
import { Readiness as Ready } from './schemas.js';
import * as descriptions from './service-description.js';

export const LIVENESS_PATH = '/livez';
export const READINESS_PATH = '/readyz';
export const ALIVE = { status: 'alive' } as const;

/** Rule O1. Before the stores are open `bare-answers.ts` answers in their place. */
export function registerProbeRoutes(server: FastifyInstance, readiness: Readiness): void {
  const app = server.withTypeProvider<TypeBoxTypeProvider>();

  app.get(
    LIVENESS_PATH,
    { config: { scopes: 'open', neverLimited: true, description: descriptions.livez } },
    (_request, reply) => {
      reply.header('cache-control', 'no-store').send(ALIVE);
    },
  );

  app.get(
    READINESS_PATH,
    {
      schema: { response: { 200: Ready } },
      config: { scopes: 'open', neverLimited: true, description: descriptions.readyz },
    },
    async (_request, reply) => {
      if (readiness.isDraining) throw publicErrors.draining();
      const parts = await readiness.look();
      // A signal may have come meanwhile.
      if (readiness.isDraining) throw publicErrors.draining();
      if (parts.storeOfRecord === 'away') throw publicErrors.storeOfRecordAway();
      const status = Object.values(parts).every((part) => part === 'up') ? 'ready' : 'degraded';
      return reply.header('cache-control', 'no-store').send({ status, ...parts } as const);
    },
  );
}
