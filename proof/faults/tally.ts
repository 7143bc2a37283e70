import { CRASH_POINTS } from '#idempay/crash-points.js';
import type { History } from '../../testkit/history/history.js';
import { outcomeOf } from '../../testkit/history/payments.js';
import type { Hit } from './environment.js';

/** How often one fault happened, and the longest time from it to the first payment that was sent after it and succeeded. */
interface FaultCount {
  hits: Hit;
  count: number;
  longestAwayMs: number;
}

/** The totals of a run, as plain data: they are written down after each session. */
export interface Tally {
  /** Each has a seed of its own. */
  sessions: number;
  rounds: number;
  elapsedMs: number;
  faults: Record<string, FaultCount>;
  /** Processes that ended themselves, by the point. */
  crashPoints: Record<string, number>;
  sigkills: Record<Exclude<Hit, 'disk'>, number>;
  requests: number;
  keys: number;
  charges: number;
  /** Payments that an operator declined, at a processor that does not deduplicate. */
  verdicts: number;
  reads: number;
  writes: number;
  notModified: number;
  /** Keys that the key store forgot before they were paid. */
  forgottenKeys: number;
  /** After healing, until the last key had its outcome. */
  longestStuckMs: number;
  answers: Record<string, number>;
  impossible: string[];
  violations: number;
}

export function emptyTally(): Tally {
  return {
    sessions: 0,
    rounds: 0,
    elapsedMs: 0,
    faults: {},
    crashPoints: {},
    sigkills: { service: 0, processor: 0, redis: 0, postgres: 0 },
    requests: 0,
    keys: 0,
    charges: 0,
    verdicts: 0,
    reads: 0,
    writes: 0,
    notModified: 0,
    forgottenKeys: 0,
    longestStuckMs: 0,
    answers: {},
    impossible: [],
    violations: 0,
  };
}

export function countFault(tally: Tally, name: string, hits: Hit, awayMs: number): void {
  tally.faults[name] ??= { hits, count: 0, longestAwayMs: 0 };
  const counted = tally.faults[name];
  counted.count += 1;
  counted.longestAwayMs = Math.max(counted.longestAwayMs, awayMs);
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
  return counted.reduce((sum, { count }) => sum + count, 0);
}

export function sigkillsOf({ sigkills }: Tally): number {
  return Object.values(sigkills).reduce((sum, count) => sum + count, 0);
}

/** What a run has done and found, for reading. */
export function tableOf(tally: Tally): string {
  const faults = Object.entries(tally.faults).sort(([, one], [, other]) => other.count - one.count);
  const width = Math.max(...faults.map(([name]) => name.length), 20);
  const lines = faults.map(([name, { count, longestAwayMs }]) => {
    return `${name.padEnd(width)}  ${number(count)}  ${number(Math.round(longestAwayMs))}`;
  });
  const points = Object.entries(tally.crashPoints).sort(([one], [other]) => one.localeCompare(other));
  const unreached = CRASH_POINTS.filter((point) => !(point in tally.crashPoints));
  const { service, processor, redis, postgres } = tally.sigkills;
  const minutes = tally.elapsedMs / 60_000;
  const rate = `in ${minutes.toFixed(1)} min: ${Math.round(tally.requests / minutes / 60)}/s`;
  const answers = Object.entries(tally.answers).map(
    ([status, times]) => `${status === '0' ? 'none' : status} ${times}`,
  );
  return [
    `${'fault'.padEnd(width)}  ${'times'.padStart(9)}  longest ms until a payment sent after it succeeded`,
    ...lines,
    '',
    `sessions            ${number(tally.sessions)}  each with a seed and stores of its own; ${tally.rounds} rounds of faults`,
    `SIGKILLs            ${number(sigkillsOf(tally))}  services ${service}, processor ${processor}, Redis ${redis}, PostgreSQL ${postgres}`,
    `  at crash points   ${number(points.reduce((sum, [, times]) => sum + times, 0))}  ${points.map(([name, times]) => `${name} ${times}`).join(', ')}`,
    `  not reached       ${number(unreached.length)}  ${unreached.join(', ')}`,
    `Redis faults        ${number(faultsOf(tally, 'redis'))}`,
    `PostgreSQL faults   ${number(faultsOf(tally, 'postgres'))}`,
    `load                ${number(tally.requests)}  requests ${rate}; answers ${answers.join(', ')}`,
    `  payments          ${number(tally.charges)}  charges; an operator's verdicts: ${tally.verdicts}; keys forgotten before they were paid: ${tally.forgottenKeys}`,
    `  transactions      ${number(tally.writes)}  writes, ${tally.reads} reads; 304: ${tally.notModified}`,
    `longest without an outcome after healing, ms  ${Math.round(tally.longestStuckMs)}`,
    ...tally.impossible.map((sentence) => `not possible here: ${sentence}`),
    `violations          ${number(tally.violations)}`,
  ].join('\n');
}

function number(value: number): string {
  return value.toLocaleString('en-US').padStart(9);
}
