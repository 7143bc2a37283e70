import { FIRST_TRANSACTION_ID, LAST_TRANSACTION_ID } from '../../transactions/transaction.js';
import { NO_STORE } from '../openapi/headers.js';
import type { RouteDescription } from '../openapi/route-description.js';
import { refuseUnknownParameters } from '../requests/query-parameters.js';
import { EXAMPLE_TRANSACTION_ID, exampleFoundTransaction } from './examples.js';
import { LINK_NEXT_TRANSACTIONS } from './headers.js';
import { DEFAULT_SEARCH_LIMIT, MAX_SEARCH_LIMIT, readSearch, SEARCH_PARAMETERS } from './search-request.js';

export const searchTransactions: RouteDescription = {
  operationId: 'searchTransactions',
  tag: 'Transactions',
  summary: 'Search transactions, newest first',
  text: 'In pages: follow `Link`. One page looks at a limited number of transactions, so with `status` it may be short or empty and still have a next one: only a page without `Link` is the last. Each transaction is as it is in the store at this moment, with its tag for `If-Match`. An empty parameter counts as absent, an unknown one is refused.',
  parameters: {
    from: { text: 'Only from this account, such as `alice`.', schema: { type: 'string' } },
    to: { text: 'Only to this account, such as `bob`.', schema: { type: 'string' }, example: 'bob' },
    status: {
      text: 'Only transactions with this status now.',
      schema: { $ref: '#/components/schemas/TransactionStatus' },
    },
    limit: {
      text: 'The length of a page.',
      schema: { type: 'integer', minimum: 1, maximum: MAX_SEARCH_LIMIT, default: DEFAULT_SEARCH_LIMIT },
    },
    cursor: {
      text: 'From `Link` of the page before: only ids below it.',
      schema: { type: 'integer', format: 'int64', minimum: 1, maximum: LAST_TRANSACTION_ID },
      example: FIRST_TRANSACTION_ID,
    },
  },
  answers: {
    200: {
      text: 'A page.',
      headers: [NO_STORE, LINK_NEXT_TRANSACTIONS],
      content: {
        mediaType: 'application/json',
        schema: { type: 'array', maxItems: MAX_SEARCH_LIMIT, items: { $ref: '#/components/schemas/FoundTransaction' } },
        examples: { page: [exampleFoundTransaction()], empty: [] },
      },
    },
  },
  errors: [
    {
      unknownParameter: () => refuseUnknownParameters({ state: '' }, SEARCH_PARAMETERS),
      invalidStatus: () => readSearch({ status: 'PAID' }),
      invalidLimit: () => readSearch({ limit: '0' }),
      invalidCursor: () => readSearch({ cursor: `${EXAMPLE_TRANSACTION_ID}x` }),
    },
  ],
};
