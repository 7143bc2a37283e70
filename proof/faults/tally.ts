import { CRASH_POINTS } from '#idempay/crash-points.js';
import type { History } from '../../testkit/history/history.js';
import { outcomeOf } from '../../testkit/history/payments.js';
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
    notModified: 0,
    /** Keys that the key store forgot before they were paid. */
    forgottenKeys: 0,
    /** After healing, until the last key had its outcome. */
    longestStuckMs: 0,
    answers: { ...counts },
    impossible: [] as string[],
    violations: 0,
  };
}

export function countFault(tally: Tally, name: string, hits: Hit, awayMs: number): void {
  const { count, longestAwayMs } = tally.faults[name] ?? { count: 0, longestAwayMs: 0 };
  tally.faults[name] = { hits, count: count + 1, longestAwayMs: Math.max(longestAwayMs, awayMs) };
}

/** What the clients of a session saw. */
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

/** Of all kinds, or of those that hit this. */
export function faultsOf(tally: Tally, hits?: Hit): number {
  const counted = Object.values(tally.faults).filter((fault) => hits === undefined || fault.hits === hits);
  return sum(counted.map(({ count }) => count));
}

export function sigkillsOf({ sigkills }: Tally): number {
  return sum(Object.values(sigkills));
}

/** What a run has done and found, for reading. */
export function tableOf(tally: Tally): string {
  const { sigkills, requests, elapsedMs, answers, crashPoints } = tally;
  const faults = Object.entries(tally.faults).sort(([, one], [, other]) => other.count - one.count);
  const width = Math.max(...faults.map(([name]) => name.length), 20);
  const row = (name: string, count: number, more = '') =>
    `${name.padEnd(width)}  ${count.toLocaleString('en-US').padStart(9)}  ${more}`;
  const inWords = (counts: Record<string, number>) =>
    Object.entries(counts)
      .sort(([one], [other]) => one.localeCompare(other))
      .map(([name, times]) => `${name} ${times}`)
      .join(', ');
  const unreached = CRASH_POINTS.filter((point) => !(point in crashPoints));
  const rate = `in ${(elapsedMs / 60_000).toFixed(1)} min: ${Math.round(requests / (elapsedMs / 1_000))}/s`;
  return [
    `${'fault'.padEnd(width)}  ${'times'.padStart(9)}  longest ms until a payment sent after it succeeded`,
    ...faults.map(([name, { count, longestAwayMs }]) => row(name, count, `${Math.round(longestAwayMs)}`)),
    '',
    row('sessions', tally.sessions, `each with a seed and stores of its own; ${tally.rounds} rounds of faults`),
    row('SIGKILLs', sigkillsOf(tally), inWords(sigkills)),
    row('  at crash points', sum(Object.values(crashPoints)), inWords(crashPoints)),
    row('  not reached', unreached.length, unreached.join(', ')),
    row('Redis faults', faultsOf(tally, 'redis')),
    row('PostgreSQL faults', faultsOf(tally, 'postgres')),
    row('load', requests, `requests ${rate}; answers (0: none) ${inWords(answers)}`),
    row(
      '  charges',
      tally.charges,
      `an operator's verdicts: ${tally.verdicts}; keys forgotten: ${tally.forgottenKeys}`,
    ),
    row('  transactions', tally.writes, `writes, ${tally.reads} reads; 304: ${tally.notModified}`),
    row('stuck', Math.round(tally.longestStuckMs), 'ms at most without an outcome after healing'),
    ...tally.impossible.map((sentence) => `not possible here: ${sentence}`),
    row('violations', tally.violations),
  ].join('\n');
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0);
}
