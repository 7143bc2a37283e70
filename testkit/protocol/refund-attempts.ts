import type { RefundAttempt, RefundLedger } from '#idempay/payments/ports/refund-ledger.js';
import { fingerprintOf } from '#idempay/payments/values/money.js';
import type { Claim } from '#idempay/payments/values/payment.js';
import { createComputeRefundKey } from '#idempay/payments/values/refund.js';
import { inState, LONG_MS, newOwner, newTransactionId } from './payment-attempts.js';

type RefundedPayment = Pick<Claim, 'key' | 'amount' | 'currency' | 'processor'>;

export interface RefundMembers extends Partial<Omit<RefundAttempt, 'refund' | 'key' | 'units'>> {
  readonly name?: string;
  readonly reason?: string | undefined;
  readonly chargeId?: string | undefined;
  /** Minor units of a currency with two decimals. */
  readonly units?: number;
}

const UNITS = 100;
let names = 0;

/** A name that no other refund of the process has. */
export function newRefundName(): string {
  names += 1;
  return `refund-${names}`;
}

/** Makes attempts at refunds with the keys that the deployment with this id computes: of 1.00, if no units are named. */
export function refundsWith(deploymentId: string) {
  const computeKey = createComputeRefundKey(deploymentId);
  return (payment: RefundedPayment, members: RefundMembers = {}): RefundAttempt => {
    const { name = newRefundName(), reason, chargeId, units = UNITS, ...others } = members;
    const money = { amount: (units / UNITS).toFixed(2), currency: payment.currency };
    return {
      key: computeKey(payment.key, name),
      refund: { payment: payment.key, name, reason, chargeId },
      owner: newOwner(),
      transactionId: newTransactionId(),
      fingerprint: fingerprintOf(money),
      processor: payment.processor,
      leaseMs: LONG_MS,
      units,
      charged: { amount: payment.amount, currency: payment.currency },
      chargedUnits: Math.round(Number(payment.amount) * UNITS),
      lateMs: undefined,
      claimBy: performance.now() + LONG_MS,
      ...money,
      ...others,
    };
  };
}

export async function givenRefund(refunds: RefundLedger, attempt: RefundAttempt): Promise<Claim> {
  return inState(await refunds.claimRefund(attempt), 'claimed').claim;
}
