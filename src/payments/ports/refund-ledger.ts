import type { Money } from '../values/money.js';
import type { Claim } from '../values/payment.js';
import type { RefundPart } from '../values/refund.js';
import type { FindResult, OfProcessor } from './ledger.js';

/**
 * Port: the rows of refunds, among those of payments (rule P26). A row of a refund is claimed, renewed, settled, given up, left pending,
 * resolved and recovered as a payment's is, by the `Ledger`. Its claim raises the refunded sum of its payment in the same commit, and the
 * commit that declines it lowers that sum, exactly once: the sum is never more than was charged, unless a refund that was claimed after a loss of
 * rows is found to be larger than its row said while others are under way. Its contract:
 * `test/contracts/refund-ledger-contract.ts`.
 */
export interface RefundLedger {
  /** Writes the row and raises the sum, before anything is given back, or says why nothing was written. */
  claimRefund(attempt: RefundAttempt): Promise<RefundClaimResult>;

  /**
   * As `Ledger.find` finds a payment: the row of a refund, never `expired`. Absent if the key is another client's, or a payment's. To
   * `Ledger.find`, a refund is absent.
   */
  findRefund(key: string, client?: string): Promise<FindResult>;
}

/** One refund of a payment. `Money` is the part that is given back. */
export interface RefundAttempt extends Money, OfProcessor {
  readonly key: string;
  readonly refund: RefundPart;
  readonly owner: string;
  readonly transactionId: string;
  readonly fingerprint: string;
  readonly leaseMs: number;
  /** The same part in minor units of the currency. */
  readonly units: number;
  /** The whole payment as it was read before: its row must have this amount, and the sum must stay at or below `chargedUnits`. */
  readonly charged: Money;
  readonly chargedUnits: number;
  /** The same as in `Turn`: a payment that was settled longer ago is removed soon, and cannot be refunded any more. */
  readonly lateMs: number | undefined;
  /** The last moment, by our monotonic clock: a claim that the store executes later is refused. */
  readonly claimBy: number;
}

export type RefundClaimResult =
  /**
   * It is ours, and nothing was sent for it. If rows were lost within the last 30 days, an earlier row of it may be one of them: then the
   * claim says `mayBeLost`.
   */
  | { readonly state: 'claimed'; readonly claim: Claim }
  /** A refund with this key was claimed before, by this client's payment: it was read. */
  | Exclude<FindResult, { readonly state: 'absent' | 'expired' }>
  /** This much of the payment is left, in minor units; less than `units`. */
  | { readonly state: 'too much'; readonly leftUnits: number }
  /** The payment is not what the attempt says: not COMPLETED, of another amount, currency or processor, or without a row. */
  | { readonly state: 'not refundable' }
  /** It will be removed within an hour. */
  | { readonly state: 'too old' }
  /** The store executed it after `claimBy`. */
  | { readonly state: 'too late' };
