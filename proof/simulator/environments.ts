import type { Environment } from './environment.js';
import { paymentEnvironment } from './payments/payment-environment.js';
import { transactionEnvironment } from './transactions/transaction-environment.js';

export type EnvironmentName = 'payments' | 'transactions';
export const ENVIRONMENT_NAMES: readonly EnvironmentName[] = ['payments', 'transactions'];

/** Plans are opaque to whatever only runs them. */
export function environmentOf(name: EnvironmentName): Environment<unknown> {
  return (name === 'payments' ? paymentEnvironment() : transactionEnvironment()) as Environment<unknown>;
}

/** Without a choice: three of ten seeds are about transactions. */
export function environmentOfSeed(seed: number): EnvironmentName {
  return seed % 10 < 7 ? 'payments' : 'transactions';
}
