import type { Mutant } from './mutant.js';
import { PAYMENT_STORE_MUTANTS } from './mutants/payment-stores.js';
import { PAYMENT_MUTANTS } from './mutants/payments.js';
import { TRANSACTION_MUTANTS } from './mutants/transactions.js';

export const MUTANTS: readonly Mutant[] = [...PAYMENT_MUTANTS, ...PAYMENT_STORE_MUTANTS, ...TRANSACTION_MUTANTS];
