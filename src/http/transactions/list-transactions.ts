import type { FastifyInstance } from 'fastify';
import type { Transactions } from '../../transactions/transactions.js';
import { publicErrors } from '../errors/catalogue.js';
import { answerWith } from '../errors/error-answers.js';
import { ETAG, NO_STORE, REQUEST_HEADERS } from '../openapi/headers.js';
import type { RouteDescription } from '../openapi/route-description.js';
import { ifNoneMatchCondition, quoted } from '../requests/entity-tags.js';
import { type ParametersProvider, querySchema } from '../requests/parameter-schemas.js';
import { evaluateRead, sendNotModified } from '../requests/preconditions.js';
import { clientOf } from '../requests/request-limit-hook.js';
import { sendTransactionList } from './list-reply.js';
import { exampleTransaction } from './shown-transaction.js';

const Query = querySchema('from', 'to');

/** Spec 4.3, rule T7: a list whose tag says nothing about statuses, so a cache that revalidates with it would show old ones. */
export function listTransactions(
  server: FastifyInstance,
  { transactions }: { readonly transactions: Transactions },
): void {
  server.withTypeProvider<ParametersProvider>().get(
    '/api/transactions',
    {
      schema: { querystring: Query },
      config: { operation: 'list transactions', scopes: ['transactions:read'], description },
    },
    (request, reply) => {
      const { headers, query } = request;
      const filter = { from: query.from ?? '', to: query.to ?? '', client: clientOf(request) };
      // If-Match is checked first (RFC 9110 13.2.2), which needs the tag.
      const known = headers['if-match'] === undefined ? ifNoneMatchCondition(headers['if-none-match']) : undefined;
      answerWith(reply, transactions.list(filter, known), (list) => {
        const listHeaders = { etag: quoted(list.tag), 'cache-control': 'no-store' };
        if (list.state === 'list') {
          const verdict = evaluateRead(headers, list.tag);
          if (verdict === 'proceed') return sendTransactionList(reply, listHeaders, list.pages);
          list.pages.close();
          if (verdict === 'failed') throw publicErrors.preconditionFailed('list');
        }
        sendNotModified(reply.headers(listHeaders));
      });
    },
  );
}

const { ifMatch, ifNoneMatch } = REQUEST_HEADERS;

const description: RouteDescription = {
  operationId: 'listTransactions',
  tag: 'Transactions',
  summary: 'List transactions by id, rising',
  text: 'The tag is the MD5 digest of the ids and their count. So a 304 says that the set of ids is unchanged, and **nothing about statuses**. No cache may keep a list: send `If-None-Match` yourself. Unknown parameters are ignored. A long list is streamed: it is whole only if the answer ends as HTTP says.',
  parameters: {
    from: {
      text: 'Only from this account, such as `alice`. Empty: no filter.',
      schema: { type: 'string', default: '' },
    },
    to: {
      text: 'Only to this account, such as `bob`. Empty: no filter.',
      schema: { type: 'string', default: '' },
      example: 'bob',
    },
  },
  headers: [ifNoneMatch, ifMatch],
  answers: {
    200: {
      text: 'The transactions.',
      headers: [ETAG, NO_STORE],
      content: {
        mediaType: 'application/json',
        schema: { type: 'array', items: { $ref: '#/components/schemas/Transaction' } },
        examples: { list: [exampleTransaction()], empty: [] },
      },
    },
    304: { text: 'The ids are those of the tag.', headers: [ETAG, NO_STORE] },
  },
  errors: [{ preconditionFailed: publicErrors.preconditionFailed('list') }, 'tooManyLists'],
};
