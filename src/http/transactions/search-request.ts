import { LAST_TRANSACTION_ID, TRANSACTION_STATUSES, type TransactionSearch } from '../../transactions/transaction.js';
import { publicErrors } from '../errors/public-errors.js';

export const SEARCH_PATH = '/api/transactions/search';
export const SEARCH_PARAMETERS = ['from', 'to', 'status', 'limit', 'cursor'] as const;
export const DEFAULT_SEARCH_LIMIT = 50;
export const MAX_SEARCH_LIMIT = 200;

export type SearchQuery = { readonly [name in (typeof SEARCH_PARAMETERS)[number]]?: string };

const WHOLE_NUMBER = /^[1-9]\d{0,14}$/;

/** What a search asks for; throws the 400 that names the parameter. An empty one counts as absent. */
export function readSearch({ from = '', to = '', status, limit, cursor }: SearchQuery): TransactionSearch {
  return {
    from,
    to,
    status: status ? statusNamed(status) : undefined,
    before: cursor ? cursorOf(cursor) : undefined,
    limit: limit ? limitOf(limit) : DEFAULT_SEARCH_LIMIT,
  };
}

function statusNamed(text: string): TransactionSearch['status'] {
  const status = TRANSACTION_STATUSES.find((known) => known === text);
  if (!status) throw publicErrors.invalidRequest(`'status' must be one of ${TRANSACTION_STATUSES.join(', ')}.`);
  return status;
}

function cursorOf(text: string): number {
  const id = WHOLE_NUMBER.test(text) ? Number(text) : Number.NaN;
  if (id <= LAST_TRANSACTION_ID) return id;
  throw publicErrors.invalidRequest("'cursor' must come from the Link header of the page before.");
}

function limitOf(text: string): number {
  const limit = WHOLE_NUMBER.test(text) ? Number(text) : Number.NaN;
  if (limit <= MAX_SEARCH_LIMIT) return limit;
  throw publicErrors.invalidRequest(`'limit' must be a whole number from 1 to ${MAX_SEARCH_LIMIT}.`);
}
