import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import { represent } from '../../transactions/representation.js';
import type { Transactions } from '../../transactions/transactions.js';
import { answerWith } from '../errors/errors.js';
import { publicErrors } from '../errors/public-errors.js';
import { ifNoneMatchCondition, quoted, REVALIDATE } from '../requests/entity-tags.js';
import type { JsonBody } from '../requests/json-body.js';
import { evaluateRead, sendNotModified, writeCondition } from '../requests/preconditions.js';
import { clientOf } from '../requests/request-limit-hook.js';
import * as descriptions from './description.js';
import { sendTransactionList } from './list-reply.js';
import { sendTransaction } from './reply.js';
import { readNewStatus, readTransactionId } from './request.js';

const ListQuery = Type.Object({ from: Type.String({ default: '' }), to: Type.String({ default: '' }) });
const StatusQuery = Type.Object({ newStatus: Type.Optional(Type.String()) });
const TransactionPath = Type.Object({ id: Type.String() });

/** A list's tag says nothing about statuses, so a cache that revalidates with it would show old ones (rule T7). */
const NO_STORE = 'no-store';

/** Spec 4.3, with what rules T1 to T8 add to it; `creation-routes.ts` has the creates. */
export function registerTransactionRoutes(server: FastifyInstance, transactions: Transactions): void {
  const app = server.withTypeProvider<TypeBoxTypeProvider>();

  app.get(
    '/api/transactions',
    {
      schema: { querystring: ListQuery },
      config: {
        operation: 'list transactions',
        scopes: ['transactions:read'],
        description: descriptions.listTransactions,
      },
    },
    (request, reply) => {
      const { headers, query } = request;
      const filter = { from: query.from, to: query.to, client: clientOf(request) };
      // If-Match is checked first (RFC 9110 13.2.2), which needs the tag.
      const known = headers['if-match'] === undefined ? ifNoneMatchCondition(headers['if-none-match']) : undefined;
      answerWith(reply, transactions.list(filter, known), (list) => {
        const listHeaders = { etag: quoted(list.tag), 'cache-control': NO_STORE };
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

  app.get(
    '/api/transactions/:id',
    {
      schema: { params: TransactionPath },
      config: { scopes: ['transactions:read'], description: descriptions.getTransaction },
    },
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

  app.put(
    '/api/transactions/:id/status',
    {
      schema: { params: TransactionPath, querystring: StatusQuery },
      config: { operation: 'change status', scopes: ['transactions:write'], description: descriptions.changeStatus },
    },
    (request, reply) => {
      const { text, id } = readTransactionId(request.params.id);
      const status = readNewStatus(request.body as JsonBody | undefined, request.query.newStatus);
      answerWith(reply, transactions.changeStatus(id, status, writeCondition(request.headers)), (change) => {
        switch (change.state) {
          case 'done':
            sendTransaction(reply, change.transaction);
            return;
          case 'not found':
            throw publicErrors.transactionNotFound(text);
          case 'precondition failed':
            throw publicErrors.preconditionFailed('transaction');
          case 'final':
            throw publicErrors.transactionFinal(change.status);
        }
      });
    },
  );

  app.delete(
    '/api/transactions/:id',
    {
      schema: { params: TransactionPath },
      config: {
        operation: 'delete transaction',
        scopes: ['transactions:write'],
        description: descriptions.deleteTransaction,
      },
    },
    (request, reply) => {
      const { text, id } = readTransactionId(request.params.id);
      answerWith(reply, transactions.remove(id, writeCondition(request.headers)), (result) => {
        if (result === 'not found') throw publicErrors.transactionNotFound(text);
        if (result === 'precondition failed') throw publicErrors.preconditionFailed('transaction');
        reply.code(204).send();
      });
    },
  );
}
