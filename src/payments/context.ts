import type { Clock } from '../platform/clock.js';
import type { PaymentCounts } from './payment-counts.js';
import type { KeyStore } from './ports/key-store.js';
import type { Ledger } from './ports/ledger.js';
import type { PaymentHistory } from './ports/payment-history.js';
import type { Processor } from './ports/processor.js';
import type { RefundLedger } from './ports/refund-ledger.js';
import type { Settlements } from './ports/settlements.js';
import type { Claim, Origin, Outcome } from './values/payment.js';
import type { ComputeKey } from './values/reference.js';
import type { ComputeRefundKey } from './values/refund.js';

/** The base of one process's payments. A part of them takes a `Pick` of it, so that its signature says what it uses. */
export interface PaymentContext {
  readonly keys: KeyStore;
  readonly ledger: Ledger;
  readonly refunds: RefundLedger;
  readonly history: PaymentHistory;
  readonly settlements: Settlements;
  readonly processor: Processor;
  readonly rules: PaymentRules;
  /** How long recovery leaves a payment alone whose outcome is still unknown at that age. */
  readonly recoverAfterMs: (ageMs: number) => number;
  readonly clock: Clock;
  /** Computes the keys of references in this deployment. */
  readonly computeKey: ComputeKey;
  /** The same for the names of refunds. */
  readonly computeRefundKey: ComputeRefundKey;
  readonly newTransactionId: () => string;
  /** Names one attempt; no other process, before or after, makes the same name. */
  readonly newOwner: (by?: string) => string;
  readonly events: PaymentEvents;
  readonly counts: PaymentCounts;
}

export interface PaymentRules {
  readonly idempotencyTtlMs: number;
  readonly leaseMs: number;
  readonly payloadMismatch: 'replay' | 'reject';
  /** Attempts of requests that are under way at once in this process, at most (rule P16). */
  readonly maxInFlight: number;
  /** How long a final payment is kept. If omitted, it is kept for ever. */
  readonly retentionMs?: number | undefined;
  /** From this age on, a payment that may have been sent is not sent again, and an operator may resolve it if it is still unknown. */
  readonly dedupMs: number;
}

/** Events that an operator may have to know of. */
export interface PaymentEvents {
  /** A round of recovery or retention, or a payment's takeover, failed; the next round tries again. */
  fault(fault: unknown): void;
  /** An attempt ended, and the outcome of its payment is not known. */
  unknown(claim: Claim, cause: string): void;
  /** A repeat, recovery, or the look-up for an operator found out what had been left unclear. */
  known?(claim: Claim, origin: Origin, state: Outcome['state']): void;
  /** An operator wrote the outcome; the payment is undefined if it could not be read back. */
  resolved?(payment: ChargedPayment | undefined, state: Outcome['state'], by: string | undefined): void;
  /**
   * The processor answered one outcome of a payment, and its row is final with another: an operator resolved it wrongly, the
   * processor changed its answer, or the row was lost and the payment cancelled since. The service cannot correct that.
   */
  contradiction(payment: ChargedPayment, answered: Outcome['state'], kept: Outcome['state'] | 'CANCELLED'): void;
  /** The processor has no record of a payment that it called pending: only a person can find out its outcome. */
  forgotten?(payment: ChargedPayment): void;
  /** This many payments are unknown for longer than their charge may be sent again: an operator must resolve them. */
  overdue(count: number): void;
  /** `ms` are not counted towards removal: no process saw them pass, or a clock was wrong. Called only when they grow. */
  unseen(ms: number): void;
}

/** The terms on which this process claims and cancels. Durations are milliseconds. */
export function claimTermsOf({ rules, processor }: Pick<PaymentContext, 'rules' | 'processor'>) {
  const { leaseMs, idempotencyTtlMs } = rules;
  const { name, formerNames, dedupMs, timeoutMs } = processor.traits;
  return {
    ofProcessor: { processor: name, formerProcessors: formerNames },
    recordLifeMs: Math.max(leaseMs, idempotencyTtlMs),
    /** The last moment at which a charge of a lost row can arrive: its owner sends nothing when its lease has ended. */
    waitAfterLossMs: leaseMs + timeoutMs,
    /**
     * An operator declines no payment that is younger, so that in a shorter loss no attempt was lost that follows such a decline. A decline by
     * the processor has a record there. 0 if nothing is deduplicated: then the attempt itself may be on its way.
     */
    shortLossMs: Math.min(dedupMs, idempotencyTtlMs),
  } as const;
}

/** The members by which an operator finds a payment. */
export type ChargedPayment = Pick<Claim, 'key' | 'transactionId' | 'processor'>;
