import type { ChargeResult, LookUpResult, NotSent, OpenCharge, Processor } from './ports/processor.js';
import { fingerprintOf, type Money } from './values/money.js';
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
 * Asks what became of an operation. `isMoneyKnown`: false for one that was claimed after rows were lost, whose row may have another amount than
 * was charged, or given back.
 */
export async function lookUp(
  processor: Pick<Processor, 'lookUp' | 'lookUpRefund'>,
  { key, refund, amount, currency }: Asked,
  isMoneyKnown: boolean,
  open?: OpenCharge,
): Promise<LookUpResult> {
  const money = { amount, currency };
  const known = isMoneyKnown ? money : undefined;
  if (!refund) return processor.lookUp(key, known, open);
  const found = await processor.lookUpRefund(key, refund.payment, known, open);
  return known ? found : ofSameSum(found, money);
}

/**
 * The refunds of a payment have one sum, in the currency of the payment, so a refund in another currency is not known. Only the end of a refund
 * changes the sum: until then one that waits keeps the amount of its row.
 */
function ofSameSum(found: LookUpResult, money: Money): LookUpResult {
  if (!('charged' in found) || !found.charged) return found;
  const [given, asked] = [fingerprintOf(found.charged), fingerprintOf(money)];
  if (found.charged.currency !== money.currency)
    return { state: 'unknown', cause: `rows were lost, and the refund is ${found.state} with ${given}, not ${asked}` };
  return found.state === 'pending' && given !== asked ? { ...found, charged: undefined } : found;
}

/** Asks about a payment or a refund that is pending. */
export function lookUpPending(
  processor: Pick<Processor, 'lookUp' | 'lookUpRefund'>,
  pending: PendingPayment,
): Promise<LookUpResult> {
  return lookUp(processor, pending, !pending.claimedAfterLoss, { id: pending.processorId });
}
