import { SIMULATED } from '../../payments/values/processor-names.js';
import { CannotOpen } from './deployment.js';

/** Throws CannotOpen if a payment was made at a processor: such payments are never removed by hand. */
export function refuseRealPayments(used: readonly string[]): void {
  const names = used.filter((name) => name !== SIMULATED);
  if (names.length === 0) return;
  throw new CannotOpen(`Nothing was removed: payments in this store were made at ${names.join(', ')}.`);
}
