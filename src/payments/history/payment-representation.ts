import { createHash } from 'node:crypto';
import { safeJson } from '../../platform/safe-json.js';
import type { PaymentRecord } from '../ports/payment-history.js';
import type { Action } from '../ports/processor.js';
import { shownProcessor } from '../processors/processor-url.js';
import { isComputed } from '../values/computed-key.js';
import { keyTimeOf } from '../values/idempotency-key.js';
import { amountOfUnits } from '../values/money.js';
import type { ProcessorKnowledge } from './ask-processor.js';
import type { ShownPayment } from './payment-records.js';
import type { Timeline } from './timeline.js';

/**
 * One payment as a caller sees it: always with every member but the last ones; null if it has no value (yet). Amounts are exact text.
 * `client` is undefined for a caller who sees all payments. `action` is only for the answer to the payer of a pending payment.
 */
export function paymentJson(payment: ShownPayment, client: string | undefined, action?: Action): string {
  const row: Partial<Omit<PaymentRecord, 'state'>> = payment;
  return safeJson({
    idempotencyKey: payment.key,
    reference: row.reference ?? null,
    attempt: row.attempt ?? null,
    state: payment.state,
    amount: row.amount ?? null,
    currency: row.currency ?? null,
    description: row.description ?? null,
    metadata: row.metadata ?? null,
    transactionId: row.transactionId ?? null,
    processor: row.processor === undefined ? null : shownProcessor(row.processor, client),
    executions: row.executions ?? 0,
    reason: row.reason ?? null,
    resolution: row.resolution ?? null,
    // A computed key has no time of its own, so it counts from its first claim.
    createdAt: isoTime(isComputed(payment.key) ? row.claimedAt : keyTimeOf(payment.key)),
    claimedAt: isoTime(row.claimedAt),
    settledAt: isoTime(row.settledAt),
    ...openMembersOf(row, action),
    ...refundMembersOf(row),
    // For operators, and only if the payment has one. A client sees its own payments, and payments that belong to nobody.
    ...(client === undefined && row.client !== undefined && { client: row.client }),
  });
}

/** The members that few payments have; absent if a payment lacks them. */
function openMembersOf(
  { pendingUntil, ending, processorId }: Pick<Partial<PaymentRecord>, 'pendingUntil' | 'ending' | 'processorId'>,
  action: Action | undefined,
): object {
  return {
    ...(pendingUntil !== undefined && { pending: { until: isoTime(pendingUntil), ...(action && { action }) } }),
    ...(ending && { ending }),
    ...(processorId !== undefined && { processorId }),
  };
}

/** The sum of a payment's refunds, once one was made; and of a refund, its payment and its name there. */
function refundMembersOf({
  refund,
  refundedUnits,
  currency,
}: Pick<Partial<PaymentRecord>, 'refund' | 'refundedUnits' | 'currency'>): object {
  return {
    ...(refundedUnits !== undefined && { refunded: amountOfUnits(refundedUnits, currency ?? '') }),
    ...(refund && { refund: { payment: refund.payment, name: refund.name, reason: refund.reason ?? null } }),
  };
}

/** A tag over all that is shown (RFC 9110 8.8.3), without quotes. */
export function paymentTag(json: string): string {
  return createHash('md5').update(json).digest('hex');
}

/** Always with every member; null if it has no value. */
export function timelineJson({ key, state, events, omitted, next }: Timeline): string {
  return JSON.stringify({
    idempotencyKey: key,
    state,
    events: events.map(({ at, event, execution, process, by, detail }) => ({
      at: isoTime(at),
      event,
      execution: execution ?? null,
      process: process ?? null,
      by: by ?? null,
      detail: detail ?? null,
    })),
    omitted,
    next: {
      what: next.what,
      at: isoTime(next.at),
      resolvableAt: isoTime(next.resolvableAt),
      text: next.text,
    },
  });
}

/** Always with every member; null if it has no value. */
export function processorAnswerJson(
  key: string,
  { processor, askedAt, answer, reason }: Extract<ProcessorKnowledge, { state: 'answered' }>,
): string {
  const askedAtText = new Date(askedAt).toISOString();
  return JSON.stringify({ idempotencyKey: key, processor, askedAt: askedAtText, answer, reason: reason ?? null });
}

/** A time that no date has is shown as none: a processor may deduplicate for ever. */
export function isoTime(ms: number | undefined): string | null {
  return ms === undefined || !Number.isFinite(ms) ? null : new Date(ms).toISOString();
}
