import type { FastifyInstance } from 'fastify';
import { MAX_CREATED_TOGETHER } from '../../transactions/creation.js';
import { newTransactionIn } from '../../transactions/new-transaction.js';
import { transactionJson } from '../../transactions/representation.js';
import { FIRST_TRANSACTION_ID, type NewTransaction } from '../../transactions/transaction.js';
import type { Transactions } from '../../transactions/transactions.js';
import { publicErrors } from '../errors/catalogue.js';
import { NO_STORE, REPLAYED, sometimes } from '../openapi/headers.js';
import { whole } from '../openapi/json-schema.js';
import type { RouteDescription } from '../openapi/route-description.js';
import { requiredBody } from '../requests/body-parser.js';
import { sendJson } from '../requests/json-answer.js';
import { type JsonBody, type RowsMember, readJsonBody } from '../requests/json-body.js';
import { CONDITIONS, CREATION_ERRORS, CREATION_HEADERS, create, refuseInvalidKey, WITH_A_KEY } from './creation.js';
import { requiredMembers, WRONG_TRANSACTIONS } from './new-transaction.js';
import { exampleTransaction } from './shown-transaction.js';

/** A thousand rows of ordinary length are a tenth of it; rows with the longest accounts just fit. */
const LIMIT_BYTES = 1024 * 1024;

/** The place of a batch's rows in its body. */
export const BATCH_ROWS: RowsMember = { name: 'transactions', most: MAX_CREATED_TOGETHER };

/** Many transactions in one commit. */
export function createTransactions(
  app: FastifyInstance,
  { transactions }: { readonly transactions: Transactions },
): void {
  app.post(
    '/api/transactions/batch',
    {
      onRequest: refuseInvalidKey,
      bodyLimit: LIMIT_BYTES,
      config: {
        operation: 'create transactions',
        scopes: ['transactions:write'],
        description,
        bodyRows: BATCH_ROWS,
      },
    },
    (request, reply) => {
      const wanted = readNewTransactions(requiredBody(request));
      create(transactions, request, reply, 'batch', wanted, (created) => {
        sendJson(reply, `{"${BATCH_ROWS.name}":[${created.map(transactionJson).join(',')}]}`);
      });
    },
  );
}

/** The transactions that the body of a batch asks for; throws the 400 that names the first wrong row and its member. */
export function readNewTransactions(body: JsonBody): NewTransaction[] {
  const member = requiredMembers(body).get(BATCH_ROWS.name);
  if (member?.type !== 'rows' || member.rows.length === 0) {
    throw publicErrors.invalidBody(
      `'${BATCH_ROWS.name}' is required: an array of 1 to ${BATCH_ROWS.most} objects, each as for POST /api/transactions.`,
    );
  }
  return member.rows.map(readRow);
}

function readRow(row: JsonBody, index: number): NewTransaction {
  const name = `${BATCH_ROWS.name}[${index}]`;
  if (row.kind !== 'object') throw publicErrors.invalidBody(`${name}: must be a JSON object.`);
  if (row.duplicate !== undefined)
    throw publicErrors.invalidBody(`${name}: '${row.duplicate}' appears more than once.`);
  const transaction = newTransactionIn(row);
  if ('problem' in transaction) throw publicErrors.invalidBody(`${name}: ${transaction.problem}`);
  return transaction;
}

const judgeBatch = (text: string) => () => readNewTransactions(readJsonBody(Buffer.from(text), BATCH_ROWS));
const inBatch = (row: string) => judgeBatch(`{"${BATCH_ROWS.name}":[${row}]}`);
const rows = (count: number, row: string) => Array(count).fill(row).join();

const description: RouteDescription = {
  operationId: 'createTransactions',
  tag: 'Transactions',
  summary: 'Create up to 1,000 transactions, all or none',
  text: `All are created in one commit, or none is. ${WITH_A_KEY} The keys of this endpoint are its own. ${CONDITIONS}`,
  headers: CREATION_HEADERS,
  body: {
    text: 'At most 1 MiB, and 20,000 JSON values.',
    required: true,
    schema: 'NewTransactions',
    examples: {
      transactions: {
        transactions: [
          { fromAccount: 'alice', toAccount: 'bob', amount: '12.34' },
          { fromAccount: 'bob', toAccount: 'carol', amount: '5', status: 'ON_HOLD' },
        ],
      },
    },
  },
  answers: {
    201: {
      text: 'The transactions are kept: by this request, or by an earlier one with the same key. In the order that was sent; their ids follow each other.',
      headers: [NO_STORE, sometimes(REPLAYED)],
      content: {
        mediaType: 'application/json',
        schema: { $ref: '#/components/schemas/CreatedTransactions' },
        examples: {
          transactions: {
            transactions: [
              exampleTransaction(),
              exampleTransaction({
                ...{ id: FIRST_TRANSACTION_ID + 1, fromAccount: 'bob', toAccount: 'carol' },
                ...{ amount: '5', status: 'ON_HOLD' },
              }),
            ],
          },
        },
      },
    },
  },
  errors: [
    'emptyBody',
    {
      notAnObject: judgeBatch('[]'),
      memberTwice: judgeBatch('{"transactions":[],"transactions":[]}'),
      rowsMissing: judgeBatch('{}'),
      tooManyRows: judgeBatch(`{"transactions":[${rows(MAX_CREATED_TOGETHER + 1, '{}')}]}`),
      tooManyValues: () => readJsonBody(Buffer.from(`[${rows(100_000, '0')}]`)),
      ...Object.fromEntries(
        Object.entries(WRONG_TRANSACTIONS).map(([name, row]) => [
          `row${name[0]?.toUpperCase()}${name.slice(1)}`,
          inBatch(row),
        ]),
      ),
    },
    ...CREATION_ERRORS,
  ],
};

export const NewTransactionsSchema = {
  type: 'object',
  description: 'Unknown members are ignored. A repeated member is refused.',
  required: ['transactions'],
  properties: {
    transactions: {
      type: 'array',
      minItems: 1,
      maxItems: MAX_CREATED_TOGETHER,
      items: { $ref: '#/components/schemas/NewTransaction' },
    },
  },
};

export const CreatedTransactionsSchema = whole(
  {
    transactions: { type: 'array', minItems: 1, items: { $ref: '#/components/schemas/Transaction' } },
  },
  'What one request created.',
);
