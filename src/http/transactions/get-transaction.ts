import type { FastifyInstance } from 'fastify';
import { represent } from '../../transactions/representation.js';
import type { Transactions } from '../../transactions/transactions.js';
import { publicErrors } from '../errors/catalogue.js';
import { answerWith } from '../errors/error-answers.js';
import { always, ETAG, REQUEST_HEADERS, REVALIDATE as REVALIDATE_HEADER, sometimes } from '../openapi/headers.js';
import type { RouteDescription } from '../openapi/route-description.js';
import { quoted, REVALIDATE } from '../requests/entity-tags.js';
import type { ParametersProvider } from '../requests/parameter-schemas.js';
import { evaluateRead, sendNotModified } from '../requests/preconditions.js';
import { sendTransaction, shownTransaction } from './shown-transaction.js';
import { idErrors, idParameter, readTransactionId, TransactionPath } from './transaction-path.js';

/** Spec 4.3, rule T6: from the cache, which is never stale. */
export function getTransaction(
  server: FastifyInstance,
  { transactions }: { readonly transactions: Transactions },
): void {
  server
    .withTypeProvider<ParametersProvider>()
    .get(
      '/api/transactions/:id',
      { schema: { params: TransactionPath }, config: { scopes: ['transactions:read'], description } },
      (request, reply) => {
        const { text, id } = readTransactionId(request.params.id);
        answerWith(reply, transactions.get(id), ({ transaction, cache }) => {
          reply.header('cache-status', `transactionCache; ${cache === 'hit' ? 'hit' : `fwd=${cache}`}`);
          if (!transaction) throw publicErrors.transactionNotFound(text);
          const { tag } = represent(transaction);
          switch (evaluateRead(request.headers, tag)) {
            case 'proceed':
              sendTransaction(reply, transaction);
              return;
            case 'not modified':
              sendNotModified(reply.header('etag', quoted(tag)).header('cache-control', REVALIDATE));
              return;
            case 'failed':
              throw publicErrors.preconditionFailed('transaction');
          }
        });
      },
    );
}

const { ifMatch, ifNoneMatch } = REQUEST_HEADERS;

const CACHE_STATUS = always(
  'Cache-Status',
  'What the cache of the service did (RFC 9211): `hit`, `fwd=miss`, or `fwd=bypass` where it was not asked.',
  { enum: ['transactionCache; hit', 'transactionCache; fwd=miss', 'transactionCache; fwd=bypass'] },
  'transactionCache; hit',
);

const description: RouteDescription = {
  operationId: 'getTransaction',
  tag: 'Transactions',
  summary: 'Read a transaction',
  text: 'From the cache where it is there, and never stale.',
  parameters: { id: idParameter },
  headers: [ifNoneMatch, ifMatch],
  answers: {
    200: shownTransaction('The transaction.', [CACHE_STATUS]),
    304: { text: 'It has a tag of `If-None-Match`.', headers: [ETAG, REVALIDATE_HEADER, CACHE_STATUS] },
  },
  errors: [...idErrors, { preconditionFailed: publicErrors.preconditionFailed('transaction') }],
  errorHeaders: { 404: [sometimes(CACHE_STATUS)], 412: [CACHE_STATUS] },
};
