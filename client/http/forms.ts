import type { Payment, Transaction } from '../representations.js';
import { isObject, isOfType, parsed } from './proof.js';
import type { Answer } from './transport.js';

/** The body of a 2xx of the service; undefined for another status, another media type, and half of a body. */
export function jsonOf({ status, headers, text }: Answer, wanted: 200 | 201 = 200): unknown {
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
