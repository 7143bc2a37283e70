import type { FastifyInstance } from 'fastify';
import type { Transactions } from '../../transactions/transactions.js';
import { always, REPLAYED, sometimes } from '../openapi/headers.js';
import { type RouteDescription, refusedBodies } from '../openapi/route-description.js';
import { requiredBody } from '../requests/body-parser.js';
import { CONDITIONS, CREATION_ERRORS, CREATION_HEADERS, create, refuseInvalidKey, WITH_A_KEY } from './creation.js';
import { readNewTransaction, WRONG_TRANSACTIONS } from './new-transaction.js';
import { sendTransaction, shownTransaction } from './shown-transaction.js';

/** Spec 4.3. */
export function createTransaction(
  app: FastifyInstance,
  { transactions }: { readonly transactions: Transactions },
): void {
  app.post(
    '/api/transactions',
    {
      onRequest: refuseInvalidKey,
      config: { operation: 'create transaction', scopes: ['transactions:write'], description },
    },
    (request, reply) => {
      const wanted = readNewTransaction(requiredBody(request));
      create(transactions, request, reply, 'one', [wanted], ([transaction]) => {
        if (!transaction) throw new Error('a create of one transaction made none');
        reply.header('location', `/api/transactions/${transaction.id}`);
        sendTransaction(reply, transaction);
      });
    },
  );
}

const LOCATION = always(
  'Location',
  'The path of the new transaction.',
  { type: 'string', pattern: '^/api/transactions/[1-9][0-9]{14}$' },
  '/api/transactions/100000000000001',
);

const description: RouteDescription = {
  operationId: 'createTransaction',
  tag: 'Transactions',
  summary: 'Create a transaction',
  text: `${WITH_A_KEY} ${CONDITIONS}`,
  headers: CREATION_HEADERS,
  body: {
    text: 'At most 16 KiB.',
    required: true,
    schema: 'NewTransaction',
    examples: { transaction: { fromAccount: 'alice', toAccount: 'bob', amount: '12.34' } },
  },
  answers: {
    201: shownTransaction('The transaction is kept: by this request, or by an earlier one with the same key.', [
      LOCATION,
      sometimes(REPLAYED),
    ]),
  },
  errors: ['emptyBody', refusedBodies(readNewTransaction, WRONG_TRANSACTIONS), ...CREATION_ERRORS],
};
