import { Type } from 'typebox';
import { SCOPES } from '../../access/scopes.js';
import { STATES } from '../payments/record-request.js';
import type { JsonSchema } from './route-description.js';

const moment = { type: 'string', format: 'date-time', examples: ['2026-11-20T13:00:00.000Z'] };
const orNull = ({ type, ...rest }: { type: string; [keyword: string]: unknown }) => ({ ...rest, type: [type, 'null'] });

/** With every member required and no other, as each answer has it. */
function whole(description: string, properties: Readonly<Record<string, JsonSchema>>): JsonSchema {
  return { type: 'object', description, required: Object.keys(properties), properties, additionalProperties: false };
}

const PROCESSOR =
  'Who moves the money. One over HTTP is `http` for clients, and its address and account with the scope `operations`.';

const Problem = whole('Every error of the service has this body.', {
  status: { type: 'integer', description: 'The HTTP status code.' },
  error: { type: 'string', description: 'The HTTP reason phrase.' },
  message: { type: 'string', description: 'What happened, and what to do.' },
});

const transactionMembers = {
  transactionId: {
    type: 'integer',
    format: 'int64',
    minimum: 100_000_000_000_001,
    maximum: 999_999_999_999_999,
    description: 'Always 15 digits, so that every reader of JSON numbers reads it exactly. Never used twice.',
  },
  fromAccount: { type: 'string', minLength: 1, maxLength: 64 },
  toAccount: { type: 'string', minLength: 1, maxLength: 64 },
  amount: {
    type: 'number',
    exclusiveMinimum: 0,
    description: 'Exact: at most 15 digits, which survive every reader of JSON numbers.',
  },
  status: { $ref: '#/components/schemas/TransactionStatus' },
  createdAt: moment,
};

const Transaction = whole('One transaction.', transactionMembers);

const FoundTransaction = whole('One transaction that a search found.', {
  ...transactionMembers,
  etag: {
    type: 'string',
    pattern: '^"[0-9a-f]{32}"$',
    description: 'Its tag, as the header `If-Match` takes it.',
  },
});

const CreatedTransactions = whole('What one request created.', {
  transactions: { type: 'array', minItems: 1, items: { $ref: '#/components/schemas/Transaction' } },
});

const Payment = whole('One payment. What it does not have (yet) is null.', {
  idempotencyKey: { type: 'string', format: 'uuid' },
  reference: orNull({
    type: 'string',
    description: 'What is paid, where the key is computed from it.',
    examples: ['order-17'],
  }),
  attempt: orNull({ type: 'integer', minimum: 1, maximum: 99, description: 'Which attempt at the reference.' }),
  state: {
    type: 'string',
    enum: ['PENDING', ...STATES],
    description:
      '`PENDING`: the key is issued. `PROCESSING`: under way, or its outcome is not known yet. `COMPLETED`, `DECLINED` and `CANCELLED` are final.',
  },
  amount: orNull({ type: 'string', description: 'With all decimals of the currency.', examples: ['100.50'] }),
  currency: orNull({ type: 'string', examples: ['USD'] }),
  transactionId: orNull({ type: 'string', pattern: '^TXN\\d+$' }),
  processor: orNull({ type: 'string', description: PROCESSOR }),
  executions: { type: 'integer', minimum: 0, description: 'The first claim and each takeover.' },
  reason: orNull({ type: 'string', description: 'Why it was declined.' }),
  resolution: orNull({ type: 'string', description: 'How an operator found out the outcome.' }),
  createdAt: { ...orNull(moment), description: 'When the key was generated; null for a computed one.' },
  claimedAt: { ...orNull(moment), description: 'When it was paid with for the first time.' },
  settledAt: { ...orNull(moment), description: 'When the outcome was written.' },
});

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
  keyValueStore: PartState,
  processor: PartState,
});

const Session = whole('The caller, its scopes, and the process that answered.', {
  client: orNull({
    type: 'string',
    description: '`key:NAME`, `jwt:APPLICATION` or `jwt-sub:SUBJECT`. Null without `AUTH=required`.',
  }),
  access: { type: 'string', enum: ['none', 'required'] },
  scopes: { type: 'array', items: { type: 'string', enum: SCOPES } },
  version: { type: 'string' },
  deployment: { type: 'string', enum: ['embedded', 'distributed'] },
  instance: { type: 'string', format: 'uuid', description: 'The process that answered, until it ends.' },
  processor: whole('Who moves the money.', {
    name: { type: 'string', description: PROCESSOR },
    movesMoney: {
      type: ['boolean', 'null'],
      description: 'Whether payments move money. Null: the processor has not answered yet.',
    },
  }),
  recovery: whole('How long the service itself can finish a payment.', {
    dedupSeconds: {
      type: 'integer',
      description: 'Seconds after its claim in which a payment may be sent again (`PROCESSOR_DEDUP_SECONDS`).',
    },
    keyTtlSeconds: {
      type: 'integer',
      description: 'Seconds that an idempotency key lives (`IDEMPOTENCY_TTL_SECONDS`).',
    },
  }),
});

export const ANSWER_SCHEMAS = {
  Session,
  Problem,
  Transaction,
  FoundTransaction,
  CreatedTransactions,
  Payment,
  StoreStatus,
  StoreValue,
  StoreStatistics,
  Readiness,
} satisfies Record<string, JsonSchema>;
