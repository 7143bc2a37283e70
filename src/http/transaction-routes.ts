import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyInstance, FastifyReply } from 'fastify';
import { Type } from 'typebox';
import { represent } from '../transactions/representation.js';
import type { NewTransaction, Transaction } from '../transactions/transaction.js';
import type { TagCondition, Transactions } from '../transactions/transactions.js';
import { requiredBody } from './body-parser.js';
import * as descriptions from './description/transactions.js';
import { ifNoneMatchCondition, quoted } from './entity-tags.js';
import { answerWith } from './errors.js';
import type { JsonBody } from './json-body.js';
import { evaluateRead, sendNotModified, writeCondition } from './preconditions.js';
import { publicErrors } from './public-errors.js';
import { sendTransactionList } from './transaction-list-reply.js';
import { readNewStatus, readNewTransaction, readTransactionId } from './transaction-request.js';

const ListQuery = Type.Object({ from: Type.String({ default: '' }), to: Type.String({ default: '' }) });
const StatusQuery = Type.Object({ newStatus: Type.Optional(Type.String()) });
const TransactionPath = Type.Object({ id: Type.String() });

/** One transaction may be kept, and is asked for each time (decisions T7): only then is what is shown never stale. */
const REVALIDATE = 'private, no-cache';
/** A list's tag says nothing about statuses, so a cache that revalidates with it would show old ones (decisions T7). */
const NO_STORE = 'no-store';

/** Spec 4.3, with what decisions T1 to T8 add to it. */
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
      const { headers } = request;
      // If-Match is checked first (RFC 9110 13.2.2), which needs the tag.
      const known = headers['if-match'] === undefined ? ifNoneMatchCondition(headers['if-none-match']) : undefined;
      answerWith(reply, transactions.list(request.query, known), (list) => {
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

  app.post(
    '/api/transactions',
    {
      config: {
        operation: 'create transaction',
        scopes: ['transactions:write'],
        description: descriptions.createTransaction,
      },
    },
    (request, reply) => {
      const wanted = readNewTransaction(requiredBody(request));
      answerWith(reply, createIf(writeCondition(request.headers), wanted), (transaction) => {
        reply.code(201).header('location', `/api/transactions/${transaction.id}`);
        sendTransaction(reply, transaction);
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

  /** A condition on creating is one on the list, checked just before and not in the commit (RFC 9110 13.2.1). */
  async function createIf(condition: TagCondition | undefined, wanted: NewTransaction): Promise<Transaction> {
    if (condition) {
      const list = await transactions.list({ from: '', to: '' }, condition);
      if (list.state === 'list') {
        list.pages.close();
        throw publicErrors.preconditionFailed('list');
      }
    }
    return transactions.create(wanted);
  }
}

function sendTransaction(reply: FastifyReply, transaction: Transaction): void {
  const { json, tag } = represent(transaction);
  reply
    .header('content-type', 'application/json; charset=utf-8')
    .header('etag', quoted(tag))
    .header('cache-control', REVALIDATE)
    .send(json);
}
