import { randomInt } from 'node:crypto';

/** Microsecond-like steps inside one millisecond: a process makes fewer than this many ids in one. */
const STEPS_PER_MS = 1000;
const RANDOM_DIGITS = 6;
/** The time in an id has this number of digits from 2001 to 2286, so ids as text have the order of their times. */
const TIME_DIGITS = 16;
const LATEST = 10 ** TIME_DIGITS - 1;

/** The form of our ids. Others have ids that begin alike. */
export const TRANSACTION_ID = new RegExp(`^TXN\\d{${TIME_DIGITS + RANDOM_DIGITS}}$`, 'i');

/** The lowest id that can be made at or after this moment (milliseconds since the epoch). */
export function lowestTransactionIdAt(ms: number): string {
  const time = Math.min(Math.max(Math.ceil(ms) * STEPS_PER_MS, 0), LATEST);
  return `TXN${String(time).padStart(TIME_DIGITS, '0')}${'0'.repeat(RANDOM_DIGITS)}`;
}

/** The first moment of which nothing is below this id (milliseconds since the epoch). */
export function momentAbove(transactionId: string): number {
  return Math.floor(Number(transactionId.slice('TXN'.length, 'TXN'.length + TIME_DIGITS)) / STEPS_PER_MS) + 1;
}

/**
 * Makes transaction ids (spec 2.3, rule P7): `TXN`, the time of processing, then random digits. The time part strictly rises within one
 * process, even if its clock does not. The random part tells two processes of the same microsecond apart, and the ledger's unique
 * constraint refuses the remaining duplicates.
 */
export function createTransactionIds(now: () => number): () => string {
  let last = 0;
  return () => {
    last = Math.max(last + 1, now() * STEPS_PER_MS);
    const random = String(randomInt(10 ** RANDOM_DIGITS)).padStart(RANDOM_DIGITS, '0');
    return `TXN${last}${random}`;
  };
}
