import { MINOR_UNITS } from '../../payments/values/currencies.js';
import { MAX_CREATED_TOGETHER } from '../../transactions/creation.js';
import { TRANSACTION_STATUSES } from '../../transactions/transaction.js';
import type { JsonSchema } from './route-description.js';

/**
 * What the bodies of requests may hold, for readers and for clients that are generated. They never judge a request: number
 * text and repeated members are lost on a schema, so the bodies are read by hand (decisions P4 and T2). The test
 * `unit/described-bodies` holds both against each other.
 */

/** Neither a control character nor half of a surrogate pair. Means the same with and without the flag `u`, which some validators leave out. */
const PRINTED = '(?:[^\\u0000-\\u001f\\u007f-\\u009f\\ud800-\\udfff]|[\\ud800-\\udbff][\\udc00-\\udfff])';
const NOT_ALL_ZEROS = '(?=.*[1-9])';
const AT_MOST_15_DIGITS = '(?=(?:\\D*\\d){1,15}\\D*$)';

const currencies = [...MINOR_UNITS.keys()].sort();

/** The decimals that a currency allows in an amount; `pattern` applies to strings only. */
const decimalsByCurrency = [...new Set(MINOR_UNITS.values())].sort().map((decimals) => ({
  if: {
    properties: { currency: { enum: currencies.filter((code) => MINOR_UNITS.get(code) === decimals) } },
    required: ['currency'],
  },
  // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema.
  then: {
    properties: {
      amount: { pattern: decimals === 0 ? '^\\d+$' : `^\\d+(?:\\.\\d{1,${decimals}})?$` },
      currency: {},
    },
  },
}));

const Currency = {
  description:
    'An ISO 4217 code with a minor unit, of a currency that has not ended. Taken in any case, and kept in upper case.',
  type: 'string',
  enum: currencies,
  examples: ['USD'],
};

const PaymentRequest = {
  type: 'object',
  description:
    'Unknown members are ignored. A repeated member is refused. An amount has no more decimals than its currency.',
  required: ['amount', 'currency'],
  properties: {
    amount: {
      description:
        'More than 0, plain digits, at most 15 in all. Send it as a string. A JSON number is taken where its text obeys the rules of the string: `100.50` is, `1e2` is not.',
      anyOf: [
        { type: 'string', pattern: `^${NOT_ALL_ZEROS}${AT_MOST_15_DIGITS}(?:0|[1-9]\\d*)(?:\\.\\d+)?$` },
        { type: 'number', exclusiveMinimum: 0 },
      ],
      examples: ['100.50'],
    },
    currency: { $ref: '#/components/schemas/Currency' },
  },
  allOf: decimalsByCurrency,
};

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

const Resolution = {
  type: 'object',
  description: 'Unknown members are ignored. A repeated member is refused.',
  required: ['outcome', 'reason'],
  properties: {
    outcome: { description: 'Taken in any case.', type: 'string', enum: ['completed', 'declined'] },
    reason: {
      description: 'How the outcome was found out: 1 to 500 characters on one line, without the spaces around them.',
      type: 'string',
      pattern: `^\\s*(?!\\s)${PRINTED}(?:${PRINTED}{0,498}(?!\\s)${PRINTED})?\\s*$`,
      examples: ['on the bank statement of 2026-11-20'],
    },
  },
};

export const BODY_SCHEMAS = {
  Currency,
  TransactionStatus,
  PaymentRequest,
  NewTransaction,
  NewTransactions,
  StatusChange,
  Resolution,
} satisfies Record<string, JsonSchema>;
