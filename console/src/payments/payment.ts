import type { Payment } from '@idempay/client';

/** A payment, or a refund, which is listed as one and has `refund`. */
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
  readonly by?: string | null;
  readonly detail: string | null;
}

/** The scopes that see the timeline of a payment. */
export const TIMELINE_SCOPES = ['payments:read', 'operations', 'payments:read:all'] as const;

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
  readonly answer: 'succeeded' | 'declined' | 'pending' | 'no record' | 'unknown';
  readonly reason: string | null;
}

export { isWholeKey } from '@idempay/statements';

/** A payment and the tag that says which one we saw. The record of a refund has no tag. */
export interface Seen {
  readonly payment: Payment;
  readonly etag: string | undefined;
}

/** The differences between two looks, in the words of the page. */
export function changesBetween(
  before: Payment,
  now: Payment,
): readonly { name: string; before: string; now: string }[] {
  const text = (value: string | number | null) => (value === null ? 'none' : String(value));
  return CHANGING.filter(([, read]) => read(before) !== read(now)).map(([name, read]) => ({
    name,
    before: text(read(before)),
    now: text(read(now)),
  }));
}

const CHANGING: readonly (readonly [name: string, read: (payment: Payment) => string | number | null])[] = [
  ['State', ({ state }) => state],
  ['Expected end', ({ pending }) => pending?.until ?? null],
  ['Ending', ({ ending }) => ending ?? null],
  ['Executions', ({ executions }) => executions],
  ['Reason', ({ reason }) => reason],
  ['Resolution', ({ resolution }) => resolution],
  ['Processor', ({ processor }) => processor],
  ['At the processor', ({ processorId }) => processorId ?? null],
  ['Amount', ({ amount }) => amount],
  ['Currency', ({ currency }) => currency],
  ['Transaction id', ({ transactionId }) => transactionId],
  ['Claimed', ({ claimedAt }) => claimedAt],
  ['Settled', ({ settledAt }) => settledAt],
];
