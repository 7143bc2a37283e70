/** Whose money it is, in Stripe's ids. */
export interface Payer {
  readonly paymentMethod: string;
  readonly customer?: string;
}

export interface Payers {
  /** The same for each attempt at a payment: Stripe refuses a key that comes with another payer. Rejects where it is not known. */
  of(reference: string, deadline: AbortSignal): Promise<Payer>;
}

/** One payer for everything: for trials with Stripe's test cards, such as `pm_card_visa`. */
export const onePayer = (paymentMethod: string): Payers => ({ of: async () => ({ paymentMethod }) });

/**
 * Idempay knows amounts and keys, and no payers. The shop reads the payment of the key, whose reference is its order:
 * `GET {url}/{key}` answers `{"paymentMethod":"pm_...","customer":"cus_..."}`.
 */
export const payersOfShop = (url: string): Payers => ({
  async of(reference, signal) {
    const response = await fetch(`${url}/${reference}`, { signal, redirect: 'error' });
    if (!response.ok) throw new Error(`the shop answered ${response.status} for the payer`);
    const { paymentMethod, customer } = (await response.json()) as Partial<Payer>;
    if (typeof paymentMethod !== 'string') throw new Error('the shop named no payment method');
    return typeof customer === 'string' ? { paymentMethod, customer } : { paymentMethod };
  },
});
