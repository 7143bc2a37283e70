import { type ClaimAttempt, type FindResult, type Ledger, MOST_COUNTED } from '../../../payments/ports/ledger.js';
import { lowestKeyAt } from '../../../payments/values/idempotency-key.js';
import { type Claim, isVisibleTo } from '../../../payments/values/payment.js';
import type { Clock } from '../../../platform/clock.js';
import { abandonedEvent, payerIn, settledEvent } from '../../shared/payment-rows.js';
import type { Reader } from '../reader.js';
import type { Writer } from '../writer/writer.js';
import { createClaimWrites } from './claim-writes.js';
import { type Losses, mayBeLost } from './claims.js';
import { FIND, LOSSES, SEEN_MS } from './ledger-statements.js';
import { foundOf, type PaymentRow } from './payment-row.js';
import { FIND_SOURCE } from './payment-sources.js';

/** Rows are removed in the commit that raises the horizon, so both are of one snapshot here. */
const ENDED_UNCLAIMED = `
  SELECT 1 FROM deployment, payment_horizon
  WHERE ?1 >= look_up_before AND ?1 >= keys_before AND ?1 < ?2
    AND NOT EXISTS (SELECT 1 FROM payments WHERE key = ?1 AND (?3 IS NULL OR client IS NULL OR client = ?3))`;

/** Payments that are PROCESSING and not pending, oldest first, up to a limit: the cost of a count must not grow with their number. */
const OLDEST_UNDER_WAY = `(
  SELECT epoch, unsent_epoch, lease_until, claimed_at, claimed_at_wall FROM payments WHERE state = 'PROCESSING' AND pending_until IS NULL
  ORDER BY transaction_id LIMIT ${MOST_COUNTED})`;

export const COUNT_ABANDONED = `
  SELECT count(*) AS abandoned FROM ${OLDEST_UNDER_WAY}
  WHERE (lease_until <= ? OR epoch > 1) AND (
    unsent_epoch = 0 OR claimed_at < CASE WHEN unsent_epoch = epoch THEN ? ELSE ? END
    OR claimed_at_wall < CASE WHEN unsent_epoch = epoch THEN ? ELSE ? END)`;

export const BACKLOG = `
  SELECT count(*) AS payments, min(claimed_at) AS oldest FROM ${OLDEST_UNDER_WAY} WHERE lease_until <= ?`;

export const PENDING_BACKLOG = `
  SELECT count(*) AS payments, min(claimed_at) AS oldest, count(*) FILTER (WHERE pending_until < ?) AS past
  FROM (
    SELECT claimed_at, pending_until FROM payments WHERE state = 'PROCESSING' AND pending_until IS NOT NULL
    ORDER BY transaction_id LIMIT ${MOST_COUNTED})`;

