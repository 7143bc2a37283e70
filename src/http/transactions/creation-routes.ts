import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { StoreUnavailable } from '../../platform/faults.js';
import type { CreationEndpoint } from '../../transactions/creation.js';
import { transactionJson } from '../../transactions/representation.js';
import type { NewTransaction, Transaction } from '../../transactions/transaction.js';
import type { Transactions } from '../../transactions/transactions.js';
import { answerWith } from '../errors/errors.js';
import { publicErrors, storeRefusal } from '../errors/public-errors.js';
import { requiredBody } from '../requests/body-parser.js';
import { writeCondition } from '../requests/preconditions.js';
import * as descriptions from './creation-description.js';
import { creationNameOf, refuseInvalidKey } from './creation-key.js';
import { sendTransaction } from './reply.js';
import { BATCH_ROWS, readNewTransaction, readNewTransactions } from './request.js';

/** A thousand rows of ordinary length are a tenth of it; those with the longest accounts just fit. */
const BATCH_LIMIT_BYTES = 1024 * 1024;

/** Spec 4.3 and rules T5, T7, T9 and T10: creates of one transaction and of many, with or without a key of the client's. */
export function registerTransactionCreationRoutes(app: FastifyInstance, transactions: Transactions): void {
  app.post(
    '/api/transactions',
    {
      onRequest: refuseInvalidKey,
      config: {
        operation: 'create transaction',
        scopes: ['transactions:write'],
        description: descriptions.createTransaction,
      },
    },
    (request, reply) => {
      const wanted = readNewTransaction(requiredBody(request));
      create(request, reply, 'one', [wanted], ([transaction]) => {
        if (!transaction) throw new Error('a create of one transaction made none');
        reply.header('location', `/api/transactions/${transaction.id}`);
        sendTransaction(reply, transaction);
      });
    },
  );

  app.post(
    '/api/transactions/batch',
    {
      onRequest: refuseInvalidKey,
      bodyLimit: BATCH_LIMIT_BYTES,
      config: {
        operation: 'create transactions',
        scopes: ['transactions:write'],
        description: descriptions.createTransactions,
        bodyRows: BATCH_ROWS,
      },
    },
    (request, reply) => {
      const wanted = readNewTransactions(requiredBody(request));
      create(request, reply, 'batch', wanted, (created) => {
        reply
          .header('content-type', 'application/json; charset=utf-8')
          .header('cache-control', 'no-store')
          .send(`{"${BATCH_ROWS.name}":[${created.map(transactionJson).join(',')}]}`);
      });
    },
  );

  /** `send` answers what was created, now or by the first request with this key. */
  function create(
    request: FastifyRequest,
    reply: FastifyReply,
    endpoint: CreationEndpoint,
    wanted: readonly NewTransaction[],
    send: (created: readonly Transaction[]) => void,
  ): void {
    const once = creationNameOf(request, endpoint);
    const creating = transactions.create(wanted, { once, condition: writeCondition(request.headers) });
    answerWith(reply, once ? creating.catch(adviseRepeat) : creating, (result) => {
      switch (result.state) {
        case 'mismatch':
          throw publicErrors.creationMismatch();
        case 'precondition failed':
          throw publicErrors.preconditionFailed('list');
        case 'replayed':
          reply.header('idempotent-replayed', 'true');
      }
      reply.code(201);
      send(result.transactions);
    });
  }
}

/** With a key a request whose outcome is not known can simply be repeated. */
function adviseRepeat(fault: unknown): never {
  throw fault instanceof StoreUnavailable ? storeRefusal(fault, 'create once') : fault;
}
