import { inspect } from 'node:util';
import type { History } from '../../testkit/history/history.js';
import { outcomeOf } from '../../testkit/history/payments.js';
import { CRASH_POINTS } from '../../testkit/processes/crash-points.js';
import type { Hit } from './fault.js';

/** How often one fault happened, and the longest time from it to the first payment that was sent after it and succeeded. */
interface FaultCount {
  hits: Hit;
  count: number;
  longestAwayMs: number;
}

/** The totals of a run, as plain data: they are written down at its end. */
export type Tally = ReturnType<typeof emptyTally>;

export function emptyTally() {
  const counts: Record<string, number> = {};
  return {
    /** Each has a seed of its own. */
    sessions: 0,
    rounds: 0,
    elapsedMs: 0,
    faults: {} as Record<string, FaultCount>,
    /** Processes that ended themselves, by the point. */
    crashPoints: { ...counts },
    sigkills: { service: 0, processor: 0, redis: 0, postgres: 0, disk: 0 } satisfies Record<Hit, number>,
    requests: 0,
    keys: 0,
    charges: 0,
    /** Payments that an operator declined, at a processor that does not deduplicate. */
    verdicts: 0,
    reads: 0,
    writes: 0,
    /** How often the metrics of a process were scraped while all this happened. */
    scrapes: 0,
    notModified: 0,
    /** Keys that the key store forgot before they were paid. */
    forgottenKeys: 0,
    /** After healing, until the last key had its outcome. */
    longestStuckMs: 0,
    answers: { ...counts },
    /** The rows that the restored backups lacked. */
    lost: { transactions: 0, payments: 0, laterAttempts: 0 },
    impossible: [] as string[],
    violations: 0,
  };
}

export function countFault(tally: Tally, name: string, hits: Hit, awayMs: number): void {
  const { count, longestAwayMs } = tally.faults[name] ?? { count: 0, longestAwayMs: 0 };
  tally.faults[name] = { hits, count: count + 1, longestAwayMs: Math.max(longestAwayMs, Math.round(awayMs)) };
}

/** The answers that the clients of a session saw. */
export function countHistory(tally: Tally, history: History): void {
  tally.sessions += 1;
  tally.keys += history.keys.length;
  for (const what of ['requests', 'reads', 'writes', 'notModified'] as const) tally[what] += history[what];
  for (const [status, times] of history.answers) tally.answers[status] = (tally.answers[status] ?? 0) + times;
  for (const key of history.keys) {
    const isRefused = key.exchanges.some(({ status }) => status === 400);
    if (isRefused && outcomeOf(key) === undefined) tally.forgottenKeys += 1;
    tally.longestStuckMs = Math.max(tally.longestStuckMs, key.finishedAfterMs ?? 0);
  }
}

/** How many faults happened; if `hits` is given, only those that hit it. */
export function faultsOf(tally: Tally, hits?: Hit): number {
  const counted = Object.values(tally.faults).filter((fault) => hits === undefined || fault.hits === hits);
  return sum(counted.map(({ count }) => count));
}

export function sigkillsOf({ sigkills }: Tally): number {
  return sum(Object.values(sigkills));
}

/** The work and the findings of a run, for reading. */
export function tableOf(tally: Tally): string {
  const { requests, elapsedMs, crashPoints } = tally;
  const sums = {
    requestsPerSecond: Math.round(requests / (elapsedMs / 1_000)),
    redisFaults: faultsOf(tally, 'redis'),
    postgresFaults: faultsOf(tally, 'postgres'),
    sigkillsInAll: sigkillsOf(tally),
    crashPointsNotReached: CRASH_POINTS.filter((point) => !(point in crashPoints)).join(', '),
  };
  return inspect({ ...tally, ...sums }, { breakLength: 120, maxArrayLength: null });
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0);
}
