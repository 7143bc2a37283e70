import { MAX_CREATED_TOGETHER } from '../../transactions/creation.js';
import { FIRST_TRANSACTION_ID } from '../../transactions/transaction.js';
import { publicErrors } from '../errors/public-errors.js';
import { NO_STORE, REPLAYED, REQUEST_HEADERS, sometimes } from '../openapi/headers.js';
import { type RouteDescription, type RouteErrors, refusedBodies } from '../openapi/route-description.js';
import { readJsonBody } from '../requests/json-body.js';
import { shownTransaction } from './description.js';
import { exampleTransaction } from './examples.js';
import { CREATION_KEY, LOCATION } from './headers.js';
import { BATCH_ROWS, readNewTransaction, readNewTransactions } from './request.js';

const { ifMatch, ifNoneMatch } = REQUEST_HEADERS;

const WITH_A_KEY =
  'With an `Idempotency-Key` the request may be repeated: nothing is created twice, and a repeat gets the first result as it was, with `Idempotent-Replayed: true`, also when something was changed or deleted since. It need not meet its preconditions again. Without a key, look in the list before you repeat a request whose outcome is not known.';
const CONDITIONS = 'Preconditions are those on the list of all transactions, and are checked just before.';

/** Bodies that no transaction is created of. */
const WRONG_BODIES = {
  notAnObject: '[]',
  memberTwice: '{"amount":1,"amount":2,"fromAccount":"alice","toAccount":"bob"}',
  fromAccountMissing: '{"toAccount":"bob","amount":"1"}',
  toAccountMissing: '{"fromAccount":"alice","amount":"1"}',
  fromAccountLength: '{"fromAccount":"","toAccount":"bob","amount":"1"}',
  toAccountLength: '{"fromAccount":"alice","toAccount":"","amount":"1"}',
  fromAccountCharacters: '{"fromAccount":"\\n","toAccount":"bob","amount":"1"}',
  toAccountCharacters: '{"fromAccount":"alice","toAccount":"\\n","amount":"1"}',
  sameAccount: '{"fromAccount":"alice","toAccount":"alice","amount":"1"}',
  amountMissing: '{"fromAccount":"alice","toAccount":"bob"}',
  amountNotPlain: '{"fromAccount":"alice","toAccount":"bob","amount":"-1"}',
  amountTooLong: '{"fromAccount":"alice","toAccount":"bob","amount":"0.00001"}',
  amountIsZero: '{"fromAccount":"alice","toAccount":"bob","amount":"0"}',
  invalidStatus: '{"fromAccount":"alice","toAccount":"bob","amount":"1","status":"DONE"}',
};

const keyErrors: RouteErrors = [
  'invalidCreationKey',
  'creationMismatch',
  'storeUnavailableWithKey',
  'storeOutcomeUnknownWithKey',
];

export const createTransaction: RouteDescription = {
  operationId: 'createTransaction',
  tag: 'Transactions',
  summary: 'Create a transaction',
  text: `${WITH_A_KEY} ${CONDITIONS}`,
  headers: [CREATION_KEY, ifMatch, ifNoneMatch],
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
  errors: [
    'emptyBody',
    refusedBodies(readNewTransaction, WRONG_BODIES),
    ...keyErrors,
    { preconditionFailed: publicErrors.preconditionFailed('list') },
  ],
};

const judgeBatch = (text: string) => () => readNewTransactions(readJsonBody(Buffer.from(text), BATCH_ROWS));
const inBatch = (row: string) => judgeBatch(`{"${BATCH_ROWS.name}":[${row}]}`);
const rows = (count: number, row: string) => Array(count).fill(row).join();

export const createTransactions: RouteDescription = {
  operationId: 'createTransactions',
  tag: 'Transactions',
  summary: 'Create up to 1,000 transactions, all or none',
  text: `All are created in one commit, or none is. ${WITH_A_KEY} The keys of this endpoint are its own. ${CONDITIONS}`,
  headers: [CREATION_KEY, ifMatch, ifNoneMatch],
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
        Object.entries(WRONG_BODIES).map(([name, row]) => [
          `row${name[0]?.toUpperCase()}${name.slice(1)}`,
          inBatch(row),
        ]),
      ),
    },
    ...keyErrors,
    { preconditionFailed: publicErrors.preconditionFailed('list') },
  ],
};
