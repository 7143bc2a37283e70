import { createHash } from 'node:crypto';
import type { Transaction, TransactionStatus } from './transaction.js';

/** One transaction as a client sees it. */
export interface Representation {
  readonly json: string;
  /** The per-transaction tag of spec 4.3, without quotes. */
  readonly tag: string;
}

/** The member in which a transaction keeps its representation. Not enumerable: a copy with another status must not take it along. */
const REPRESENTATION = Symbol('representation');

/**
 * A transaction is immutable, so text and tag are made once and live as long as it is cached. They lie in the transaction and not
 * in a weak map next to it: the garbage collector would go through that map entry by entry, for half a second with a full cache.
 */
export function represent(transaction: Transaction & { [REPRESENTATION]?: Representation }): Representation {
  const known = transaction[REPRESENTATION];
  if (known) return known;
  const representation = { json: transactionJson(transaction), tag: transactionTag(transaction, transaction.status) };
  Object.defineProperty(transaction, REPRESENTATION, { value: representation });
  return representation;
}

/** Written by hand for one reason: the amount is an exact JSON number that never was a binary float (rule T2). */
export function transactionJson(transaction: Transaction): string {
  const { id, fromAccount, toAccount, amount, status, createdAt } = transaction;
  return `{"transactionId":${id},"fromAccount":${JSON.stringify(fromAccount)},"toAccount":${JSON.stringify(toAccount)},"amount":${amount},"status":"${status}","createdAt":"${new Date(createdAt).toISOString()}"}`;
}

/** MD5 of transactionId, fromAccount, toAccount, amount and status (spec 4.3), as if it had the given status. */
export function transactionTag(transaction: Transaction, status: TransactionStatus): string {
  const { id, fromAccount, toAccount, amount } = transaction;
  return createHash('md5').update(`${id}${fromAccount}${toAccount}${amount}${status}`).digest('hex');
}
