import { MAX_CREATED_TOGETHER } from '../../transactions/creation.js';
import { TRANSACTION_STATUSES } from '../../transactions/transaction.js';
import { AT_MOST_15_DIGITS, moment, NOT_ALL_ZEROS, PRINTED, whole } from '../openapi/json-schema.js';
import type { JsonSchema } from '../openapi/route-description.js';

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

const Transaction = whole(transactionMembers, 'One transaction.');

const FoundTransaction = whole(
  {
    ...transactionMembers,
    etag: {
      type: 'string',
      pattern: '^"[0-9a-f]{32}"$',
      description: 'Its tag, as the header `If-Match` takes it.',
    },
  },
  'One transaction that a search found.',
);

const CreatedTransactions = whole(
  {
    transactions: { type: 'array', minItems: 1, items: { $ref: '#/components/schemas/Transaction' } },
  },
  'What one request created.',
);

/** Bodies of requests, which are read by hand. `payments/schemas.ts` says why. */

const account = {
  type: 'string',
  minLength: 1,
  maxLength: 64,
  pattern: `^${PRINTED}*$`,
  examples: ['alice'],
};
const TransactionStatus = { type: 'string', enum: TRANSACTION_STATUSES };
const status = { $ref: '#/components/schemas/TransactionStatus' };

const NewTransaction = {
  type: 'object',
  description: 'Unknown members are ignored. A repeated member is refused. `fromAccount` and `toAccount` must differ.',
  required: ['fromAccount', 'toAccount', 'amount'],
  properties: {
    fromAccount: { ...account, description: 'Kept and compared as sent, byte by byte.' },
    toAccount: { ...account, description: 'Another account than `fromAccount`.', examples: ['bob'] },
    amount: {
      description:
        'More than 0, at most 14 digits before and 4 after the point, 15 in all. A JSON number is judged by its text, and may have an exponent (of at most two digits) and trailing zeros where its exact value obeys the rule; a string may not have an exponent.',
      anyOf: [
        {
          type: 'string',
          pattern: `^${NOT_ALL_ZEROS}${AT_MOST_15_DIGITS}(?:0|[1-9]\\d{0,13})(?:\\.\\d{1,4})?$`,
        },
        { type: 'number', exclusiveMinimum: 0, exclusiveMaximum: 1e14 },
      ],
      examples: ['12.34'],
    },
    // No `default`: generators of clients would make the member one that must be sent.
    status: { ...status, description: '`PENDING` where it is absent.' },
  },
};

const NewTransactions = {
  type: 'object',
  description: 'Unknown members are ignored. A repeated member is refused.',
  required: ['transactions'],
  properties: {
    transactions: {
      type: 'array',
      minItems: 1,
      maxItems: MAX_CREATED_TOGETHER,
      items: { $ref: '#/components/schemas/NewTransaction' },
    },
  },
};

const StatusChange = {
  type: 'object',
  description: 'Unknown members are ignored. A repeated member is refused.',
  required: ['status'],
  properties: { status },
};

export const TRANSACTION_SCHEMAS = {
  Transaction,
  FoundTransaction,
  CreatedTransactions,
  TransactionStatus,
  NewTransaction,
  NewTransactions,
  StatusChange,
} satisfies Record<string, JsonSchema>;
