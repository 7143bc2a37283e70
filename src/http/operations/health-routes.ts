import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import type { Health } from '../../health/health.js';
import { publicErrors } from '../errors/public-errors.js';
import { StoreStatistics, StoreStatus, StoreValue } from './schemas.js';
import * as descriptions from './service-description.js';

const KeyPath = Type.Object({ key: Type.String() });

/** Spec 4.2, rules H1 to H3. A health answer is of this moment, so no cache may store it. */
export function registerHealthRoutes(server: FastifyInstance, health: Health): void {
  const app = server.withTypeProvider<TypeBoxTypeProvider>();

  app.get(
    '/api/health/redis',
    {
      schema: { response: { 200: StoreStatus } },
      config: { scopes: 'open', neverLimited: true, description: descriptions.storeStatus },
    },
    async (_request, reply) => {
      const status = await health.status();
      if (!status) throw publicErrors.storeUnreachable();
      const message = 'The key-value store answers.';
      return reply.header('cache-control', 'no-store').send({ status: 'UP' as const, message, ...status });
    },
  );

  app.get(
    '/api/health/redis/key/:key',
    {
      schema: { params: KeyPath, response: { 200: StoreValue } },
      config: { operation: 'health', scopes: ['operations'], description: descriptions.storeValue },
    },
    async (request, reply) => {
      const { key } = request.params;
      const stored = await health.value(key);
      if (!stored) throw publicErrors.keyNotFound(key);
      return reply.header('cache-control', 'no-store').send({ key, ...stored });
    },
  );

  app.get(
    '/api/health/redis/stats',
    {
      schema: { response: { 200: StoreStatistics } },
      config: { scopes: ['operations'], description: descriptions.storeStatistics },
    },
    async (_request, reply) => {
      const statistics = await health.statistics();
      if (!statistics) throw publicErrors.storeUnreachable();
      return reply.header('cache-control', 'no-store').send(statistics);
    },
  );
}
