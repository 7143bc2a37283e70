import { EXAMPLE_KEY, EXAMPLE_PAYMENT_ID } from '../errors/public-errors.js';
import { NO_STORE } from '../openapi/headers.js';
import type { AnswerDescription, JsonSchema, RouteDescription } from '../openapi/route-description.js';

/** The routes of the service itself: health, probes, metrics, and the session of a caller. */

const JSON_TYPE = 'application/json';

function ofThisMoment(text: string, schema: JsonSchema, example: unknown): AnswerDescription {
  return {
    text,
    headers: [NO_STORE],
    content: { mediaType: JSON_TYPE, schema, examples: { now: example } },
  };
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

export const storeStatistics: RouteDescription = {
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

export const livez: RouteDescription = {
  operationId: 'getLiveness',
  tag: 'Operations',
  summary: 'Whether the process works',
  text: 'Asks no store. Answered also while the service starts.',
  answers: {
    200: ofThisMoment(
      'It works.',
      { type: 'object', required: ['status'], properties: { status: { const: 'alive' } }, additionalProperties: false },
      { status: 'alive' },
    ),
  },
  asksNoStore: true,
  isProbe: true,
};

export const readyz: RouteDescription = {
  operationId: 'getReadiness',
  tag: 'Operations',
  summary: 'Whether to send requests to this process',
  text: '`degraded`: payments are taken, and Redis or the processor is down, or Redis is `full`: keys without a reference get 503. Answers within a second.',
  answers: {
    200: ofThisMoment(
      'Send requests here.',
      { $ref: '#/components/schemas/Readiness' },
      { status: 'ready', storeOfRecord: 'up', keyValueStore: 'up', processor: 'up' },
    ),
  },
  errors: ['starting', 'draining', 'storeOfRecordAway'],
  asksNoStore: true,
  isProbe: true,
};

export const metrics: RouteDescription = {
  operationId: 'getMetrics',
  tag: 'Operations',
  summary: "Metrics of the process in Prometheus' text format",
  text: 'Asks no store. Collect each process, not the load balancer.',
  answers: {
    200: {
      text: 'The metrics.',
      headers: [NO_STORE],
      content: {
        mediaType: 'text/plain',
        schema: { type: 'string' },
        examples: { some: 'idempay_payments_total{outcome="processed"} 12\n' },
      },
    },
  },
  asksNoStore: true,
};

export const session: RouteDescription = {
  operationId: 'getSession',
  tag: 'Console',
  isOfPage: true,
  summary: 'The caller, its scopes, and the process that answered',
  text: 'With any scope. Without `AUTH=required` everybody has all of them.',
  answers: {
    200: {
      text: 'The session.',
      headers: [NO_STORE],
      content: {
        mediaType: 'application/json',
        schema: { $ref: '#/components/schemas/Session' },
        examples: {
          operator: {
            client: 'key:operator',
            access: 'required',
            scopes: ['operations', 'metrics'],
            clients: ['key:shop', 'key:operator'],
            version: '0.1.0',
            deployment: 'embedded',
            instance: '6f1d7c1e-0d5c-4b8e-9b53-1d8f3c1f7a10',
            processor: { name: 'simulated', movesMoney: false },
            recovery: { dedupSeconds: 72_000, keyTtlSeconds: 86_400 },
          },
        },
      },
    },
  },
  asksNoStore: true,
};
