import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import type { Health } from '../health/health.js';
import { publicErrors } from './public-errors.js';

const KeyPath = Type.Object({ key: Type.String() });

const Status = Type.Object({
  status: Type.Literal('UP'),
  store: Type.String(),
  message: Type.String(),
  latencyMs: Type.Number(),
});

const Value = Type.Object({
  key: Type.String(),
  value: Type.String(),
  ttlSeconds: Type.Union([Type.Integer(), Type.Null()]),
});

const Statistics = Type.Object({
  totalKeys: Type.Integer(),
  usedMemoryBytes: Type.Integer(),
  hits: Type.Integer(),
  misses: Type.Integer(),
  expiredKeys: Type.Integer(),
  evictedKeys: Type.Integer(),
  connectedClients: Type.Integer(),
  uptimeSeconds: Type.Integer(),
  version: Type.String(),
});

/** Spec 4.2, decisions H1 to H3. A health answer is of this moment, so no cache may store it. */
export function registerHealthRoutes(server: FastifyInstance, health: Health): void {
  const app = server.withTypeProvider<TypeBoxTypeProvider>();

  app.get(
    '/api/health/redis',
    { schema: { response: { 200: Status } }, config: { scopes: 'open', neverLimited: true } },
    async (_request, reply) => {
      const status = await health.status();
      if (!status) throw publicErrors.storeUnreachable();
      const message = 'The key-value store answers.';
      return reply.header('cache-control', 'no-store').send({ status: 'UP' as const, message, ...status });
    },
  );

  app.get(
    '/api/health/redis/key/:key',
    { schema: { params: KeyPath, response: { 200: Value } }, config: { operation: 'health', scopes: ['operations'] } },
    async (request, reply) => {
      const { key } = request.params;
      const stored = await health.value(key);
      if (!stored) throw publicErrors.keyNotFound(key);
      return reply.header('cache-control', 'no-store').send({ key, ...stored });
    },
  );

  app.get(
    '/api/health/redis/stats',
    { schema: { response: { 200: Statistics } }, config: { scopes: ['operations'] } },
    async (_request, reply) => {
      const statistics = await health.statistics();
      if (!statistics) throw publicErrors.storeUnreachable();
      return reply.header('cache-control', 'no-store').send(statistics);
    },
  );
}
