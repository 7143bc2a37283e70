import type { FastifyInstance } from 'fastify';
import type { Transactions } from '../../transactions/transactions.js';
import { publicErrors } from '../errors/catalogue.js';
import { answerWith } from '../errors/error-answers.js';
import { REQUEST_HEADERS } from '../openapi/headers.js';
import type { RouteDescription } from '../openapi/route-description.js';
import type { ParametersProvider } from '../requests/parameter-schemas.js';
import { writeCondition } from '../requests/preconditions.js';
import type { TransactionChanges } from './transaction-changes.js';
import { idErrors, idParameter, readTransactionId, TransactionPath } from './transaction-path.js';

/** Spec 4.3. */
export function deleteTransaction(
  server: FastifyInstance,
  {
    transactions,
    transactionChanges,
  }: { readonly transactions: Transactions; readonly transactionChanges?: TransactionChanges },
): void {
  server.withTypeProvider<ParametersProvider>().delete(
    '/api/transactions/:id',
    {
      schema: { params: TransactionPath },
      config: { operation: 'delete transaction', scopes: ['transactions:write'], description },
    },
    (request, reply) => {
      const { text, id } = readTransactionId(request.params.id);
      answerWith(reply, transactions.remove(id, writeCondition(request.headers)), (result) => {
        if (result === 'not found') throw publicErrors.transactionNotFound(text);
        if (result === 'precondition failed') throw publicErrors.preconditionFailed('transaction');
        if (request.caller) transactionChanges?.removed(request.caller.client, id as number);
        reply.code(204).send();
      });
    },
  );
}

const { ifMatch, ifNoneMatch } = REQUEST_HEADERS;

const description: RouteDescription = {
  operationId: 'deleteTransaction',
  tag: 'Transactions',
  summary: 'Delete a transaction',
  text: 'After an unknown outcome repeat it: 404 says that it is gone.',
  parameters: { id: idParameter },
  headers: [ifMatch, ifNoneMatch],
  answers: { 204: { text: 'It is gone.' } },
  errors: [...idErrors, { preconditionFailed: publicErrors.preconditionFailed('transaction') }],
};
