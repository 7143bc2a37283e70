import {
  RESOLVABLE_AFTER_CLAIM_MS,
  RESOLVABLE_AFTER_UNTIL_MS,
  type SettleResult,
} from '../../payments/ports/ledger.js';
import type { PaymentEvent, PaymentLife, PaymentRecord } from '../../payments/ports/payment-history.js';
import type { Content } from '../../payments/values/content.js';
import type {
  Claim,
  EndingScope,
  ExecutionNote,
  Fence,
  FinalOutcome,
  Outcome,
  PendingPayment,
  UnsentMark,
} from '../../payments/values/payment.js';
import type { RefundPart } from '../../payments/values/refund.js';

/** A payment that is COMPLETED or DECLINED, as both databases give it. */
export interface FinalRow {
  readonly state: PaymentRecord['state'];
  readonly transaction_id: string;
  readonly reason: string | null;
  readonly fingerprint: string;
  /** The client whose key it is. If it is null, every client sees the key. */
  readonly client: string | null;
  /** Milliseconds since the epoch; of a payment with a reference, as long from now as it was from its end. */
  readonly expires_at: number | null;
}

export function finalOf(row: FinalRow): FinalOutcome {
  const outcome: Outcome =
    row.state === 'COMPLETED'
      ? { state: 'COMPLETED', transactionId: row.transaction_id }
      : { state: 'DECLINED', reason: row.reason ?? '' };
  return { outcome, fingerprint: row.fingerprint, client: row.client ?? undefined, expiresAt: row.expires_at ?? 0 };
}

/** The result for an attempt that could not settle the row. */
export function settledElsewhere(row: FinalRow | undefined): Exclude<SettleResult, { state: 'settled' }> {
  if (!row || row.state === 'PROCESSING') return { state: 'fenced off' };
  return row.state === 'CANCELLED' ? { state: 'cancelled' } : { state: 'final', final: finalOf(row) };
}

/** As both databases keep the mark of an epoch that is given up: negative if an earlier row may have been lost, 0 if it was charged. */
export function unsentEpochOf({ epoch }: Pick<Fence, 'epoch'>, mark: UnsentMark | undefined): number | null {
  if (mark === undefined) return null;
  if (mark === 'charged an amount that is not known') return 0;
  return mark === 'unsent' ? epoch : -epoch;
}

/** The mark of the epoch before, if a takeover has begun this one. A mark says nothing to a later epoch. */
export function unsentMarkBefore(row: {
  readonly epoch: number;
  readonly unsent_epoch: number | null;
}): UnsentMark | undefined {
  if (row.unsent_epoch === 0) return undefined;
  if (row.unsent_epoch === row.epoch - 1) return 'unsent';
  return row.unsent_epoch === 1 - row.epoch ? 'unsent since a loss' : undefined;
}

/** As both databases keep it. */
export function reasonOf(outcome: Outcome | undefined): string | null {
  return outcome?.state === 'DECLINED' ? outcome.reason : null;
}

/** The columns of a refund; all of them are null in a payment's row. */
export interface RefundColumns {
  /** The key of the payment that was charged. */
  readonly refund_of: string | null;
  readonly refund_name: string | null;
  readonly refund_reason: string | null;
  readonly refund_charge_id: string | null;
}

/** Undefined for a payment. */
function refundPartOf(row: RefundColumns): RefundPart | undefined {
  if (row.refund_of === null || row.refund_name === null) return undefined;
  const [reason, chargeId] = [row.refund_reason ?? undefined, row.refund_charge_id ?? undefined];
  return { payment: row.refund_of, name: row.refund_name, reason, chargeId };
}

/** A payment for clients and operators, as both databases give it. Times: milliseconds since the epoch. */
export interface HistoryRow extends RefundColumns {
  readonly key: string;
  readonly state: PaymentRecord['state'];
  readonly transaction_id: string;
  /** Null, as the currency and the processor, if it was cancelled. */
  readonly amount: string | null;
  readonly currency: string | null;
  readonly client: string | null;
  readonly processor: string | null;
  readonly epoch: number;
  readonly claimed_at: number;
  readonly settled_at: number | null;
  readonly reason: string | null;
  readonly resolution: string | null;
  readonly reference: string | null;
  readonly attempt: number | null;
  /** The description and the metadata, as JSON. */
  readonly content: string | null;
  readonly pending_until: number | null;
  readonly ending: EndingScope | null;
  readonly processor_id: string | null;
  /** The sum of its refunds that are not declined, in minor units; null before the first one. */
  readonly refunded: number | null;
}

