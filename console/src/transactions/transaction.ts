import type { FoundTransaction, TransactionStatus } from '@idempay/client';
import { nextCursor } from '@idempay/client/next-cursor';
import type { Http } from '../http/http.js';
import { foreignAnswer, ServiceError } from '../http/service-error.js';

/** In the order in which a transaction may pass through them (rule T4 of the service). */
export const STATUSES = [
  'PENDING',
  'PROCESSING',
  'ON_HOLD',
  'FLAGGED',
  'BLOCKED',
  'COMPLETED',
  'FAILED',
  'CANCELLED',
] as const satisfies readonly TransactionStatus[];
export type Status = TransactionStatus;
const FINAL: readonly Status[] = ['FAILED', 'CANCELLED'];
export const isFinal = (status: Status) => FINAL.includes(status);

/** One transaction as it was when it was read, with the tag of exactly what is shown. */
export type Transaction = FoundTransaction;

export interface Filter {
  /** Empty: no filter, as in the others. With an id the others are ignored. */
  readonly id: string;
  readonly from: string;
  readonly to: string;
  readonly status: string;
}

export interface Page {
  readonly rows: readonly Transaction[];
  /** The cursor of older transactions. Undefined if there are none. */
  readonly next: string | undefined;
}

const PAGE = 100;
/** Each request looks at thousands of rows for a rare status. After this many the reader decides whether to continue. */
const MOST_REQUESTS = 10;

/** Transactions older than the cursor, until there are `enough` or the service has looked at many. */
export async function search(
  http: Http,
  { id, ...query }: Filter,
  cursor: string | undefined,
  enough: (rows: readonly Transaction[]) => boolean,
  signal: AbortSignal,
): Promise<Page> {
  if (id !== '') return { rows: await findOne(http, id, signal), next: undefined };
  const rows: Transaction[] = [];
  let next = cursor;
  for (let requests = 0; requests < MOST_REQUESTS; requests += 1) {
    const answer = await http.ask<Transaction[]>('api/transactions/search', {
      query: { ...query, limit: PAGE, cursor: next },
      signal,
    });
    rows.push(...answer.body);
    next = nextCursor(answer.headers);
    if (next === undefined || enough(rows)) break;
  }
  return { rows, next };
}

async function findOne(http: Http, id: string, signal: AbortSignal): Promise<readonly Transaction[]> {
  const found = await read(http, id, signal);
  return found ? [found] : [];
}

/** As it is now. Undefined if it is not there (any more). */
export async function read(http: Http, id: string | number, signal?: AbortSignal): Promise<Transaction | undefined> {
  const path = `api/transactions/${encodeURIComponent(id)}`;
  const answer = await http.ask<Omit<Transaction, 'etag'>>(path, { signal }).catch((error: unknown) => {
    if (error instanceof ServiceError && error.status === 404) return undefined;
    throw error;
  });
  return answer && withTag(answer.body, answer.headers);
}

/** Throws a `ServiceError` of 412 if it is no longer as the operator saw it. */
export async function changeStatus(http: Http, seen: Transaction, status: Status): Promise<Transaction> {
  const id = seen.transactionId;
  const answer = await http.ask<Omit<Transaction, 'etag'>>(`api/transactions/${id}/status`, {
    method: 'PUT',
    json: { status },
    headers: { 'If-Match': seen.etag },
  });
  const { body, headers } = answer;
  if (body.transactionId !== id || body.status !== status) throw foreignAnswer(answer.status);
  return withTag(body, headers);
}

export async function remove(http: Http, seen: Transaction): Promise<void> {
  const path = `api/transactions/${seen.transactionId}`;
  const { status } = await http.ask(path, { method: 'DELETE', headers: { 'If-Match': seen.etag } });
  if (status !== 204) throw foreignAnswer(status);
}

function withTag(transaction: Omit<Transaction, 'etag'>, headers: Headers): Transaction {
  return { ...transaction, etag: headers.get('etag') ?? '' };
}
