import type { Origin, Outcome } from './values/payment.js';

/**
 * Counts of what this process's payments did since it started: plain numbers, because they are counted on the path of every payment.
 * Members that hold a current value say so.
 */
export interface PaymentCounts {
  /** Payments that were settled here, by the origin of the attempt; a resolution counts as `operator`. */
  readonly settled: Record<Origin, number>;
  /** Refunds that ended here. */
  readonly refunds: { completed: number; declined: number };
  /** Attempts that found, at their end, that another attempt had taken their payment over. */
  fencedOff: number;
  /** Payments that are final here with another outcome than the processor tells. */
  contradictions: number;
  /** How often live attempts lengthened their leases, or failed to. */
  readonly renewals: { renewed: number; fencedOff: number; failed: number };
  /** At this moment: attempts of requests, under the limit of rule P16. */
  attemptsOfRequests: number;
  /** At this moment: payments that recovery works on. */
  attemptsOfRecovery: number;
  /** At this moment: requests that wait for another attempt. */
  waiters: number;
  /** At this moment: requests that wait for a settlement. */
  feedReaders: number;
}

export function createPaymentCounts(): PaymentCounts {
  return {
    settled: { 'first claim': 0, repeat: 0, recovery: 0, operator: 0, cancellation: 0 },
    refunds: { completed: 0, declined: 0 },
    fencedOff: 0,
    contradictions: 0,
    renewals: { renewed: 0, fencedOff: 0, failed: 0 },
    attemptsOfRequests: 0,
    attemptsOfRecovery: 0,
    waiters: 0,
    feedReaders: 0,
  };
}

/** Counts a settlement of a payment by its origin, or of a refund by its outcome. */
export function countSettled(counts: PaymentCounts, isRefund: boolean, origin: Origin, state: Outcome['state']): void {
  if (!isRefund) counts.settled[origin] += 1;
  else if (state === 'COMPLETED') counts.refunds.completed += 1;
  else counts.refunds.declined += 1;
}