/** The columns of a payment that may wait at the processor, or end there. Times: milliseconds since the epoch. */
interface OpenRow extends FinalRow, RefundColumns {
  readonly key: string;
  readonly amount: string | null;
  readonly currency: string | null;
  readonly processor: string | null;
  readonly reference: string | null;
  readonly attempt: number | null;
  /** True if an earlier row of its key may have been lost before the claim. */
  readonly claimed_after_loss: boolean | number | null;
  readonly pending_until: number | null;
  readonly ending: EndingScope | null;
  readonly processor_id: string | null;
}

type OpenMembers = Pick<Claim, 'refund' | 'claimedAfterLoss' | 'isPending' | 'ending' | 'processorId'>;

/** The members of a claim that most claims do not have. */
export function openMembersOf(row: OpenRow): OpenMembers {
  return {
    ...(row.refund_of !== null && { refund: refundPartOf(row) }),
    ...(row.claimed_after_loss && { claimedAfterLoss: true }),
    ...(row.pending_until !== null && { isPending: true }),
    ...(row.ending !== null && { ending: row.ending }),
    ...(row.processor_id !== null && { processorId: row.processor_id }),
  };
}

/** The pending payment of a row that is PROCESSING and has the time of its expected end. `remainingMs` is the rest of its lease. */
export function pendingOf(row: OpenRow & { readonly pending_until: number }, remainingMs: number): PendingPayment {
  const [amount, currency, processor] = [row.amount, row.currency, row.processor] as [string, string, string];
  const { isPending: _, ...members } = openMembersOf(row);
  return {
    key: row.key,
    transactionId: row.transaction_id,
    amount,
    currency,
    fingerprint: row.fingerprint,
    client: row.client ?? undefined,
    processor,
    reference: row.reference ?? undefined,
    attempt: row.attempt ?? undefined,
    ...members,
    untilMs: row.pending_until,
    remainingMs,
  };
}

/** True for a row that waits at the processor: the time of its expected end stays in it when it is final. */
export function isPending<Row extends Pick<OpenRow, 'state' | 'pending_until'>>(
  row: Row,
): row is Row & { readonly pending_until: number } {
  return row.state === 'PROCESSING' && row.pending_until !== null;
}

/** The time until an operator may resolve a pending payment, which has this age by the clock that says `now`. */
export function unresolvableMs(row: { readonly pending_until: number }, now: number, ageMs: number): number {
  return Math.max(0, Math.min(row.pending_until + RESOLVABLE_AFTER_UNTIL_MS - now, RESOLVABLE_AFTER_CLAIM_MS - ageMs));
}

export function recordOf(row: HistoryRow): PaymentRecord {
  const { key, state } = row;
  const { description, metadata } = contentOf({ source: null, content: row.content }) ?? {};
  const times = {
    description,
    metadata,
    reference: row.reference ?? undefined,
    attempt: row.attempt ?? undefined,
    client: row.client ?? undefined,
    executions: executionsOf(row),
    claimedAt: row.claimed_at,
    settledAt: row.settled_at ?? undefined,
    reason: row.reason ?? undefined,
    resolution: row.resolution ?? undefined,
    pendingUntil: isPending(row) ? row.pending_until : undefined,
    ending: row.ending ?? undefined,
    processorId: row.processor_id ?? undefined,
  };
  if (state === 'CANCELLED') return { key, state, ...times };
  const [amount, currency, processor] = [row.amount, row.currency, row.processor] as [string, string, string];
  const money = { refund: refundPartOf(row), refundedUnits: row.refunded ?? undefined };
  return { key, state, transactionId: row.transaction_id, amount, currency, processor, ...times, ...money };
}

/** A resolution and a cancellation have an epoch, and are no execution. */
function executionsOf({ state, epoch, resolution }: HistoryRow): number {
  if (state === 'CANCELLED') return 0;
  return resolution === null ? epoch : epoch - 1;
}

/** With what only its timeline shows. */
export interface LifeRow extends HistoryRow {
  readonly owner: string;
  /** The row's `unsent_epoch`, if it still counts. */
  readonly unsent_of_now: number | null;
  readonly lease_until: number;
  readonly recover_at: number;
  readonly expires_at: number | null;
  readonly events: string | null;
  readonly now: number;
}

