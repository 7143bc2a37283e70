import type { Hit } from './scene.js';

/** How often one blow fell, and the longest time from it to the first payment that was sent after it and succeeded. */
export interface BlowCount {
  hits: Hit;
  count: number;
  longestAwayMs: number;
}

/** The totals of a run, as plain data: they are written down after each session. */
export interface Tally {
  sessions: number;
  rounds: number;
  elapsedMs: number;
  blows: Record<string, BlowCount>;
  /** Processes that ended themselves, by the point. */
  crashPoints: Record<string, number>;
  sigkills: Record<'service' | 'processor' | 'redis' | 'postgres', number>;
  requests: number;
  keys: number;
  charges: number;
  /** Payments that an operator declined, at a processor that does not deduplicate. */
  verdicts?: number;
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
    blows: {},
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

export function blowsOn(tally: Tally, hits: Hit): number {
  return Object.values(tally.blows).reduce((sum, blow) => sum + (blow.hits === hits ? blow.count : 0), 0);
}

export function sigkillsOf(tally: Tally): number {
  return Object.values(tally.sigkills).reduce((sum, count) => sum + count, 0);
}
