import { expect } from 'vitest';
import { keptPayments } from '../client/kept-payments.js';
import type { Load } from '../client/load.js';
import type { Target, Violation } from '../history/history.js';
import { checkHistory, type Evidence } from './check-history.js';

/** The most of the first violation that is printed, in characters: a fault that is seldom is understood from its first report. */
const LONGEST_DETAILS = 20_000;

/** One failure can break hundreds of promises: the first few of them tell which, and the first one in full tells how. */
export function expectNoViolations(violations: readonly Violation[], when = 'at the end'): void {
  const [first] = violations;
  const kinds = new Set(violations.map(({ rule, what }) => `${rule}: ${what.split('\n')[0]}`.slice(0, 200)));
  const details = first ? `; the first: ${JSON.stringify(first, null, 1).slice(0, LONGEST_DETAILS)}` : '';
  expect([...kinds].slice(0, 20), `${violations.length} violations ${when}${details}`).toEqual([]);
}

/** After all disturbances: sends the last requests of the load, then checks every promise against all answers. */
export async function expectPromisesKept(load: Load, evidence: Omit<Evidence, 'kept'>, when?: string): Promise<void> {
  const { history } = load;
  await load.finish();
  const kept = await keptPayments(history, history.targets[0] as Target);
  expectNoViolations(checkHistory(history, { ...evidence, kept }), when);
}
