import type { FastifyInstance } from 'fastify';
import type { Health } from '../../health/health.js';
import { objectWith, TEXT } from '../../platform/json-schema.js';
import { EXAMPLE_KEY, EXAMPLE_PAYMENT_ID, publicErrors } from '../errors/catalogue.js';
import { ofThisMoment } from '../openapi/headers.js';
import type { RouteDescription } from '../openapi/route-description.js';
import { type ParametersProvider, pathSchema } from '../requests/parameter-schemas.js';

const INTEGER = { type: 'integer' };

/** The schemas also write the answers (`schema.response` of the routes). */
export const StoreStatus = objectWith({
  status: { ...TEXT, const: 'UP' },
  store: { ...TEXT, description: '`redis` or `embedded`.' },
  message: TEXT,
  latencyMs: { type: 'number', description: 'Milliseconds that the store took.' },
});

export const StoreValue = objectWith({
  key: TEXT,
  value: { ...TEXT, description: 'Of an idempotency key: `KEY GENERATED`, then the transaction id or `DECLINED`.' },
  ttlSeconds: { anyOf: [INTEGER, { type: 'null' }], description: 'Null: it does not expire.' },
});

export const StoreStatistics = objectWith({
  totalKeys: INTEGER,
  usedMemoryBytes: INTEGER,
  hits: INTEGER,
  misses: INTEGER,
  expiredKeys: INTEGER,
  evictedKeys: INTEGER,
  connectedClients: INTEGER,
  uptimeSeconds: INTEGER,
  version: TEXT,
});

const KeyPath = pathSchema('key');

/** Spec 4.2, rules H1 to H3: whether the key-value store is up, one of its keys, its statistics. No cache may store an answer of this moment. */
export function keyValueStore(server: FastifyInstance, { health }: { readonly health: Health }): void {
  const app = server.withTypeProvider<ParametersProvider>();

  app.get(
    '/api/health/redis',
    {
      schema: { response: { 200: StoreStatus } },
      config: { scopes: 'open', neverLimited: true, description: storeStatus },
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
      config: { operation: 'health', scopes: ['operations'], description: storeValue },
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
      config: { scopes: ['operations'], description: storeStatistics },
    },
    async (_request, reply) => {
      const statistics = await health.statistics();
      if (!statistics) throw publicErrors.storeUnreachable();
      return reply.header('cache-control', 'no-store').send(statistics);
    },
  );
}

export const storeStatus: RouteDescription = {
  operationId: 'getStoreStatus',
  tag: 'Health',
  summary: 'Whether the key-value store is up',
  text: 'Answers within a second, also when the store hangs.',
  answers: {
    200: ofThisMoment(
      'It answers.',
      { $ref: '#/components/schemas/StoreStatus' },
      { status: 'UP', store: 'redis', message: 'The key-value store answers.', latencyMs: 0.4 },
    ),
  },
  errors: ['storeUnreachable'],
  asksNoStore: true,
};

export const storeValue: RouteDescription = {
  operationId: 'getStoreValue',
  tag: 'Health',
  summary: 'The value of one key of the key-value store',
  text: 'Only keys of this service: an idempotency key by its UUID, a cached transaction as `transactionCache::<id>`.',
  parameters: { key: { text: 'The key.', schema: { type: 'string' }, example: EXAMPLE_KEY } },
  answers: {
    200: ofThisMoment(
      'Its value.',
      { $ref: '#/components/schemas/StoreValue' },
      { key: EXAMPLE_KEY, value: EXAMPLE_PAYMENT_ID, ttlSeconds: 86_400 },
    ),
  },
  errors: ['keyNotFound'],
};

const storeStatistics: RouteDescription = {
  operationId: 'getStoreStatistics',
  tag: 'Health',
  summary: 'Statistics of the key-value store',
  text: 'As the store itself counts. Of a cluster, the sums over its masters.',
  answers: {
    200: ofThisMoment(
      'The statistics.',
      { $ref: '#/components/schemas/StoreStatistics' },
      {
        totalKeys: 12,
        usedMemoryBytes: 1_048_576,
        hits: 90,
        misses: 10,
        expiredKeys: 1,
        evictedKeys: 0,
        connectedClients: 3,
        uptimeSeconds: 3_600,
        version: '7.0.15',
      },
    ),
  },
  errors: ['storeUnreachable'],
  asksNoStore: true,
};
