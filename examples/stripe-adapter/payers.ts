import type { Charge } from './content.ts';

/** Whose money it is, in Stripe's ids. */
export interface Payer {
  readonly paymentMethod: string;
  readonly customer?: string;
}

export interface Payers {
  /** The same for each attempt at a payment: Stripe refuses a key that comes with another payer. Rejects if it is not known. */
  of(charge: Pick<Charge, 'reference' | 'source'>, deadline: AbortSignal): Promise<Payer>;
}

/** The source of the payment is a payment method. `others` are asked for a payment without one. */
export const payersBySource = (others: Payers): Payers => ({
  of: async (charge, deadline) =>
    charge.source === undefined ? others.of(charge, deadline) : { paymentMethod: charge.source },
});

/** It is no decline, because an earlier send may have met an adapter that knew a payer. */
export const noPayer: Payers = {
  async of() {
    throw new Error('the payment has no source, and neither PAYER_URL nor STRIPE_PAYMENT_METHOD is set');
  },
};

/** One payer for everything: for trials with Stripe's test cards, such as `pm_card_visa`. */
export const onePayer = (paymentMethod: string): Payers => ({ of: async () => ({ paymentMethod }) });

/**
 * The shop reads the payment of the key, whose reference is its order: `GET {url}/{key}` answers
 * `{"paymentMethod":"pm_...","customer":"cus_..."}`.
 */
export const payersOfShop = (url: string): Payers => ({
  async of({ reference }, signal) {
    const response = await fetch(`${url}/${reference}`, { signal, redirect: 'error' });
    if (!response.ok) throw new Error(`the shop answered ${response.status} for the payer`);
    const { paymentMethod, customer } = (await response.json()) as Partial<Payer>;
    if (typeof paymentMethod !== 'string') throw new Error('the shop named no payment method');
    return typeof customer === 'string' ? { paymentMethod, customer } : { paymentMethod };
  },
});
