import { namesIn } from '../../../payments/ports/ledger.js';
import type { RefundAttempt, RefundClaimResult } from '../../../payments/ports/refund-ledger.js';
import type { Database } from '../file/sqlite.js';
import { createPriorRows, type LedgerWriteParts } from './claims.js';
import { FIND, SET_CLAIMED_AFTER_LOSS } from './ledger-statements.js';
import { foundOf, type PaymentRow } from './payment-row.js';
import { INSERT_REFUND, RAISE_SUM } from './refund-statements.js';

export interface RefundWrite extends Omit<RefundAttempt, 'claimBy'> {
  /** `claimBy` by the store's clock. */
  readonly claimBefore: number;
  /** The wall clock, milliseconds since the epoch. */
  readonly wallMs: number;
}

/** The row was inserted with the values of the attempt, and the client of the payment. */
export interface InsertedRefund {
  readonly state: 'claimed';
  readonly client: string | null;
  /** An earlier row of it may have been lost, so the processor is asked first. */
  readonly mayBeLost: boolean;
}

export type RefundWriteResult = InsertedRefund | Exclude<RefundClaimResult, { state: 'claimed' }>;

/**
 * Claims of refunds (rule P26). They run in the writer thread, in the transaction of their batch. No other write comes between the look at
 * the rows and the change of the sum: so a claim that is refused has written nothing, and the batch need not be rolled back.
 */
export function createRefundClaims(database: Database, { storeClock }: Pick<LedgerWriteParts, 'storeClock'>) {
  const find = database.prepare(FIND);
  const raiseSum = database.prepare(RAISE_SUM);
  const insert = database.prepare(INSERT_REFUND);
  const setClaimedAfterLoss = database.prepare(SET_CLAIMED_AFTER_LOSS);
  const priorRows = createPriorRows(database);

  /** The payment, or why nothing of it is given back. */
  function refundableOf(attempt: RefundWrite): PaymentRow | Exclude<RefundWriteResult, InsertedRefund> {
    const { charged, chargedUnits, units, currency, lateMs } = attempt;
    const row = find.get(attempt.refund.payment) as PaymentRow | undefined;
    if (row?.state !== 'COMPLETED' || row.refund_of !== null) return { state: 'not refundable' };
    const isSame = row.amount === charged.amount && row.currency === charged.currency && row.currency === currency;
    if (!isSame || !namesIn(attempt).includes(row.processor as string)) return { state: 'not refundable' };
    if (priorRows.isLate(row, lateMs)) return { state: 'too old' };
    const leftUnits = chargedUnits - (row.refunded ?? 0);
    return units > leftUnits ? { state: 'too much', leftUnits } : row;
  }

  function insertRow(attempt: RefundWrite, { client }: PaymentRow, now: number): InsertedRefund {
    const { key, transactionId, amount, currency, fingerprint, processor, owner, refund, units, wallMs } = attempt;
    const mayBeLost = priorRows.mayBeLost(key);
    const leaseUntil = now + attempt.leaseMs;
    const claimedAtWall = Math.floor(mayBeLost ? Math.min(wallMs, now) : wallMs);
    insert.run(
      ...[key, transactionId, amount, currency, fingerprint, client, processor],
      ...[owner, leaseUntil, leaseUntil, now, claimedAtWall],
      ...[refund.payment, refund.name, units, refund.reason ?? null, refund.chargeId ?? null],
    );
    if (mayBeLost) setClaimedAfterLoss.run(key);
    return { state: 'claimed', client, mayBeLost };
  }

  return {
    claimRefund(attempt: RefundWrite): RefundWriteResult {
      const now = storeClock();
      const before = find.get(attempt.key) as PaymentRow | undefined;
      if (before) return before.refund_of === null ? { state: 'not refundable' } : refundOf(before, now);
      if (now > attempt.claimBefore) return { state: 'too late' };
      const payment = refundableOf(attempt);
      if (!('key' in payment)) return payment;
      raiseSum.run(attempt.units, payment.key);
      return insertRow(attempt, payment, now);
    },
  };
}

function refundOf(row: PaymentRow, now: number): Exclude<RefundWriteResult, InsertedRefund> {
  const found = foundOf(row, now);
  if (found.state === 'expired') throw new Error('a refund never expires');
  return found;
}
