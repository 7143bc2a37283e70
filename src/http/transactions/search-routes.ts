import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import type { Transactions } from '../../transactions/transactions.js';
import { answerWith } from '../errors/errors.js';
import { pageAfter, refuseUnknownParameters } from '../requests/query-parameters.js';
import { clientOf } from '../requests/request-limit-hook.js';
import { foundTransactionJson } from './reply.js';
import { searchTransactions } from './search-description.js';
import { readSearch, SEARCH_PARAMETERS, SEARCH_PATH } from './search-request.js';

const Text = Type.Optional(Type.String());
const Query = Type.Object({ from: Text, to: Text, status: Text, limit: Text, cursor: Text });

/** The newest transactions in pages, for people who look for some of them (docs/engineering/decisions/0056). */
export function registerTransactionSearchRoutes(server: FastifyInstance, transactions: Transactions): void {
  server.withTypeProvider<TypeBoxTypeProvider>().get(
    SEARCH_PATH,
    {
      schema: { querystring: Query },
      config: { scopes: ['transactions:read'], description: searchTransactions },
    },
    (request, reply) => {
      refuseUnknownParameters(request.query, SEARCH_PARAMETERS);
      answerWith(reply, transactions.search({ ...readSearch(request.query), client: clientOf(request) }), (found) => {
        if (found.next !== undefined) {
          reply.header('link', `<${pageAfter(SEARCH_PATH, request.query, String(found.next))}>; rel="next"`);
        }
        reply
          .header('content-type', 'application/json; charset=utf-8')
          .header('cache-control', 'no-store')
          .send(`[${found.transactions.map(foundTransactionJson).join(',')}]`);
      });
    },
  );
}
