import type { PaymentRequest } from '../representations.js';

/** An amount and its currency, as far as they are known. */
export type PaidMoney = { readonly [Member in keyof Money]: string | null };

/** The members by which one payment differs from another; the content of a request makes no difference. */
export type Money = Pick<PaymentRequest, 'amount' | 'currency'>;

/**
 * True if this is the payment that was wanted: the same number in any form (`100.5` is `100.50`), of the same currency. False as well if
 * the paid money is not known.
 */
export function isSamePayment(paid: PaidMoney, wanted: Money): boolean {
  if (paid.amount === null || paid.currency === null) return false;
  const isSameCurrency = paid.currency.toUpperCase() === wanted.currency.toUpperCase();
  return isSameCurrency && shortest(paid.amount) === shortest(wanted.amount);
}

/** Without the zeros that say nothing; never as a float. */
function shortest(amount: string): string {
  const plain = amount.replace(/^0+(?=\d)/, '');
  if (!plain.includes('.')) return plain;
  let end = plain.length;
  while (plain[end - 1] === '0') end -= 1;
  return plain.slice(0, plain[end - 1] === '.' ? end - 1 : end);
}
