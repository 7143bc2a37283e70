import { FINAL_STATUSES } from '../../transactions/transaction.js';
import { publicErrors } from '../errors/public-errors.js';
import { ETAG, NO_STORE, REQUEST_HEADERS, REVALIDATE, sometimes } from '../openapi/headers.js';
import {
  type AnswerDescription,
  type ParameterDescription,
  type RouteDescription,
  type RouteErrors,
  refusedBodies,
} from '../openapi/route-description.js';
import { EXAMPLE_TRANSACTION_ID, exampleTransaction } from './examples.js';
import { CACHE_STATUS } from './headers.js';
import { readNewStatus, readTransactionId } from './request.js';

const { ifMatch, ifNoneMatch } = REQUEST_HEADERS;
const JSON_TYPE = 'application/json';
const Transaction = { $ref: '#/components/schemas/Transaction' };

const id: ParameterDescription = {
  text: 'The transaction id: digits without leading zeros.',
  schema: { type: 'integer', format: 'int64', minimum: 1 },
  example: Number(EXAMPLE_TRANSACTION_ID),
};
const idErrors: RouteErrors = [
  'invalidTransactionId',
  { emptyTransactionId: () => readTransactionId('') },
  'transactionNotFound',
];
const preconditionFailed = publicErrors.preconditionFailed('transaction');

export const shownTransaction = (text: string, headers: AnswerDescription['headers'] = []): AnswerDescription => ({
  text,
  headers: [ETAG, REVALIDATE, ...headers],
  content: { mediaType: JSON_TYPE, schema: Transaction, examples: { transaction: exampleTransaction() } },
});

export const listTransactions: RouteDescription = {
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
        mediaType: JSON_TYPE,
        schema: { type: 'array', items: Transaction },
        examples: { list: [exampleTransaction()], empty: [] },
      },
    },
    304: { text: 'The ids are those of the tag.', headers: [ETAG, NO_STORE] },
  },
  errors: [{ preconditionFailed: publicErrors.preconditionFailed('list') }, 'tooManyLists'],
};

export const getTransaction: RouteDescription = {
  operationId: 'getTransaction',
  tag: 'Transactions',
  summary: 'Read a transaction',
  text: 'From the cache where it is there, and never stale.',
  parameters: { id },
  headers: [ifNoneMatch, ifMatch],
  answers: {
    200: shownTransaction('The transaction.', [CACHE_STATUS]),
    304: { text: 'It has a tag of `If-None-Match`.', headers: [ETAG, REVALIDATE, CACHE_STATUS] },
  },
  errors: [...idErrors, { preconditionFailed }],
  errorHeaders: { 404: [sometimes(CACHE_STATUS)], 412: [CACHE_STATUS] },
};

export const changeStatus: RouteDescription = {
  operationId: 'changeTransactionStatus',
  tag: 'Transactions',
  summary: 'Change the status of a transaction',
  text: `With the body or with \`newStatus\`: both must agree. Every move is allowed but those out of ${FINAL_STATUSES.join(' and ')}, which are final. Setting the status that it has changes nothing and is a 200.`,
  parameters: {
    id,
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
    { preconditionFailed },
  ],
};

export const deleteTransaction: RouteDescription = {
  operationId: 'deleteTransaction',
  tag: 'Transactions',
  summary: 'Delete a transaction',
  text: 'After an unknown outcome repeat it: 404 says that it is gone.',
  parameters: { id },
  headers: [ifMatch, ifNoneMatch],
  answers: { 204: { text: 'It is gone.' } },
  errors: [...idErrors, { preconditionFailed }],
};
