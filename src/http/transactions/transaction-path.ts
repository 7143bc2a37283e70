import { FIRST_TRANSACTION_ID, LAST_TRANSACTION_ID } from '../../transactions/transaction.js';
import { publicErrors } from '../errors/catalogue.js';
import type { ParameterDescription, RouteErrors } from '../openapi/route-description.js';
import { pathSchema } from '../requests/parameter-schemas.js';

const PLAIN_POSITIVE_INTEGER = /^[1-9][0-9]*$/;

/** `/api/transactions/{id}` */
export const TransactionPath = pathSchema('id');

/**
 * The id of a path; throws the 400 for text that is no plain positive integer. One that is too large for any transaction is read as 0,
 * which no transaction has either.
 */
export function readTransactionId(text: string): { text: string; id: number } {
  if (text === '') throw publicErrors.unknownRoute();
  if (!PLAIN_POSITIVE_INTEGER.test(text)) throw publicErrors.invalidTransactionId();
  const id = Number(text);
  return { text, id: id <= LAST_TRANSACTION_ID ? id : 0 };
}

export const idParameter: ParameterDescription = {
  text: 'The transaction id: digits without leading zeros.',
  schema: { type: 'integer', format: 'int64', minimum: 1 },
  example: FIRST_TRANSACTION_ID,
};

export const idErrors: RouteErrors = [
  'invalidTransactionId',
  { emptyTransactionId: () => readTransactionId('') },
  'transactionNotFound',
];
