/** As `GET /api/payments/{key}` shows it. */
export interface Payment {
  readonly idempotencyKey: string;
  readonly state: 'PENDING' | 'PROCESSING' | 'COMPLETED' | 'DECLINED';
  readonly amount: string | null;
  readonly currency: string | null;
  readonly transactionId: string | null;
  readonly processor: string | null;
  readonly attempts: number;
  readonly reason: string | null;
  readonly resolution: string | null;
  readonly createdAt: string | null;
  readonly claimedAt: string | null;
  readonly settledAt: string | null;
}

export const isFinal = ({ state }: Payment) => state === 'COMPLETED' || state === 'DECLINED';

export interface TimelineEvent {
  readonly at: string | null;
  readonly event: string;
  readonly attempt: number | null;
  readonly process: string | null;
  readonly detail: string | null;
}

/** `GET /api/payments/{key}/timeline`. */
export interface Timeline {
  readonly events: readonly TimelineEvent[];
  readonly omitted: number;
  readonly next: { readonly what: string; readonly at: string | null; readonly text: string };
}

/** `GET /api/payments/{key}/processor-answer`. */
export interface ProcessorAnswer {
  readonly processor: string;
  readonly askedAt: string;
  readonly answer: 'succeeded' | 'declined' | 'no record' | 'unknown';
  readonly reason: string | null;
}

/** A key as it may be typed: 32 hexadecimal digits, with their dashes. */
const WHOLE_KEY = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
export const isWholeKey = (text: string) => WHOLE_KEY.test(text);

/** When a key was generated: the first 48 bits of a UUIDv7. Undefined for other keys. */
export function keyTimeOf(key: string): number | undefined {
  return isWholeKey(key) && key[14] === '7' ? Number.parseInt(key.slice(0, 8) + key.slice(9, 13), 16) : undefined;
}

/** A payment and the tag that says which one we saw. */
export interface Seen {
  readonly payment: Payment;
  readonly etag: string;
}

/** What differs between two looks, in the words of the page. */
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
  ['attempts', 'Attempts'],
  ['reason', 'Reason'],
  ['resolution', 'Resolution'],
  ['processor', 'Processor'],
  ['amount', 'Amount'],
  ['currency', 'Currency'],
  ['transactionId', 'Transaction id'],
  ['claimedAt', 'Claimed'],
  ['settledAt', 'Settled'],
] as const satisfies readonly (readonly [keyof Payment, string])[];
