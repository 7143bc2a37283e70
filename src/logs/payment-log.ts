import type { Logger } from 'pino';
import type { RecoveryEvents } from '../payments/recovery.js';
import type { RetentionEvents } from '../payments/retention.js';
import { StoreUnavailable } from '../platform/faults.js';
import type { StoreLog } from './store-log.js';

/** Logs what recovery, retention and operators do to payments. */
export function createPaymentLog(
  logger: Logger,
  storeLog: Pick<StoreLog, 'refused'>,
): RecoveryEvents & RetentionEvents {
  return {
    fault(fault) {
      if (fault instanceof StoreUnavailable) storeLog.refused(fault, 'background');
      else logger.error({ err: fault }, 'a round of recovery or retention failed');
    },
    unknown({ key, transactionId, processor, epoch }, cause) {
      // The key is not logged at this level: a reader of the log could use it to ask for the payment (rule O4).
      const shown = logger.isLevelEnabled('debug') ? { key, transactionId } : { transactionId };
      logger.warn({ ...shown, processor, execution: epoch, cause }, 'the outcome of a payment is not known yet');
    },
    known: ({ transactionId, processor, epoch }, by, state) =>
      logger.info({ transactionId, processor, execution: epoch, by, state }, 'the outcome of a payment is known now'),
    resolved: (payment, state) =>
      logger.info(
        { transactionId: payment?.transactionId, processor: payment?.processor, state },
        'an operator resolved a payment',
      ),
    unseen: (ms) =>
      logger.warn(
        { hours: Math.floor(ms / 3_600_000) },
        'the clock advanced by hours in which no process ran, or the clock was wrong: payments are kept that much longer. If the clock is right now, an operator may confirm the hours: see "Retention" in docs/operations/deployment.md',
      ),
    contradiction: ({ transactionId, processor }, answered, kept) =>
      logger.error(
        { transactionId, processor, answered, kept },
        kept === 'CANCELLED'
          ? 'the processor charged a payment whose row was lost, and which was cancelled since, which is final: refund it at the processor'
          : `the processor says that a payment is ${answered}, and it was settled as ${kept}, which is final: correct it at the processor, or with the payer`,
      ),
    overdue: (count) =>
      logger.error({ count }, 'payments wait for an operator: GET /api/payments?state=PROCESSING, then resolve them'),
  };
}
