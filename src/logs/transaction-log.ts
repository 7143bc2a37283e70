import type { Logger } from 'pino';
import type { TransactionChanges } from '../http/transactions/transaction-changes.js';

/** The log keeps who has changed or removed a transaction, because a row that was removed tells nothing. */
export function createTransactionLog(logger: Logger): TransactionChanges {
  return {
    changed: (client, { id, status }) =>
      logger.info({ client, transaction: id, status }, 'a client changed the status of a transaction'),
    removed: (client, transactionId) =>
      logger.info({ client, transaction: transactionId }, 'a client deleted a transaction'),
  };
}
