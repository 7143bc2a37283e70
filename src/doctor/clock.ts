import type { Clock } from '../platform/clock.js';
import { type Finding, milliseconds, verdictOf } from '../platform/finding.js';
import { CLOCKS_DIFFER_MS } from '../stores/shared/replaced-database.js';

/** Clocks that are synchronized differ by milliseconds. */
const NOTICEABLE_MS = 1_000;
const QUESTIONS = 3;

/**
 * Compares a store's clock with ours, in the middle of the quickest of some round trips. `ask` gives the store's time in
 * milliseconds since the epoch.
 */
export async function examineClock(store: string, clock: Clock, ask: () => Promise<number>): Promise<Finding> {
  let skewMs = 0;
  let shortestMs = Number.POSITIVE_INFINITY;
  for (let question = 0; question < QUESTIONS; question += 1) {
    const [askedAt, ours] = [clock.monotonic(), clock.now()];
    const theirs = await ask();
    const roundTripMs = clock.monotonic() - askedAt;
    if (roundTripMs >= shortestMs) continue;
    shortestMs = roundTripMs;
    skewMs = theirs - (ours + roundTripMs / 2);
  }
  const offMs = Math.abs(skewMs);
  return {
    verdict: verdictOf(offMs >= CLOCKS_DIFFER_MS, offMs >= NOTICEABLE_MS),
    what: `${store} clock`,
    found: `${milliseconds(offMs)} ${skewMs < 0 ? 'behind' : 'ahead'}, round trip ${milliseconds(shortestMs)}`,
    wanted: 'less than 1 s apart',
    why: `keys and leases carry times; beyond ${CLOCKS_DIFFER_MS / 1_000} s a lost row may not be noticed after a failover`,
  };
}
