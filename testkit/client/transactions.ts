import { createHash, randomUUID } from 'node:crypto';
import type { Status } from '../history/transactions.js';
import { expectError } from './error-body.js';
import { type Answer, type Ask, ask, sendJson } from './http-client.js';

export { listTag } from '../checkers/lists.js';
export { FINAL_STATUSES, MOVABLE_STATUSES, STATUSES, type Status } from '../history/transactions.js';

export interface Transaction {
  transactionId: number;
  fromAccount: string;
  toAccount: string;
  /** Safe as a double: 15 digits at most, and an id has 15. */
  amount: number;
  status: Status;
  createdAt: string;
}

/** The filters of a list; `to: ''` is sent, and means no filter. */
export type Filter = Partial<Record<'from' | 'to', string>>;

type Id = number | string;
type Headers = Ask['headers'];

const PATH = '/api/transactions';

/** An account that no other test uses, so that a list filtered by it holds this test's transactions only. */
export const newAccount = () => `account-${randomUUID()}`;

/** A body that is accepted; `members` replaces or adds. A member set to undefined is left out. */
export function draft(members: Record<string, unknown> = {}): Record<string, unknown> {
  return { fromAccount: 'A', toAccount: 'B', amount: '100.50', ...members };
}

export function postTransaction(url: string, body: unknown = draft(), headers: Headers = {}): Promise<Answer> {
  return sendJson(`${url}${PATH}`, 'POST', body, headers);
}

/** `rows`: the transactions, or a whole body as `postTransaction` sends it. */
export function postBatch(url: string, rows: unknown, headers: Headers = {}): Promise<Answer> {
  return sendJson(`${url}${PATH}/batch`, 'POST', Array.isArray(rows) ? { transactions: rows } : rows, headers);
}

/** The transactions of a create that was answered with 201. */
export function createdIn(answer: Answer): Transaction[] {
  if (answer.status !== 201) throw new Error(`create answered ${answer.status}: ${answer.text}`);
  return answer.json<{ transactions: Transaction[] }>().transactions;
}

export const keyed = (key: string) => ({ 'Idempotency-Key': key });

export async function givenTransaction(url: string, members: Record<string, unknown> = {}): Promise<Transaction> {
  const answer = await postTransaction(url, draft(members));
  if (answer.status !== 201) throw new Error(`create answered ${answer.status}: ${answer.text}`);
  return answer.json<Transaction>();
}

export function readTransaction(url: string, id: Id, headers: Headers = {}, method = 'GET'): Promise<Answer> {
  return ask(`${url}${PATH}/${id}`, { method, headers });
}

export function changeStatus(url: string, id: Id, status: string, headers: Headers = {}): Promise<Answer> {
  return putStatus(url, id, { status }, headers);
}

/** PUT with any body, as `postTransaction` sends it, or with none, and perhaps a query alongside it. */
export function putStatus(url: string, id: Id, body?: unknown, headers: Headers = {}, query = ''): Promise<Answer> {
  const to = `${url}${PATH}/${id}/status${query}`;
  return body === undefined ? ask(to, { method: 'PUT', headers }) : sendJson(to, 'PUT', body, headers);
}

export function deleteTransaction(url: string, id: Id, headers: Headers = {}): Promise<Answer> {
  return ask(`${url}${PATH}/${id}`, { method: 'DELETE', headers });
}

export function listTransactions(url: string, filter: Filter = {}, headers: Headers = {}, method = 'GET') {
  const query = Object.entries(filter).map(([name, value]) => `${name}=${encodeURIComponent(value ?? '')}`);
  return ask(`${url}${PATH}${query.length > 0 ? `?${query.join('&')}` : ''}`, { method, headers });
}

export function expectUnknownTransaction(answer: Answer, id: Id): void {
  expectError(answer, 404, `Transaction not found for id: ${id}`);
}

export const idsOf = (list: Answer) => list.json<Transaction[]>().map((transaction) => transaction.transactionId);

/** The per-transaction tag of spec 4.3, unquoted. `String` of an amount with 15 digits is its shortest plain decimal. */
export function transactionTag(transaction: Transaction): string {
  const { transactionId, fromAccount, toAccount, amount, status } = transaction;
  const text = `${transactionId}${fromAccount}${toAccount}${String(amount)}${status}`;
  return createHash('md5').update(text).digest('hex');
}

export const quoted = (tag: string): string => `"${tag}"`;