/** `clock` is the store's. */
export function createEmbeddedLedger(writer: Writer, reader: Reader, clock: Clock, wallClock: () => number): Ledger {
  const find = reader.prepare(FIND);
  const endedUnclaimed = reader.prepare(ENDED_UNCLAIMED);
  const findSource = reader.prepare(FIND_SOURCE);
  const losses = reader.prepare(LOSSES);
  const seenMs = reader.prepare(SEEN_MS);
  const countAbandoned = reader.prepare(COUNT_ABANDONED);
  const backlog = reader.prepare(BACKLOG);
  const pendingBacklog = reader.prepare(PENDING_BACKLOG);
  const { abandon, register, claimBefore, claimInTime } = createClaimWrites(writer, reader, clock);

  return {
    async claim(attempt) {
      await register(attempt.processor);
      const claimed = await claimInTime(
        writer.write('claim', { ...attempt, claimBefore: claimBefore(attempt), wallMs: wallClock() }),
        (late) => {
          if (late === 'claimed') return [firstClaim(attempt)];
          return typeof late === 'object' && late.state === 'taken over' ? [late.claim] : [];
        },
      );
      if (claimed === 'claimed') return { state: 'claimed', claim: firstClaim(attempt) };
      if (typeof claimed === 'object') return claimed;
      const { settleAs, fingerprint, client } = attempt;
      if (!settleAs) throw new Error('a claim was settled that named no outcome');
      return { state: 'settled', final: { outcome: settleAs.outcome, fingerprint, client, expiresAt: claimed } };
    },

    cancel({ claimBy, ...cancellation }) {
      return writer.write('cancel', { ...cancellation, claimBefore: claimBefore({ claimBy }), wallMs: wallClock() });
    },

    acceptLostRows: () => writer.write('acceptLostRows'),

    async find(key, client): Promise<FindResult> {
      const row = find.get(key) as PaymentRow | undefined;
      if (!row || row.refund_of !== null || !isVisibleTo(client, row.client)) return { state: 'absent' };
      const now = clock.now();
      const found = foundOf(row, now);
      if (found.state === 'expired') await writer.passTime(row.expires_at ?? now);
      return found;
    },

    async endedUnclaimed(key, lifeMs, client) {
      return endedUnclaimed.get(key, lowestKeyAt(clock.now() - lifeMs), client ?? null) !== undefined;
    },

    async mayBeLost(key) {
      return mayBeLost(key, losses.get() as unknown as Losses, () => (seenMs.get() as { ms: number }).ms);
    },

    payerOf: async (key) => payerIn((findSource.get(key) as { source: string } | undefined)?.source),

    takeOver: async (takeover) =>
      (await claimInTime(writer.write('takeOver', takeover), (late) => (late ? [late] : []))) ?? undefined,

    beginEnding: async (ending) =>
      (await claimInTime(writer.write('beginEnding', ending), (late) => (late ? [late] : []))) ?? undefined,

    takeOverDue: (takeover) => claimInTime(writer.write('takeOverDue', takeover), (late) => late),

    duePending: (due) => writer.write('duePending', due),

    movePending: (key, untilMs) => writer.write('movePending', { key, untilMs }),

    renew: ({ key, epoch, owner }, leaseMs) => writer.write('renew', { key, epoch, owner, leaseMs }),

    abandon,

    leave({ key, epoch, owner }, { recoverAfterMs, pendingUntilMs, clearsEnding, processorId, charged }, note) {
      const left = { recoverAfterMs, pendingUntilMs, clearsEnding, processorId, charged };
      return writer.write('leave', { key, epoch, owner, ...left, event: abandonedEvent({ owner }, note) });
    },

    async settle({ key, epoch, owner, fingerprint, client, processorId, refund }, outcome, idempotencyTtlMs, note) {
      const event = note && settledEvent({ owner }, note);
      const isRefund = refund ? true : undefined;
      const end = { outcome, idempotencyTtlMs, processorId, event, isRefund };
      const settlement = { key, epoch, owner, fingerprint, client, ...end };
      const settled = await writer.write('settle', settlement);
      if (typeof settled !== 'number') return settled;
      return { state: 'settled', final: { outcome, fingerprint, client, expiresAt: settled } };
    },

    async settleAfterLoss(claim, { outcome, idempotencyTtlMs, note, resolution }) {
      const { key, epoch, owner, fingerprint, client, amount, currency, processorId } = claim;
      const isRefund = claim.refund ? true : undefined;
      const settlement = { key, epoch, owner, fingerprint, client, outcome, idempotencyTtlMs, processorId, isRefund };
      const found = { amount, currency, resolution, event: settledEvent(claim, note) };
      const settled = await writer.write('settleAfterLoss', { ...settlement, ...found });
      if (typeof settled !== 'number') return settled;
      return { state: 'settled', final: { outcome, fingerprint, client, expiresAt: settled } };
    },

    resolve: (resolution) => writer.write('resolve', { ...resolution, wallMs: wallClock() }),

    async countAbandoned(dedupMs, idempotencyTtlMs) {
      const now = clock.now();
      const claimedBefore = [now, wallClock()].flatMap((ms) => [ms - idempotencyTtlMs, ms - dedupMs]);
      const counted = countAbandoned.get(now, ...claimedBefore);
      return (counted as { abandoned: number }).abandoned;
    },

    async backlog() {
      const now = clock.now();
      const { payments, oldest } = backlog.get(now) as { payments: number; oldest: number | null };
      return { payments, oldestMs: Math.max(0, now - (oldest ?? now)) };
    },

    async pendingBacklog() {
      const now = clock.now();
      const row = pendingBacklog.get(now) as { payments: number; oldest: number | null; past: number };
      return { payments: row.payments, oldestMs: Math.max(0, now - (row.oldest ?? now)), pastUntil: row.past };
    },

    noteElapsed: (elapsed) => writer.write('noteElapsed', elapsed),

    removeSettled: (retentionMs, limit) => writer.write('removeSettled', { retentionMs, limit }),
  };
}

function firstClaim(attempt: ClaimAttempt): Claim {
  // Listed member by member: removing members from a copy would cost more than all else here, in every first payment.
  return {
    key: attempt.key,
    owner: attempt.owner,
    epoch: 1,
    amount: attempt.amount,
    currency: attempt.currency,
    transactionId: attempt.transactionId,
    fingerprint: attempt.fingerprint,
    client: attempt.client,
    processor: attempt.processor,
    reference: attempt.turn?.reference.text,
    attempt: attempt.turn?.reference.attempt,
    content: attempt.content,
    unsent: true,
    ageMs: 0,
  };
}
