import type { FastifyInstance } from 'fastify';
import { represent } from '../../transactions/representation.js';
import {
  FIRST_TRANSACTION_ID,
  LAST_TRANSACTION_ID,
  TRANSACTION_STATUSES,
  type Transaction,
  type TransactionSearch,
} from '../../transactions/transaction.js';
import type { Transactions } from '../../transactions/transactions.js';
import { publicErrors } from '../errors/catalogue.js';
import { answerWith } from '../errors/error-answers.js';
import { linkToNextPage, NO_STORE } from '../openapi/headers.js';
import { whole } from '../openapi/json-schema.js';
import type { RouteDescription } from '../openapi/route-description.js';
import { quoted } from '../requests/entity-tags.js';
import { sendJson } from '../requests/json-answer.js';
import { type ParametersOf, type ParametersProvider, querySchema } from '../requests/parameter-schemas.js';
import { limitOf, pageAfter, refuseUnknownParameters } from '../requests/query-parameters.js';
import { clientOf } from '../requests/request-limit-hook.js';
import { EXAMPLE_TRANSACTION, transactionMembers } from './shown-transaction.js';

const PATH = '/api/transactions/search';
const DEFAULT_LIMIT = 50;
const MAX_LIMIT = 200;
const WHOLE_NUMBER = /^[1-9]\d{0,14}$/;

const Query = querySchema('from', 'to', 'status', 'limit', 'cursor');
const PARAMETERS = Object.keys(Query.properties);

/** The newest transactions in pages, for people who look for some of them (docs/engineering/decisions/0056). */
export function searchTransactions(
  server: FastifyInstance,
  { transactions }: { readonly transactions: Transactions },
): void {
  server
    .withTypeProvider<ParametersProvider>()
    .get(
      PATH,
      { schema: { querystring: Query }, config: { scopes: ['transactions:read'], description } },
      (request, reply) => {
        refuseUnknownParameters(request.query, PARAMETERS);
        answerWith(reply, transactions.search({ ...readSearch(request.query), client: clientOf(request) }), (found) => {
          if (found.next !== undefined) {
            reply.header('link', `<${pageAfter(PATH, request.query, String(found.next))}>; rel="next"`);
          }
          sendJson(reply, `[${found.transactions.map(foundTransactionJson).join(',')}]`);
        });
      },
    );
}

/** The selection of a search; throws the 400 that names the parameter. An empty one counts as absent. */
function readSearch({ from = '', to = '', status, limit, cursor }: ParametersOf<typeof Query>): TransactionSearch {
  return {
    from,
    to,
    status: status ? statusNamed(status) : undefined,
    before: cursor ? cursorOf(cursor) : undefined,
    limit: limit ? limitOf(limit, MAX_LIMIT) : DEFAULT_LIMIT,
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

/** One of several, with the tag that it cannot have in a header: as `If-Match` takes it. */
function foundTransactionJson(transaction: Transaction): string {
  const { json, tag } = represent(transaction);
  return `${json.slice(0, -1)},"etag":${JSON.stringify(quoted(tag))}}`;
}

const description: RouteDescription = {
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
      schema: { type: 'integer', minimum: 1, maximum: MAX_LIMIT, default: DEFAULT_LIMIT },
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
      headers: [NO_STORE, linkToNextPage(PATH, 'LinkTransactions', FIRST_TRANSACTION_ID)],
      content: {
        mediaType: 'application/json',
        schema: { type: 'array', maxItems: MAX_LIMIT, items: { $ref: '#/components/schemas/FoundTransaction' } },
        examples: { page: [JSON.parse(foundTransactionJson(EXAMPLE_TRANSACTION))], empty: [] },
      },
    },
  },
  errors: [
    {
      unknownParameter: () => refuseUnknownParameters({ state: '' }, PARAMETERS),
      invalidStatus: () => readSearch({ status: 'PAID' }),
      invalidLimit: () => readSearch({ limit: '0' }),
      invalidCursor: () => readSearch({ cursor: `${FIRST_TRANSACTION_ID}x` }),
    },
  ],
};

export const FoundTransactionSchema = whole(
  {
    ...transactionMembers,
    etag: {
      type: 'string',
      pattern: '^"[0-9a-f]{32}"$',
      description: 'Its tag, as the header `If-Match` takes it.',
    },
  },
  'One transaction that a search found.',
);
