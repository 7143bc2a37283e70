import type { ObservedPayment } from '../observed.js';
import { attemptName, attemptOf, orderOf } from './keys.js';

/**
 * The rows of later attempts that had ended their order by then: CANCELLED or COMPLETED, with each attempt before them DECLINED. A cancellation
 * that ends two attempts closes the third, and a payer may pay with the next attempt before a cancellation has closed that.
 */
export function laterEnds(
  name: string,
  by: number,
  rowsOf: (name: string) => readonly ObservedPayment[],
): ObservedPayment[] {
  const ends: ObservedPayment[] = [];
  for (let attempt = attemptOf(name) + 1; ; attempt += 1) {
    const rows = rowsOf(attemptName(orderOf(name), attempt)).filter(({ finalAt = Infinity }) => finalAt <= by);
    ends.push(...rows.filter(({ state }) => state !== 'DECLINED'));
    if (rows.every(({ state }) => state !== 'DECLINED')) return ends;
  }
}
