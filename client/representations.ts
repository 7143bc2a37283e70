import type { components } from './description.js';

type Schemas = components['schemas'];

/** The payment to be made. */
export interface PaymentRequest {
  /** A decimal number as a string, such as `'100.50'`: an amount of money never goes through a float. */
  readonly amount: string;
  /** An ISO 4217 code, such as `'USD'`. */
  readonly currency: string;
  /**
   * Stands for the payer at your processor, such as the token of a card: up to 500 visible ASCII characters, and never a card number. It
   * goes to the processor with the charge and is shown nowhere.
   */
  readonly source?: string | undefined;
  /** The purpose of the payment, for the payer's statement and for the people who look at the payment: up to 255 characters. */
  readonly description?: string | undefined;
  /** Up to 20 texts of your own: names of up to 40 characters, texts of up to 500. The service takes 16 KiB with the whole body, in UTF-8. */
  readonly metadata?: Readonly<Record<string, string>> | undefined;
  /** See `PresentPaymentRequest`. */
  readonly returnUrl?: undefined;
}

/**
 * A payment whose payer is present, and may have to confirm it at a bank. It may be pending then, so its result says whether it is paid,
 * and the compiler makes you look.
 */
export interface PresentPaymentRequest extends Omit<PaymentRequest, 'returnUrl'> {
  /** The payer comes back to this address after a confirmation: `https`, or `http` on a loopback name. It is kept as `source` is. */
  readonly returnUrl: string;
}

/** A payment as the service shows it. If it waits for its payer, or for a bank, it has `pending`. */
export type Payment = Schemas['Payment'];
/**
 * Tells if the key was charged, or any attempt at the reference if one was given. `none` is certain: nothing was, and nothing will be
 * unless a further attempt is sent. `unknown`: it may have been, or may still be.
 */
export type Charge = NonNullable<Schemas['ProblemDetails']['charge']>;
/** The steps of a payment, oldest first, and what happens next. */
export type PaymentTimeline = Schemas['PaymentTimeline'];
/** The processor's present knowledge of a payment. */
export type ProcessorAnswer = Schemas['ProcessorAnswer'];
/** How an operator ends a payment that stays unknown. */
export type Resolution = Schemas['Resolution'];

/** Its `amount` is exact: `String(amount)` has its digits. Add up in a decimal type, not in floats. */
export type Transaction = Schemas['Transaction'];
/** As a search finds it, with its tag. */
export type FoundTransaction = Schemas['FoundTransaction'];
export type TransactionStatus = Schemas['TransactionStatus'];
export type NewTransaction = Schemas['NewTransaction'];

/** An endpoint that the service tells how payments and refunds ended. */
export type Webhook = Schemas['Webhook'];
/** With the settlements that are set aside. */
export type WebhookDetails = Schemas['WebhookDetails'];
