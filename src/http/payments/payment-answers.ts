import type { FastifyReply } from 'fastify';
import type { PendingAnswer } from '../../payments/answers.js';
import type { PaymentRecords } from '../../payments/history/payment-records.js';
import { paymentJson } from '../../payments/history/payment-representation.js';
import type { Payments } from '../../payments/payments.js';
import type { NamedPayment } from '../../payments/values/reference.js';
import { afterWrite, StoreUnavailable } from '../../platform/faults.js';
import { sendError } from '../errors/error-answers.js';
import type { PublicError } from '../errors/public-error.js';
import { always, sometimes } from '../openapi/headers.js';
import type { RequestHeader } from '../openapi/route-description.js';
import { prefersProblem } from '../requests/accept.js';
import { visibleClient } from '../requests/access-check.js';
import { sendJson } from '../requests/json-answer.js';
import { prefersAsync, prefersRepresentation } from '../requests/prefer.js';

// Rule P1: every answer of spec 4.1 is JSON text that no cache may store.

const APPLIED_HEADER = 'preference-applied';

/** A payment that is completed, and the sentence of spec 2.4. */
export interface Paid {
  readonly transactionId: string;
  readonly sentence: string;
}

/** The record of the payment, if the request prefers it (rule P20); else the sentence. */
export async function sendPaid(
  paidRecord: PaidRecord,
  reply: FastifyReply,
  { key, transactionId, sentence }: Paid & { readonly key: string },
): Promise<void> {
  const { request } = reply;
  const record = prefersRepresentation(request.headers.prefer)
    ? await paidRecord(key, transactionId, visibleClient(request))
    : undefined;
  if (record === undefined) sendText(reply, sentence);
  else sendJson(withPreference(reply, 'return=representation'), record);
}

/**
 * The record of a payment that is paid, as `GET /api/payments/{key}` gives it to `client` (rule P20). Undefined if the row cannot be read,
 * or does not have this outcome, because it was lost. The outcome is known all the same, so a store that is down never withholds it.
 */
export type PaidRecord = (
  key: string,
  transactionId: string,
  client: string | undefined,
) => Promise<string | undefined>;

export function createPaidRecord(read: PaymentRecords['get']): PaidRecord {
  return async (key, transactionId, client) => {
    const payment = await read(key, client).catch((fault: unknown) => {
      if (!(fault instanceof StoreUnavailable)) throw fault;
    });
    if (payment?.state !== 'COMPLETED' || payment.transactionId !== transactionId) return undefined;
    return paymentJson(payment, client);
  };
}

/** The record of a pending payment with what its payer can do (rule P24): the only answer that has the action. */
export function sendPending(reply: FastifyReply, record: string, retryAfterSeconds: number): void {
  if (prefersAsync(reply.request.headers.prefer)) withPreference(reply, 'respond-async');
  sendJson(reply.code(202).header('retry-after', String(retryAfterSeconds)), record);
}

/** The record of a pending payment, or undefined if its row is not pending any more. */
export type PendingRecord = (answer: PendingAnswer, client: string | undefined) => Promise<string | undefined>;

export function createPendingRecord(read: PaymentRecords['get']): PendingRecord {
  return async ({ payment: { key, untilMs }, action }, client) => {
    const payment = await afterWrite(read(key, client));
    if (payment.state !== 'PROCESSING' || payment.pendingUntil === undefined) return undefined;
    // The processor may have said another time since the row was written.
    return paymentJson({ ...payment, pendingUntil: untilMs }, client, action);
  };
}

/**
 * The charge is read only for a program that asks for it (rule P20), and not if the refusal itself says that it is not known: 409, and from
 * 500 on.
 */
export async function refuse(
  payments: Pick<Payments, 'tellCharge'>,
  reply: FastifyReply,
  error: PublicError,
  payment: NamedPayment,
): Promise<void> {
  const mayBeKnown = error.status < 500 && error.status !== 409;
  const isAsked = mayBeKnown && prefersProblem(reply.request.headers.accept);
  sendError(reply, error, isAsked ? { charge: await payments.tellCharge(payment) } : undefined);
}

/** Names a preference of the request that was applied, after the ones that were named before. */
export function withPreference(reply: FastifyReply, applied: string): FastifyReply {
  const before = reply.getHeader(APPLIED_HEADER);
  return reply.header(APPLIED_HEADER, before === undefined ? applied : `${before}, ${applied}`);
}

/** A JSON document of one string (spec 2.4). The texts are ours and hold nothing that would need escaping. */
export function sendText(reply: FastifyReply, text: string): void {
  sendJson(reply, `"${text}"`);
}

export const PREFER: RequestHeader = {
  name: 'Prefer',
  text: '`wait=N` (RFC 7240): a duplicate of a payment under way waits up to N seconds, at most 30, for its outcome. `return=representation`: a payment that is paid is answered with its record, as `getPayment` has it, and not with a sentence. `respond-async`: a payment that is pending is answered with 202, also without a `returnUrl`. All may be sent. What is malformed is ignored.',
  required: false,
  schema: { type: 'string' },
};

export const PREFERENCE_APPLIED = sometimes(
  always(
    'Preference-Applied',
    'What was done of what `Prefer` asked for: the request waited, for at most this number of seconds; the body is the record of the payment; the payment is pending, and the answer says so.',
    {
      type: 'string',
      pattern:
        '^(wait=([1-9]|[12][0-9]|30)(, return=representation|, respond-async)?|return=representation|respond-async)$',
    },
    'wait=10',
  ),
);

/** With `Prefer: return=representation` the record, if its row can be read. */
export const sentenceOrRecord = (pattern: string) => ({
  anyOf: [{ type: 'string', pattern }, { $ref: '#/components/schemas/Payment' }],
});
