import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { publicErrors } from '../errors.js';
import { represent } from '../transactions/representation.js';
import type { Transaction } from '../transactions/transaction.js';
import type { Transactions } from '../transactions/transactions.js';
import { requiredBody } from './body-parser.js';
import { ifMatchCondition, ifNoneMatchCondition, quoted } from './entity-tags.js';
import { answerWith } from './errors.js';
import type { JsonBody } from './json-body.js';
import { sendTransactionList } from './transaction-list-reply.js';
import { readNewStatus, readNewTransaction, readTransactionId } from './transaction-request.js';

const ListQuery = Type.Object({ from: Type.String({ default: '' }), to: Type.String({ default: '' }) });
const StatusQuery = Type.Object({ newStatus: Type.Optional(Type.String()) });
const TransactionPath = Type.Object({ id: Type.String() });

/** Clients may keep it but must ask each time (decisions T7): only then is what they show never stale. */
const REVALIDATE = 'private, no-cache';

/** Spec 4.3, with what decisions T1 to T8 add to it. */
export function registerTransactionRoutes(server: FastifyInstance, transactions: Transactions): void {
  const app = server.withTypeProvider<TypeBoxTypeProvider>();

  app.get('/api/transactions', { schema: { querystring: ListQuery } }, (request, reply) => {
    const condition = ifNoneMatchCondition(request.headers['if-none-match']);
    answerWith(reply, transactions.list(request.query, condition), (list) => {
      const headers = { etag: quoted(list.tag), 'cache-control': REVALIDATE };
      if (list.state === 'list') return sendTransactionList(reply, headers, list.pages);
      reply.code(304).headers(headers).send();
    });
  });

  app.post('/api/transactions', (request, reply) => {
    answerWith(reply, transactions.create(readNewTransaction(requiredBody(request))), (transaction) => {
      reply.code(201).header('location', `/api/transactions/${transaction.id}`);
      sendTransaction(reply, transaction);
    });
  });

  app.get('/api/transactions/:id', { schema: { params: TransactionPath } }, (request, reply) => {
    const { text, id } = readTransactionId(request.params.id);
    answerWith(reply, transactions.get(id), ({ transaction, cache }) => {
      reply.header('cache-status', `transactionCache; ${cache === 'hit' ? 'hit' : 'fwd=miss'}`);
      if (!transaction) throw publicErrors.transactionNotFound(text);
      const { tag } = represent(transaction);
      if (ifNoneMatchCondition(request.headers['if-none-match'])?.(tag)) {
        reply.code(304).header('etag', quoted(tag)).header('cache-control', REVALIDATE).send();
      } else {
        sendTransaction(reply, transaction);
      }
    });
  });

  app.put(
    '/api/transactions/:id/status',
    { schema: { params: TransactionPath, querystring: StatusQuery } },
    (request, reply) => {
      const { text, id } = readTransactionId(request.params.id);
      const status = readNewStatus(request.body as JsonBody | undefined, request.query.newStatus);
      answerWith(reply, transactions.changeStatus(id, status, ifMatchOf(request)), (change) => {
        switch (change.state) {
          case 'done':
            sendTransaction(reply, change.transaction);
            return;
          case 'not found':
            throw publicErrors.transactionNotFound(text);
          case 'precondition failed':
            throw publicErrors.transactionChanged();
          case 'final':
            throw publicErrors.transactionFinal(change.status);
        }
      });
    },
  );

  app.delete('/api/transactions/:id', { schema: { params: TransactionPath } }, (request, reply) => {
    const { text, id } = readTransactionId(request.params.id);
    answerWith(reply, transactions.remove(id, ifMatchOf(request)), (result) => {
      if (result === 'not found') throw publicErrors.transactionNotFound(text);
      if (result === 'precondition failed') throw publicErrors.transactionChanged();
      reply.code(204).send();
    });
  });
}

function ifMatchOf(request: FastifyRequest) {
  return ifMatchCondition(request.headers['if-match']);
}

function sendTransaction(reply: FastifyReply, transaction: Transaction): void {
  const { json, tag } = represent(transaction);
  reply
    .header('content-type', 'application/json; charset=utf-8')
    .header('etag', quoted(tag))
    .header('cache-control', REVALIDATE)
    .send(json);
}
