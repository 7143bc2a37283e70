import { expect } from 'vitest';
import { keptPayments } from '../client/kept-payments.js';
import type { Load } from '../client/load.js';
import type { Target, Violation } from '../history/history.js';
import { checkHistory, type Evidence } from './check-history.js';

/** One failure can break hundreds of promises: the first few of them tell which. */
export function expectNoViolations(violations: readonly Violation[], when = 'at the end'): void {
  const kinds = new Set(violations.map(({ rule, what }) => `${rule}: ${what.split('\n')[0]}`.slice(0, 200)));
  expect([...kinds].slice(0, 20), `${violations.length} violations ${when}`).toEqual([]);
  expect(violations).toEqual([]);
}

/** After all disturbances: sends the last requests of the load, then checks every promise against all answers. */
export async function expectPromisesKept(load: Load, evidence: Omit<Evidence, 'kept'>, when?: string): Promise<void> {
  const { history } = load;
  await load.finish();
  const kept = await keptPayments(history, history.targets[0] as Target);
  expectNoViolations(checkHistory(history, { ...evidence, kept }), when);
}