/** `resolutionCountsFrom`: as in `PaymentLife`; if omitted, the first claim. */
export function lifeOf(row: LifeRow, resolutionCountsFrom = row.claimed_at): PaymentLife {
  return {
    payment: recordOf(row),
    now: row.now,
    epoch: row.epoch,
    owner: row.owner || undefined,
    unsent: row.unsent_of_now === row.epoch,
    chargedUnknownAmount: row.unsent_of_now === 0,
    resolutionCountsFrom,
    leaseUntil: row.lease_until,
    recoverAt: row.recover_at,
    expiresAt: row.expires_at ?? undefined,
    ...readEvents(row.events),
  };
}

/** The content of a charge in its row. The source is a column of its own, which is null once the payment is final. */
export interface ContentColumns {
  /**
   * The source; or the source, a blank and the address to return to; or a blank and the address. Neither source nor address contains a
   * blank.
   */
  readonly source: string | null;
  /** The description and the metadata as one JSON text, so that they are sent exactly as they came. */
  readonly content: string | null;
}

export function contentColumnsOf({ source, description, metadata, returnUrl }: Content = {}): ContentColumns {
  const hasMore = description !== undefined || metadata !== undefined;
  return {
    source: returnUrl === undefined ? (source ?? null) : `${source ?? ''} ${returnUrl}`,
    content: hasMore ? JSON.stringify({ description, metadata }) : null,
  };
}

/** Undefined if the payment has none, as most. */
export function contentOf({ source, content }: ContentColumns): Content | undefined {
  if (source === null && content === null) return undefined;
  const more = (content === null ? {} : JSON.parse(content)) as Content;
  if (source === null) return more;
  const { returnUrl, ...ofPayer } = payerIn(source) ?? {};
  return { ...ofPayer, ...more, ...(returnUrl && { returnUrl }) };
}

/** The source, and the address to return to, in the column that has them. Undefined if it is empty. */
export function payerIn(column: string | null | undefined): Pick<Content, 'source' | 'returnUrl'> | undefined {
  if (!column) return undefined;
  const [source, returnUrl] = column.split(' ');
  return { ...(source && { source }), ...(returnUrl && { returnUrl }) };
}

/**
 * A row's events are a JSON array of `PaymentEvent`. Its statements append to it, and keep the first 8 and the last 40, because
 * a payment that stays unknown is tried again every minute, for days. Between them one element counts those left out.
 */
type KeptEvent = PaymentEvent | { readonly omitted: number };

/** Characters of a cause, each of which may take three bytes in UTF-8. With this limit an event has at most 500 bytes, and all of a row 25 kB. */
const MAX_CAUSE_LENGTH = 90;

/** As JSON. The statement adds the members `at` and `execution`. */
export function abandonedEvent(
  { owner }: Pick<Fence, 'owner'>,
  { lookedUp, sent, cause = '', pendingUntil }: ExecutionNote,
): string {
  return JSON.stringify({
    kind: 'given up',
    sent,
    lookedUp,
    owner,
    cause: shortened(cause) || undefined,
    pendingUntil,
  });
}

/** As JSON. The statement adds the members `at` and `execution`. */
export function settledEvent({ owner }: Pick<Fence, 'owner'>, { lookedUp }: ExecutionNote): string {
  return JSON.stringify({ kind: 'settled', lookedUp, owner });
}

/** Well-formed and without control characters: a database refuses to keep anything else. */
function shortened(cause: string): string {
  const line = cause
    .replace(/\p{Cc}/gu, ' ')
    .toWellFormed()
    .trimEnd();
  return line.length <= MAX_CAUSE_LENGTH ? line : `${line.slice(0, MAX_CAUSE_LENGTH - 1).toWellFormed()}…`;
}

/** The kept events, oldest first, and how many were left out between the first ones and the last. */
function readEvents(text: string | null): { events: readonly PaymentEvent[]; omitted: number } {
  const kept = JSON.parse(text ?? '[]') as readonly KeptEvent[];
  const events = kept.filter((event): event is PaymentEvent => !('omitted' in event));
  return { events, omitted: kept.find((event) => 'omitted' in event)?.omitted ?? 0 };
}
