import type { Logger } from 'pino';
import type { PaymentEvents } from '../payments/context.js';
import { StoreUnavailable } from '../platform/faults.js';
import { pageAt } from '../platform/manual.js';
import type { StoreLog } from './store-log.js';

/**
 * The log of payments: the work of recovery, retention and operators on them, and facts about their processor and clients that an operator
 * has to know.
 */
export interface PaymentLog extends PaymentEvents {
  /** `suppressed` such alarms came since the last one that was logged. */
  processorAlarm(cause: string, suppressed: number): void;
  /** The adapter does not say that it reads `source`, and a payment has one. */
  sourceNotRead(): void;
  /** A look-up of a charge does not say what was charged. */
  amountsNotTold(): void;
  /** Credentials are required, and the newest order was paid without any. */
  ordersAreNew(): void;
}

export function createPaymentLog(logger: Logger, storeLog: Pick<StoreLog, 'refused'>): PaymentLog {
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
    resolved: (payment, state, by) =>
      logger.info(
        { transactionId: payment?.transactionId, processor: payment?.processor, state, client: by },
        'an operator resolved a payment',
      ),
    unseen: (ms) =>
      logger.warn(
        { hours: Math.floor(ms / 3_600_000) },
        `the clock advanced by hours in which no process ran, or the clock was wrong: payments are kept that much longer. If the clock is right now, an operator may confirm the hours: see "Retention" in ${pageAt('docs/operations/deployment.md')}`,
      ),
    contradiction: ({ transactionId, processor }, answered, kept) =>
      logger.error(
        { transactionId, processor, answered, kept },
        kept === 'CANCELLED'
          ? 'the processor charged a payment that was cancelled after its row had been lost: the cancellation is final, so refund the payment at the processor'
          : `the processor says that a payment is ${answered}, and it was settled as ${kept}, which is final: correct it at the processor, or with the payer`,
      ),
    forgotten: ({ transactionId, processor }) =>
      logger.warn(
        { transactionId, processor },
        'the processor has no record of a payment that it called pending: find out there what became of it, then resolve it',
      ),
    overdue: (count) =>
      logger.error({ count }, 'payments wait for an operator: GET /api/payments?state=PROCESSING, then resolve them'),
    processorAlarm: (cause, suppressed) => logger.error({ suppressed }, cause),
    sourceNotRead: () =>
      logger.warn(
        `payments have a source, and the adapter of the processor does not say that it reads it: see "Content" in ${pageAt('docs/reference/processor.md')}`,
      ),
    amountsNotTold: () =>
      logger.warn(
        `look-ups at the processor do not say what was charged: after a failover or a restore that loses rows, each payment that was charged and lost waits for an operator. See "What a reply is about" in ${pageAt('docs/reference/processor.md')}`,
      ),
    ordersAreNew: () =>
      logger.warn(
        `the newest order was paid without credentials: with AUTH every reference is new, so an order that was paid before would be charged again (${pageAt('docs/reference/references.md')})`,
      ),
  };
}
