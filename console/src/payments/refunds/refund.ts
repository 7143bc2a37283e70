import type { Payment } from '../payment.js';

/** A part of a payment that was given back, or is to be. It has a key, a state and a timeline of its own. */
export type Refund = Payment & { readonly refund: NonNullable<Payment['refund']> };

export const isRefund = (payment: Payment): payment is Refund => payment.refund !== undefined;

/** The amount, with a minus for a refund, so that no list shows it as money that came in. */
export const signedAmountOf = (payment: Payment): string | null =>
  payment.amount !== null && isRefund(payment) ? `-${payment.amount}` : payment.amount;

/** The part of a payment that can still be given back. After rows were lost, the sum of its refunds may be more than the payment for a moment. */
export function leftOf({ amount, refunded }: Payment): string {
  const parts = [amount ?? '0', refunded ?? '0'];
  const decimals = Math.max(...parts.map((text) => decimalsIn(text).length));
  const [paid = 0n, back = 0n] = parts.map((text) => unitsOf(text, decimals));
  const digits = (paid > back ? paid - back : 0n).toString().padStart(decimals + 1, '0');
  return decimals === 0 ? digits : `${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`;
}

/** True of an amount such as `0.00`. */
export const isZero = (amount: string): boolean => !/[1-9]/.test(amount);

const decimalsIn = (amount: string): string => amount.split('.')[1] ?? '';

/** The amount in the smallest unit of this many decimals: a number of JavaScript could not hold each exactly. */
function unitsOf(amount: string, decimals: number): bigint {
  const [whole = ''] = amount.split('.');
  return BigInt(whole + decimalsIn(amount).padEnd(decimals, '0'));
}
