import type { Payment } from '@idempay/client';

export type { Payment };

export const isFinal = ({ state }: Payment) => state !== 'PENDING' && state !== 'PROCESSING';

/** `order-17 · attempt 2`; undefined if it has no reference. */
export const orderTextOf = ({ reference, attempt }: Payment): string | undefined =>
  reference === null ? undefined : `${reference} · attempt ${attempt}`;

export interface TimelineEvent {
  readonly at: string | null;
  readonly event: string;
  readonly execution?: number | null;
  readonly process: string | null;
  readonly detail: string | null;
}

/** `GET /api/payments/{key}/timeline`. */
export interface Timeline {
  readonly events: readonly TimelineEvent[];
  readonly omitted: number;
  readonly next: {
    readonly what: string;
    readonly at: string | null;
    /** When the service first accepts a resolution. */
    readonly resolvableAt: string | null;
    readonly text: string;
  };
}

/** `GET /api/payments/{key}/processor-answer`. */
export interface ProcessorAnswer {
  readonly processor: string;
  readonly askedAt: string;
  readonly answer: 'succeeded' | 'declined' | 'no record' | 'unknown';
  readonly reason: string | null;
}

export { isWholeKey } from '@idempay/statements';

/** A payment and the tag that says which one we saw. */
export interface Seen {
  readonly payment: Payment;
  readonly etag: string;
}

/** The differences between two looks, in the words of the page. */
export function changesBetween(
  before: Payment,
  now: Payment,
): readonly { name: string; before: string; now: string }[] {
  const text = (value: string | number | null) => (value === null ? 'none' : String(value));
  return CHANGING.filter(([member]) => before[member] !== now[member]).map(([member, name]) => ({
    name,
    before: text(before[member]),
    now: text(now[member]),
  }));
}

const CHANGING = [
  ['state', 'State'],
  ['executions', 'Executions'],
  ['reason', 'Reason'],
  ['resolution', 'Resolution'],
  ['processor', 'Processor'],
  ['amount', 'Amount'],
  ['currency', 'Currency'],
  ['transactionId', 'Transaction id'],
  ['claimedAt', 'Claimed'],
  ['settledAt', 'Settled'],
] as const satisfies readonly (readonly [keyof Payment, string])[];
