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
      reply.header('etag', quoted(list.tag)).header('cache-control', REVALIDATE);
      if (list.state === 'list') return sendTransactionList(reply, list.pages);
      reply.code(304).send();
    });
  });

  app.post('/api/transactions', async (request, reply) => {
    const transaction = await transactions.create(readNewTransaction(requiredBody(request)));
    return send(reply.code(201).header('location', `/api/transactions/${transaction.id}`), transaction);
  });

  app.get('/api/transactions/:id', { schema: { params: TransactionPath } }, async (request, reply) => {
    const { text, id } = readTransactionId(request.params.id);
    const found = id === undefined ? undefined : await transactions.get(id);
    reply.header('cache-status', `transactionCache; ${found?.cache === 'hit' ? 'hit' : 'fwd=miss'}`);
    if (!found?.transaction) throw publicErrors.transactionNotFound(text);
    const { tag } = represent(found.transaction);
    if (ifNoneMatchCondition(request.headers['if-none-match'])?.(tag)) {
      return reply.code(304).header('etag', quoted(tag)).header('cache-control', REVALIDATE).send();
    }
    return send(reply, found.transaction);
  });

  app.put(
    '/api/transactions/:id/status',
    { schema: { params: TransactionPath, querystring: StatusQuery } },
    async (request, reply) => {
      const { text, id } = readTransactionId(request.params.id);
      const status = readNewStatus(request.body as JsonBody | undefined, request.query.newStatus);
      if (id === undefined) throw publicErrors.transactionNotFound(text);
      const change = await transactions.changeStatus(id, status, ifMatchOf(request));
      switch (change.state) {
        case 'done':
          return send(reply, change.transaction);
        case 'not found':
          throw publicErrors.transactionNotFound(text);
        case 'precondition failed':
          throw publicErrors.transactionChanged();
        case 'final':
          throw publicErrors.transactionFinal(change.status);
      }
    },
  );

  app.delete('/api/transactions/:id', { schema: { params: TransactionPath } }, async (request, reply) => {
    const { text, id } = readTransactionId(request.params.id);
    const result = id === undefined ? 'not found' : await transactions.remove(id, ifMatchOf(request));
    if (result === 'not found') throw publicErrors.transactionNotFound(text);
    if (result === 'precondition failed') throw publicErrors.transactionChanged();
    return reply.code(204).send();
  });
}

function ifMatchOf(request: FastifyRequest) {
  return ifMatchCondition(request.headers['if-match']);
}

function send(reply: FastifyReply, transaction: Transaction): FastifyReply {
  const { json, tag } = represent(transaction);
  return reply
    .header('content-type', 'application/json; charset=utf-8')
    .header('etag', quoted(tag))
    .header('cache-control', REVALIDATE)
    .send(json);
}
