import { FIRST_TRANSACTION_ID } from '../../transactions/transaction.js';
import { always, linkToNextPage } from '../openapi/headers.js';
import type { RequestHeader } from '../openapi/route-description.js';

export const CREATION_KEY = {
  name: 'Idempotency-Key',
  text: 'A key of your own: one for each create, the same for every repeat. 1 to 64 visible ASCII characters, with or without quotes; sent twice or empty it is invalid. It belongs to the client that sends it and to the endpoint, and is kept for `IDEMPOTENCY_TTL_SECONDS`.',
  required: false,
  schema: { type: 'string' },
} as const satisfies RequestHeader;

export const CACHE_STATUS = always(
  'Cache-Status',
  'What the cache of the service did (RFC 9211): `hit`, `fwd=miss`, or `fwd=bypass` where it was not asked.',
  { enum: ['transactionCache; hit', 'transactionCache; fwd=miss', 'transactionCache; fwd=bypass'] },
  'transactionCache; hit',
);

export const LOCATION = always(
  'Location',
  'The path of the new transaction.',
  { type: 'string', pattern: '^/api/transactions/[1-9][0-9]{14}$' },
  '/api/transactions/100000000000001',
);

export const LINK_NEXT_TRANSACTIONS = linkToNextPage(
  '/api/transactions/search',
  'LinkTransactions',
  FIRST_TRANSACTION_ID,
);
