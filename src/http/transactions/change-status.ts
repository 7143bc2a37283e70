import type { FastifyInstance } from 'fastify';
import { statusIn, statusNamed } from '../../transactions/new-transaction.js';
import { FINAL_STATUSES, type TransactionStatus } from '../../transactions/transaction.js';
import type { Transactions } from '../../transactions/transactions.js';
import { publicErrors } from '../errors/catalogue.js';
import { answerWith } from '../errors/error-answers.js';
import { REQUEST_HEADERS } from '../openapi/headers.js';
import { type RouteDescription, refusedBodies } from '../openapi/route-description.js';
import type { JsonBody } from '../requests/json-body.js';
import { type ParametersProvider, querySchema } from '../requests/parameter-schemas.js';
import { writeCondition } from '../requests/preconditions.js';
import { accepted, requiredMembers } from './new-transaction.js';
import { sendTransaction, shownTransaction } from './shown-transaction.js';
import type { TransactionChanges } from './transaction-changes.js';
import { idErrors, idParameter, readTransactionId, TransactionPath } from './transaction-path.js';

const Query = querySchema('newStatus');

/** Spec 4.3, rule T5. */
export function changeStatus(
  server: FastifyInstance,
  {
    transactions,
    transactionChanges,
  }: { readonly transactions: Transactions; readonly transactionChanges?: TransactionChanges },
): void {
  server.withTypeProvider<ParametersProvider>().put(
    '/api/transactions/:id/status',
    {
      schema: { params: TransactionPath, querystring: Query },
      config: { operation: 'change status', scopes: ['transactions:write'], description },
    },
    (request, reply) => {
      const { text, id } = readTransactionId(request.params.id);
      const status = readNewStatus(request.body as JsonBody | undefined, request.query.newStatus);
      answerWith(reply, transactions.changeStatus(id, status, writeCondition(request.headers)), (change) => {
        switch (change.state) {
          case 'done':
            if (request.caller) transactionChanges?.changed(request.caller.client, change.transaction);
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
}

/** The new status: from the body, from `?newStatus=`, or from both when they agree (rule T5). */
export function readNewStatus(body: JsonBody | undefined, fromQuery: string | undefined): TransactionStatus {
  const inQuery = fromQuery === undefined ? undefined : accepted(statusNamed(fromQuery, 'newStatus'));
  if (body === undefined) {
    if (inQuery) return inQuery;
    throw publicErrors.invalidBody('Send the new status as a body {"status":"FLAGGED"} or as ?newStatus=FLAGGED.');
  }
  const inBody = accepted(statusIn(requiredMembers(body).get('status')));
  if (inQuery && inQuery !== inBody)
    throw publicErrors.invalidBody("'status' and 'newStatus' differ. Send one of them.");
  return inBody;
}

const { ifMatch, ifNoneMatch } = REQUEST_HEADERS;

const description: RouteDescription = {
  operationId: 'changeTransactionStatus',
  tag: 'Transactions',
  summary: 'Change the status of a transaction',
  text: `With the body or with \`newStatus\`: both must agree. Every move is allowed but those out of ${FINAL_STATUSES.join(' and ')}, which are final. Setting the status that it has changes nothing and is a 200.`,
  parameters: {
    id: idParameter,
    newStatus: { text: 'The new status, without a body.', schema: { $ref: '#/components/schemas/TransactionStatus' } },
  },
  headers: [ifMatch, ifNoneMatch],
  body: {
    text: 'At most 16 KiB. Not needed with `newStatus`.',
    required: false,
    schema: 'StatusChange',
    examples: { flagged: { status: 'FLAGGED' } },
  },
  answers: { 200: shownTransaction('The transaction as it is now.') },
  errors: [
    ...idErrors,
    {
      statusMissing: () => readNewStatus(undefined, undefined),
      invalidNewStatus: () => readNewStatus(undefined, 'DONE'),
    },
    refusedBodies((body) => readNewStatus(body, 'BLOCKED'), {
      notAnObject: '[]',
      memberTwice: '{"status":"FLAGGED","status":"BLOCKED"}',
      invalidStatus: '{"status":"DONE"}',
      statusesDiffer: '{"status":"FLAGGED"}',
    }),
    'isFAILED',
    'isCANCELLED',
    { preconditionFailed: publicErrors.preconditionFailed('transaction') },
  ],
};

export const StatusChangeSchema = {
  type: 'object',
  description: 'Unknown members are ignored. A repeated member is refused.',
  required: ['status'],
  properties: { status: { $ref: '#/components/schemas/TransactionStatus' } },
};
