import type { RefundAttempt, RefundLedger } from '../../../payments/ports/refund-ledger.js';
import { type Claim, isVisibleTo } from '../../../payments/values/payment.js';
import type { Clock } from '../../../platform/clock.js';
import type { Reader } from '../reader.js';
import type { Writer } from '../writer/writer.js';
import { createClaimWrites } from './claim-writes.js';
import { FIND } from './ledger-statements.js';
import { foundOf, type PaymentRow } from './payment-row.js';
import type { InsertedRefund } from './refund-claims.js';

/** The rows of refunds in SQLite. `clock` is the store's. */
export function createEmbeddedRefundLedger(
  writer: Writer,
  reader: Reader,
  clock: Clock,
  wallClock: () => number,
): RefundLedger {
  const find = reader.prepare(FIND);
  const { register, claimBefore, claimInTime } = createClaimWrites(writer, reader, clock);

  return {
    async claimRefund(attempt) {
      await register(attempt.processor);
      const { claimBy: _, ...values } = attempt;
      const write = { ...values, claimBefore: claimBefore(attempt), wallMs: wallClock() };
      const claimed = await claimInTime(writer.write('claimRefund', write), (late) =>
        late.state === 'claimed' ? [firstClaim(attempt, late)] : [],
      );
      return claimed.state === 'claimed' ? { state: 'claimed', claim: firstClaim(attempt, claimed) } : claimed;
    },

    async findRefund(key, client) {
      const row = find.get(key) as PaymentRow | undefined;
      if (!row || row.refund_of === null || !isVisibleTo(client, row.client)) return { state: 'absent' };
      return foundOf(row, clock.now());
    },
  };
}

/** The refund of a lost row may have been made. */
function firstClaim(attempt: RefundAttempt, { client, mayBeLost }: InsertedRefund): Claim {
  const { key, owner, transactionId, amount, currency, fingerprint, processor } = attempt;
  const { payment, name, reason, chargeId } = attempt.refund;
  // As in the claims of takeovers, which come from the writer without members that are undefined.
  const refund = {
    payment,
    name,
    ...(reason !== undefined && { reason }),
    ...(chargeId !== undefined && { chargeId }),
  };
  const money = { amount, currency, fingerprint, client: client ?? undefined, processor };
  const claim = { key, epoch: 1, owner, transactionId, ...money, refund, unsent: !mayBeLost, ageMs: 0 };
  return mayBeLost ? { ...claim, mayBeLost, claimedAfterLoss: true } : claim;
}
