import type { ChargeResult, LookUpResult, NotSent, OpenCharge, Processor } from './ports/processor.js';
import type { Money } from './values/money.js';
import type { Claim, PendingPayment } from './values/payment.js';

/** An operation as the processor is asked about it. */
type Asked = Pick<Claim, 'key' | 'refund'> & Money;

/** Sends a claimed operation: a payment is charged, and a refund gives back. */
export function send(
  processor: Pick<Processor, 'charge' | 'refund'>,
  { key, transactionId, amount, currency, refund, reference: order, content }: Claim,
): Promise<ChargeResult | NotSent> {
  if (!refund) return processor.charge({ key, transactionId, amount, currency, order, content });
  const { payment, chargeId, reason } = refund;
  return processor.refund({ key, transactionId, amount, currency, payment, chargeId, reason });
}

/**
 * Asks what became of an operation. `isMoneyKnown`: false for a payment whose row may have another amount than was charged; a refund is always
 * compared with its row.
 */
export function lookUp(
  processor: Pick<Processor, 'lookUp' | 'lookUpRefund'>,
  { key, refund, amount, currency }: Asked,
  isMoneyKnown: boolean,
  open?: OpenCharge,
): Promise<LookUpResult> {
  const money = { amount, currency };
  if (refund) return processor.lookUpRefund(key, refund.payment, money, open);
  return processor.lookUp(key, isMoneyKnown ? money : undefined, open);
}

/** Asks about a payment or a refund that is pending. */
export function lookUpPending(
  processor: Pick<Processor, 'lookUp' | 'lookUpRefund'>,
  pending: PendingPayment,
): Promise<LookUpResult> {
  return lookUp(processor, pending, !pending.claimedAfterLoss, { id: pending.processorId });
}
