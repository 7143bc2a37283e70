import type { FastifyReply } from 'fastify';
import type { ShownPayment } from '../../payments/history/payment-records.js';
import { paymentJson, paymentTag } from '../../payments/history/payment-representation.js';
import type { ClaimedPayment } from '../../payments/ports/payment-history.js';
import type { Action } from '../../payments/ports/processor.js';
import { readKeyHeader } from '../../payments/values/idempotency-key.js';
import {
  EXAMPLE_KEY,
  EXAMPLE_PAYMENT_ID,
  EXAMPLE_REFUND_ID,
  EXAMPLE_REFUND_KEY,
  publicErrors,
} from '../errors/catalogue.js';
import { ETAG, REVALIDATE as REVALIDATE_HEADER } from '../openapi/headers.js';
import { moment, orNull, whole } from '../openapi/json-schema.js';
import type { AnswerDescription, ParameterDescription } from '../openapi/route-description.js';
import { quoted, REVALIDATE } from '../requests/entity-tags.js';
import { pathSchema } from '../requests/parameter-schemas.js';

// One payment as clients and operators look at it, at the path of its key.

export const STATES = ['PROCESSING', 'COMPLETED', 'DECLINED', 'CANCELLED'] as const;

/** `/api/payments/{key}` */
export const PaymentPath = pathSchema('key');

/** A payment, its timeline and its refunds are shown to its client, to operators, and to those who may read all payments. */
export const READ_BY_KEY = {
  operation: 'payment status',
  scopes: ['payments:read', 'operations', 'payments:read:all'],
} as const;

/** The key in a path, in any case, as in the header of a payment. Throws `notFound`, a 404, for text that is no key. */
export function keyIn({ key }: { key: string }, notFound = publicErrors.paymentNotFound): string {
  const header = readKeyHeader(key);
  if (header.state !== 'present') throw notFound();
  return header.key;
}

export const operatorsJson = (payment: ShownPayment) => paymentJson(payment, undefined);

export function sendPayment(reply: FastifyReply, json: string): void {
  withTag(reply, json).header('content-type', 'application/json; charset=utf-8').send(json);
}

export function withTag(reply: FastifyReply, json: string): FastifyReply {
  return reply.header('etag', quoted(paymentTag(json))).header('cache-control', REVALIDATE);
}

export const keyParameter: ParameterDescription = {
  text: 'The idempotency key, in any case.',
  schema: { type: 'string' },
  example: EXAMPLE_KEY,
};

export const shownPayment = (text: string, examples: Readonly<Record<string, unknown>>): AnswerDescription => ({
  text,
  headers: [ETAG, REVALIDATE_HEADER],
  content: { mediaType: 'application/json', schema: { $ref: '#/components/schemas/Payment' }, examples },
});

/** The examples are written by the functions that write the answers, so that they cannot say anything else. */
export const completed: ClaimedPayment = {
  key: EXAMPLE_KEY,
  reference: undefined,
  attempt: undefined,
  state: 'COMPLETED',
  amount: '100.50',
  currency: 'USD',
  description: undefined,
  metadata: undefined,
  transactionId: EXAMPLE_PAYMENT_ID,
  client: undefined,
  processor: 'simulated',
  executions: 1,
  claimedAt: Date.UTC(2026, 10, 20, 13, 0, 1),
  settledAt: Date.UTC(2026, 10, 20, 13, 0, 2),
  reason: undefined,
  resolution: undefined,
};

export const examplePayment = (changes: Partial<ClaimedPayment> = {}): unknown => shown({ ...completed, ...changes });

const refund: ClaimedPayment = {
  ...completed,
  key: EXAMPLE_REFUND_KEY,
  amount: '12.50',
  transactionId: EXAMPLE_REFUND_ID,
  claimedAt: Date.UTC(2026, 10, 21, 12),
  settledAt: Date.UTC(2026, 10, 21, 12, 0, 1),
  refund: { payment: EXAMPLE_KEY, name: 'line-2', reason: 'returned' },
};

export const exampleRefund = (changes: Partial<ClaimedPayment> = {}): unknown => shown({ ...refund, ...changes });

export const PENDING_UNTIL_MS = Date.UTC(2026, 10, 20, 14);
const pending = { ...completed, state: 'PROCESSING', settledAt: undefined, pendingUntil: PENDING_UNTIL_MS } as const;

/** An example of the record in a 202; `action` is only in this answer. */
export const examplePending = (action?: Action): unknown => JSON.parse(paymentJson(pending, undefined, action));

export function shown(payment: ShownPayment): unknown {
  return JSON.parse(paymentJson(payment, undefined));
}

export const PROCESSOR =
  'Who moves the money. One over HTTP is `http` for clients, and its address and account with the scope `operations`.';

const until = {
  ...moment,
  description: 'When the processor expects its end. It may move.',
};

const PROPERTIES = {
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
};

const OPTIONAL = {
  client: {
    type: 'string',
    description: 'For operators: whose payment it is, if it has a client.',
    examples: ['key:shop'],
  },
  ending: {
    type: 'string',
    enum: ['order', 'attempt'],
    description: 'If a cancellation ends the payment, or has ended it: for the whole order, or for this attempt only.',
  },
  refunded: {
    type: 'string',
    description: 'The sum of its refunds that are not declined, once one was made. With all decimals of the currency.',
    examples: ['12.50'],
  },
  refund: whole(
    {
      payment: { type: 'string', format: 'uuid', description: 'The key of the payment.' },
      name: { type: 'string', description: 'The name of this refund. Each refund of a payment has its own.' },
      reason: orNull({ type: 'string', description: 'Why it is given back, as the request said.' }),
    },
    'Only in a refund, which gives a part of a payment back.',
  ),
  processorId: {
    type: 'string',
    pattern: '^[!-~]{1,255}$',
    description: "The processor's own name of the charge, if it gave one.",
    examples: ['pi_3PqX2cAbCdEf'],
  },
};

export const PaymentSchema = whole(PROPERTIES, 'One payment. What it does not have (yet) is null.', {
  ...OPTIONAL,
  pending: whole(
    { until },
    'If the payment is pending, which is a part of `PROCESSING`: its payer must confirm it, or the processor takes time.',
  ),
});

/** The answer to a payment whose outcome takes time. */
export const PendingPaymentSchema = whole(
  {
    ...PROPERTIES,
    state: { const: 'PROCESSING' },
    pending: whole({ until }, undefined, {
      action: {
        type: 'object',
        maxProperties: 20,
        additionalProperties: { type: 'string' },
        description:
          'What the payer needs to confirm, as the adapter of the processor gave it: `url` is a page for the browser. Give it only to the session that owns the order. Absent if the payer has nothing to do.',
      },
    }),
  },
  'A payment that is pending, with what its payer can do. Repeat the request to learn its outcome.',
  OPTIONAL,
);
