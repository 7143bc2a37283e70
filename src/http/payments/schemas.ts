import {
  MOST_DESCRIPTION,
  MOST_METADATA,
  MOST_METADATA_NAME,
  MOST_METADATA_VALUE,
  MOST_SOURCE,
} from '../../payments/values/content.js';
import { MINOR_UNITS } from '../../payments/values/currencies.js';
import { AT_MOST_15_DIGITS, moment, NOT_ALL_ZEROS, orNull, PRINTED, whole } from '../openapi/json-schema.js';
import type { JsonSchema } from '../openapi/route-description.js';
import { STATES } from './record-request.js';

export const PROCESSOR =
  'Who moves the money. One over HTTP is `http` for clients, and its address and account with the scope `operations`.';

const Payment = whole(
  {
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
    description: orNull({ type: 'string', description: 'What it is for, as its first claim said.' }),
    metadata: orNull({ type: 'object', additionalProperties: { type: 'string' } }),
    transactionId: orNull({ type: 'string', pattern: '^TXN\\d+$' }),
    processor: orNull({ type: 'string', description: PROCESSOR }),
    executions: { type: 'integer', minimum: 0, description: 'The first claim and each takeover.' },
    reason: orNull({ type: 'string', description: 'Why it was declined.' }),
    resolution: orNull({ type: 'string', description: 'How an operator found out the outcome.' }),
    createdAt: {
      ...orNull(moment),
      description: 'When the key was generated; for a computed one, the time of its first claim.',
    },
    claimedAt: { ...orNull(moment), description: 'When it was paid with for the first time.' },
    settledAt: { ...orNull(moment), description: 'When the outcome was written.' },
  },
  'One payment. What it does not have (yet) is null.',
  {
    client: {
      type: 'string',
      description: 'For operators: whose payment it is, if it has a client.',
      examples: ['key:shop'],
    },
  },
);

/**
 * What the bodies of requests may hold, for readers and for clients that are generated. They never judge a request: number
 * text and repeated members are lost on a schema, so the bodies are read by hand (rules P4 and T2). The test
 * `unit/described-bodies` holds both against each other.
 */

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
    'An ISO 4217 code of money in use, with decimals or, such as JPY, without. Taken in any case, and kept in upper case.',
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
    source: {
      description:
        'Stands for the payer at your processor; never a card number. It is sent with the charge, and erased when the payment is final.',
      type: 'string',
      pattern: `^[!-~]{1,${MOST_SOURCE}}$`,
      examples: ['tok_1a2b3c'],
    },
    description: {
      description:
        'What is paid. A repeat may have another one, and another `source` and `metadata`: those of the first claim are charged.',
      type: 'string',
      minLength: 1,
      maxLength: MOST_DESCRIPTION,
    },
    metadata: {
      type: 'object',
      maxProperties: MOST_METADATA,
      propertyNames: { minLength: 1, maxLength: MOST_METADATA_NAME },
      additionalProperties: { type: 'string', maxLength: MOST_METADATA_VALUE },
    },
  },
  allOf: decimalsByCurrency,
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

export const PAYMENT_SCHEMAS = { Payment, Currency, PaymentRequest, Resolution } satisfies Record<string, JsonSchema>;
