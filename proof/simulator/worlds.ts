import { paymentWorld } from './payments/payment-world.js';
import { transactionWorld } from './transactions/transaction-world.js';
import type { World } from './world.js';

export type WorldName = 'payments' | 'transactions';
export const WORLD_NAMES: readonly WorldName[] = ['payments', 'transactions'];

/** Plans are opaque to whoever only runs them. */
export function worldOf(name: WorldName): World<unknown> {
  return (name === 'payments' ? paymentWorld : transactionWorld) as World<unknown>;
}

/** Where nobody says which: three of ten seeds are about transactions. */
export function worldOfSeed(seed: number): WorldName {
  return seed % 10 < 7 ? 'payments' : 'transactions';
}
