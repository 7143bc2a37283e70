import type { Ledger, RetentionTime } from '#idempay/payments/ports/ledger.js';

export const HOUR_MS = 3_600_000;
const MANY = 1_000;

/** Tells the ledger the time as a process that ran for this number of hours would, an hour at a time. Keys are of the present. */
export async function passHours(ledger: Ledger, hours: number): Promise<RetentionTime> {
  const lowestKeyMs = Date.now();
  let time = await ledger.noteElapsed({ sinceMs: 0, elapsedMs: 0, lowestKeyMs });
  for (let hour = 0; hour < hours; hour += 1) {
    time = await ledger.noteElapsed({ sinceMs: time.seenMs, elapsedMs: HOUR_MS, lowestKeyMs });
  }
  return time;
}

/** One look at all that is old; how many were removed. */
export async function removeOld(ledger: Ledger, retentionMs: number): Promise<number> {
  const { removed, more } = await ledger.removeSettled(retentionMs, MANY);
  return more ? removed + (await removeOld(ledger, retentionMs)) : removed;
}
