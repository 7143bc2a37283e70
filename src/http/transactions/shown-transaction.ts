import type { FastifyReply } from 'fastify';
import { represent, transactionJson } from '../../transactions/representation.js';
import { FIRST_TRANSACTION_ID, TRANSACTION_STATUSES, type Transaction } from '../../transactions/transaction.js';
import { ETAG, REVALIDATE as REVALIDATE_HEADER } from '../openapi/headers.js';
import { moment, whole } from '../openapi/json-schema.js';
import type { AnswerDescription } from '../openapi/route-description.js';
import { quoted, REVALIDATE } from '../requests/entity-tags.js';

/** One transaction, as the answers of several endpoints show it. */
export function sendTransaction(reply: FastifyReply, transaction: Transaction): void {
  const { json, tag } = represent(transaction);
  reply
    .header('content-type', 'application/json; charset=utf-8')
    .header('etag', quoted(tag))
    .header('cache-control', REVALIDATE)
    .send(json);
}

export const shownTransaction = (text: string, headers: AnswerDescription['headers'] = []): AnswerDescription => ({
  text,
  headers: [ETAG, REVALIDATE_HEADER, ...headers],
  content: {
    mediaType: 'application/json',
    schema: { $ref: '#/components/schemas/Transaction' },
    examples: { transaction: exampleTransaction() },
  },
});

export const EXAMPLE_TRANSACTION: Transaction = {
  id: FIRST_TRANSACTION_ID,
  fromAccount: 'alice',
  toAccount: 'bob',
  amount: '12.34',
  status: 'PENDING',
  createdAt: Date.UTC(2026, 10, 20, 13),
  version: 1,
};

/** Written by the function that writes the answers, so that it cannot say anything else. */
export const exampleTransaction = (changes: Partial<Transaction> = {}): unknown =>
  JSON.parse(transactionJson({ ...EXAMPLE_TRANSACTION, ...changes }));

export const transactionMembers = {
  transactionId: {
    type: 'integer',
    format: 'int64',
    minimum: 100_000_000_000_001,
    maximum: 999_999_999_999_999,
    description: 'Always 15 digits, so that every reader of JSON numbers reads it exactly. Never used twice.',
  },
  fromAccount: { type: 'string', minLength: 1, maxLength: 64 },
  toAccount: { type: 'string', minLength: 1, maxLength: 64 },
  amount: {
    type: 'number',
    exclusiveMinimum: 0,
    description: 'Exact: at most 15 digits, which survive every reader of JSON numbers.',
  },
  status: { $ref: '#/components/schemas/TransactionStatus' },
  createdAt: moment,
};

export const TransactionSchema = whole(transactionMembers, 'One transaction.');
export const TransactionStatusSchema = { type: 'string', enum: TRANSACTION_STATUSES };
