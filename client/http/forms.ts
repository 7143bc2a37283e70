import type { components } from '../description.js';
import type { Payment, Transaction } from '../representations.js';
import { hasOwnHeader, isObject, isOfType, parsed } from './proof.js';
import type { Answer } from './transport.js';

/** The body of a 2xx of the service; undefined for another status, another media type, and half of a body. */
export function jsonOf({ status, headers, text }: Answer, wanted: 200 | 201 | 202 = 200): unknown {
  return status === wanted && isOfType(headers, 'application/json') ? parsed(text) : undefined;
}

/** Without the members that say what was paid it is no payment, because a program compares them with what it wanted. */
export function isPayment(value: unknown): value is Payment {
  if (!isObject(value)) return false;
  const { idempotencyKey, state, transactionId, amount, currency } = value;
  return (
    [idempotencyKey, state].every((member) => typeof member === 'string') &&
    [transactionId, amount, currency].every((member) => member === null || typeof member === 'string')
  );
}

type PendingPayment = components['schemas']['PendingPayment'];

/**
 * The payment of this key, which may be written in any case, in the 202 of one that is pending. Undefined for every other 202: gateways answer
 * so too, and then it is not known whether anything was done (rule P23).
 */
export function pendingIn(answer: Answer, key: string | undefined): PendingPayment | undefined {
  const payment = hasOwnHeader(answer.headers) ? jsonOf(answer, 202) : undefined;
  const isAsked = isPayment(payment) && payment.idempotencyKey === key?.toLowerCase();
  return isAsked && isPending(payment) ? payment : undefined;
}

function isPending(payment: Payment): payment is PendingPayment {
  const { until, action } = (payment.pending ?? {}) as Readonly<Record<string, unknown>>;
  if (payment.state !== 'PROCESSING' || typeof until !== 'string' || Number.isNaN(Date.parse(until))) return false;
  return action === undefined || (isObject(action) && Object.values(action).every((text) => typeof text === 'string'));
}

export function isTransaction(value: unknown): value is Transaction {
  if (!isObject(value)) return false;
  const { transactionId, fromAccount, toAccount, amount, status } = value;
  return (
    Number.isSafeInteger(transactionId) &&
    typeof amount === 'number' &&
    [fromAccount, toAccount, status].every((member) => typeof member === 'string')
  );
}

/** True if a 304 is about the tag that the request was made with. Proxies weaken tags when they compress. */
export function isNotModified({ status, headers }: Answer, tag: string | undefined): boolean {
  const plain = (text: string) => text.replace(/^W\//, '');
  return status === 304 && tag !== undefined && plain(headers.get('etag') ?? '') === plain(tag);
}
