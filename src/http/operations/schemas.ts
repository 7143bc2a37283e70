import { Type } from 'typebox';
import { SCOPES } from '../../access/scopes.js';
import { orNull, whole } from '../openapi/json-schema.js';
import type { JsonSchema } from '../openapi/route-description.js';
import { PROCESSOR } from '../payments/schemas.js';

/** Those of TypeBox also write the answers (`schema.response` of their routes). */
export const StoreStatus = Type.Object({
  status: Type.Literal('UP'),
  store: Type.String({ description: '`redis` or `embedded`.' }),
  message: Type.String(),
  latencyMs: Type.Number({ description: 'Milliseconds that the store took.' }),
});

export const StoreValue = Type.Object({
  key: Type.String(),
  value: Type.String({ description: 'Of an idempotency key: `KEY GENERATED`, then the transaction id or `DECLINED`.' }),
  ttlSeconds: Type.Union([Type.Integer(), Type.Null()], { description: 'Null: it does not expire.' }),
});

export const StoreStatistics = Type.Object({
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

const PartState = Type.Union([Type.Literal('up'), Type.Literal('away')]);
export const Readiness = Type.Object({
  status: Type.Union([Type.Literal('ready'), Type.Literal('degraded')]),
  storeOfRecord: PartState,
  keyValueStore: Type.Union([...PartState.anyOf, Type.Literal('full')]),
  processor: PartState,
});

const Session = whole(
  {
    client: orNull({
      type: 'string',
      description: '`key:NAME`, `jwt:APPLICATION` or `jwt-sub:SUBJECT`. Null without `AUTH=required`.',
    }),
    access: { type: 'string', enum: ['none', 'required'] },
    scopes: { type: 'array', items: { type: 'string', enum: SCOPES } },
    clients: {
      type: 'array',
      items: { type: 'string' },
      description: 'For operators: the clients of the file of API keys, to choose one whose order is meant.',
    },
    version: { type: 'string' },
    deployment: { type: 'string', enum: ['embedded', 'distributed'] },
    instance: { type: 'string', format: 'uuid', description: 'The process that answered, until it ends.' },
    processor: whole(
      {
        name: { type: 'string', description: PROCESSOR },
        movesMoney: {
          type: ['boolean', 'null'],
          description: 'Whether payments move money. Null: the processor has not answered yet.',
        },
      },
      'Who moves the money.',
    ),
    recovery: whole(
      {
        dedupSeconds: {
          type: 'integer',
          description: 'Seconds after its claim in which a payment may be sent again (`PROCESSOR_DEDUP_SECONDS`).',
        },
        keyTtlSeconds: {
          type: 'integer',
          description: 'Seconds that an idempotency key lives (`IDEMPOTENCY_TTL_SECONDS`).',
        },
      },
      'How long the service itself can finish a payment.',
    ),
  },
  'The caller, its scopes, and the process that answered.',
);

export const OPERATION_SCHEMAS = {
  Session,
  StoreStatus,
  StoreValue,
  StoreStatistics,
  Readiness,
} satisfies Record<string, JsonSchema>;
