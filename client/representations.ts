import type { components } from './description.js';

type Schemas = components['schemas'];

/** What is to be paid. */
export interface PaymentRequest {
  /** A decimal number as a string, such as `'100.50'`: an amount of money never goes through a float. */
  readonly amount: string;
  /** An ISO 4217 code, such as `'USD'`. */
  readonly currency: string;
}

/** A payment as the service shows it. */
export type Payment = Schemas['Payment'];
/** How an operator ends a payment that stays unknown. */
export type Resolution = Schemas['Resolution'];

/** Its `amount` is exact: `String(amount)` has its digits. Add up in a decimal type, not in floats. */
export type Transaction = Schemas['Transaction'];
/** As a search finds it, with its tag. */
export type FoundTransaction = Schemas['FoundTransaction'];
export type TransactionStatus = Schemas['TransactionStatus'];
export type NewTransaction = Schemas['NewTransaction'];
