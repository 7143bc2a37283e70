import type { Content } from '#idempay/payments/values/content.js';
import { DECLINED } from '#idempay/payments/values/payment.js';
import { SOURCE_START, textOf } from '../../../testkit/protocol/contents.js';
import { setBackMs } from '../faults.js';
import type { ObservedPayment } from '../observed.js';
import { whatIsTrue } from '../violation-kinds.js';
import { checkAnswers } from './answer-checker.js';
import { checkSettlements } from './feed-checker.js';
import { attemptName, attemptOf, EPOCH_MS, nameOf, orderOf } from './keys.js';
import { checkAfterLoss } from './loss-checker.js';
import { FAULTS_END_MS } from './plan.js';
import { checkRefunds } from './refund-checker.js';
import type { PaymentHistory } from './run.js';

/** How much too early the database's clock may be assumed, and how much older than its step in the key store a begin may be. */
const TRANSIT_MS = 10;
/** The time that recovery may need after the faults: its longest back-off, a round, and the messages of one attempt. */
const BACK_OFF_CAP_MS = 60_000;
const ROUND_MS = 3_000;
const ATTEMPT_MS = 10_000;
/** A charge that began before the faults ended may be at work this long. */
const LONGEST_CHARGE_MS = 20_000;
/** A processor that deduplicates longer than any history: no payment needs an operator. */
const FOR_EVER_MS = 1_000_000;

/** Checks a history against every promise; returns one sentence for each broken one. */
export function checkPayments(history: PaymentHistory): string[] {
  if (history.plan.shape.loss) return checkAfterLoss(history);
  const { stores, processor, clients, plan } = history;
  const { byKey, removed } = stores.payments;
  const all = [...byKey.values(), ...removed.map(({ row }) => row)];
  const rows = all.filter(({ refund_of }) => refund_of === null);
  const { retentionMs = Infinity } = plan.shape;
  return [
    ...history.bugs.map((bug) => `a bug: ${bug}`),
    ...clients.issued.flatMap((issued) => checkAnswers(issued, history)),
    ...rows.flatMap((row) => checkRow(row, history).map((text) => `${row.key}: ${text}`)),
    ...checkOrders(history),
    ...checkRefunds(all, history),
    ...checkSettlements(history),
    ...removed.flatMap(({ row, at }) => {
      const keptMs = at - (row.finalAt ?? at);
      return keptMs < retentionMs ? [`${row.key}: was removed after ${keptMs} ms`] : [];
    }),
    ...processor.charges.flatMap(({ key }) => (stores.payments.rowOf(key) ? [] : [`${key} was charged without a row`])),
    ...stores.recordedOutcomes().flatMap(([key = '', value]) => {
      const row = stores.payments.rowOf(nameOf(key));
      const outcomes = { PROCESSING: undefined, CANCELLED: undefined, COMPLETED: row?.transaction_id, DECLINED };
      const outcome = outcomes[row?.state ?? 'PROCESSING'];
      if (outcome === value) return [];
      return [`${nameOf(key)}: its record says ${value}, its row ${row?.state ?? 'nothing'} ${row?.transaction_id}`];
    }),
  ];
}

/**
 * A payment that is made anew, with another amount, is refused for as long as the processor remembers the first charge. Then an operator
 * decides it, which no history waits for (found: seed 50442).
 */
function isLeftOpen({ key, finalAt, amount }: ObservedPayment, { processor, stores }: PaymentHistory): boolean {
  if (finalAt !== undefined) return false;
  const isPaidAnew = stores.payments.rowsOf(key).length > 1;
  return !(isPaidAnew && processor.charges.some((charge) => charge.key === key && charge.amount !== amount));
}

function checkRow(row: ObservedPayment, history: PaymentHistory): string[] {
  const { plan, processor, faults, stores, clients } = history;
  const { state, finalAt, transaction_id, amount } = row;
  const isPaidAnew = stores.payments.rowsOf(row.key).length > 1;
  const isOfRow = (charge: { key: string; transactionId: string }) =>
    charge.key === row.key && (!isPaidAnew || charge.transactionId === transaction_id);
  const charges = processor.charges.filter(isOfRow);
  const needsOperator = plan.shape.dedupMs <= FOR_EVER_MS;
  const isLeftUnsent = mayBeLeftUnsent(row, history);
  const isStuck = !needsOperator && !isLeftUnsent && (finalAt ?? 0) > stuckUntil(row, history);
  const isResolvedEarly = row.resolution !== null && !isLeftUnsent && (!needsOperator || wasUnsent(row));
  const issued = clients.issued.find(({ key }) => key === row.key);
  // A client that never heard of its key has asked nothing, so the amount that its script plans is compared instead.
  const planned = plan.scripts.filter(({ number }) => `k${number}` === orderOf(row.key));
  const goodUntil = (stores.goodUntil.get(row.key) ?? 0) + TRANSIT_MS;
  const isKnowable = charges.some(({ sentAt }) => !couldNotKnow(row, sentAt, history));
  return [
    ...charges.flatMap((charge) =>
      whatIsTrue({
        [`charged as ${charge.transactionId}, not ${transaction_id}`]: charge.transactionId !== transaction_id,
        [`charged ${charge.amount}, not ${amount}`]: charge.amount !== amount,
      }),
    ),
    ...processor.sends.filter(isOfRow).flatMap(({ content, order, sentAt }) =>
      whatIsTrue({
        // With a clock that was moved, an owner may take a lease for alive that has ended.
        'was sent after it was pending': !faults.clockWasMoved() && sentAt > (row.pendingFrom ?? Infinity),
        'was sent with another content than its claim had': !isContentOf(row, content),
        [`was sent for the order ${order}`]: order !== (row.reference ?? undefined),
      }),
    ),
    ...whatIsTrue({
      [`charged ${charges.length} times`]: charges.length > 1,
      // A payment that is made anew is deduplicated if the processor remembers for longer than the rows were kept.
      'is COMPLETED and was not charged':
        state === 'COMPLETED' && charges.length === 0 && !plan.shape.isCertain && !isPaidAnew,
      'is CANCELLED and was charged': state === 'CANCELLED' && charges.length > 0,
      'was claimed and not settled': plan.shape.isCertain && (row.epoch !== 1 || row.resolution !== null),
      'is DECLINED and was charged': state === 'DECLINED' && isKnowable,
      'is still PROCESSING long after everything was well': isLeftOpen(row, history),
      [`was stuck until ${finalAt?.toFixed(0)}`]: isStuck,
      'an operator was let in too early': isResolvedEarly,
      [`nobody asked to pay ${amount}`]:
        state !== 'CANCELLED' && !(issued?.asked ?? planned).some((asked) => asked.amount === amount),
      'no request for this amount had its content':
        state !== 'CANCELLED' &&
        issued?.asked.every(
          (asked) => asked.kind !== 'pay' || asked.amount !== amount || !isContentOf(row, asked.content),
        ),
      // No column may have it.
      'is final and still has a source':
        state !== 'PROCESSING' && JSON.stringify({ ...row, claimed: null }).includes(SOURCE_START),
      // The key of a reference is made by its request.
      'was claimed after its key had expired':
        row.reference === null && !faults.clockWasMoved() && row.firstThereAt > goodUntil,
    }),
  ];
}

/** True if the claim that made the row had this content, character for character. A claim that settles keeps no source. */
function isContentOf({ claimed }: ObservedPayment, content: Content | undefined): boolean {
  const more = JSON.parse(claimed.content ?? '{}') as Content;
  if (claimed.state !== 'PROCESSING') return textOf(more) === textOf({ ...content, source: undefined });
  return textOf({ ...more, source: claimed.source ?? undefined }) === textOf(content);
}

/** One reference, one payment that is not declined; an attempt comes only after the decline of the one before. */
function checkOrders({ stores, processor }: PaymentHistory): string[] {
  const { payments } = stores;
  const { byKey, removed } = payments;
  const lives = [
    ...[...byKey.values()].map((row) => ({ row, until: Infinity })),
    ...removed.map(({ row, at }) => ({ row, until: at })),
  ].filter(({ row }) => row.reference !== null);
  const charged = lives.filter(({ row: { state } }) => state === 'COMPLETED' || state === 'PROCESSING');
  return [
    ...charged.flatMap(({ row, until }) =>
      charged
        .filter((other) => other.row !== row && orderOf(other.row.key) === orderOf(row.key))
        .filter((other) => other.row.firstThereAt >= row.firstThereAt && other.row.firstThereAt < until)
        .map((other) => `${orderOf(row.key)}: is paid by ${row.key} and by ${other.row.key}`),
    ),
    ...lives
      .filter(({ row }) => attemptOf(row.key) > 1)
      .flatMap(({ row }) => {
        const { key, state, finalAt = Infinity, transaction_id } = row;
        const before = payments.rowsOf(attemptName(orderOf(key), attemptOf(key) - 1));
        const own = (charge: { transactionId: string }) => charge.transactionId === transaction_id;
        const chargedAt = processor.charges.filter(own).map(({ sentAt }) => sentAt);
        // A claim that waits reads the clock before the wait, and the attempt before it may have ended meanwhile.
        const isOpen = before.some(({ resolution, key: earlier, finalAt: endedAt = Infinity }) => {
          const at = endedAt <= row.committedAt ? Math.max(row.firstThereAt, endedAt) : row.firstThereAt;
          return resolution === null && processor.isPendingAt(earlier, at);
        });
        const isTurn = (by: number) =>
          before.some((each) => each.state === 'DECLINED' && (each.finalAt ?? Infinity) <= by);
        return whatIsTrue({
          [`${key}: is ${state}, and the attempt before it was not declined`]: !isTurn(finalAt),
          [`${key}: was begun while the attempt before it could be charged`]: isOpen,
          [`${key}: was charged before the attempt before it was declined`]: chargedAt.some((at) => !isTurn(at)),
        });
      }),
  ];
}

/**
 * Sent between the operator's look at the processor and the arrival of the verdict: the operator cannot know of it. Or
 * within a lease after it, by an owner whose lease a clock that was set ahead had ended for all others.
 */
export function couldNotKnow(
  row: ObservedPayment,
  sentAt: number,
  { verdicts, faults, plan }: PaymentHistory,
): boolean {
  const { key, resolution, firstThereAt, finalAt = 0 } = row;
  const lookedAt = verdicts.get(key);
  if (resolution === null || lookedAt === undefined || sentAt < lookedAt) return false;
  const wasSetAhead = faults.storeSet.some(({ at, aheadMs }) => aheadMs > 0 && at >= firstThereAt && at <= finalAt);
  return sentAt < finalAt + (wasSetAhead ? plan.shape.leaseMs : 0);
}

/** The epoch before the last was given up with nothing ever sent. */
const wasUnsent = ({ unsent_epoch, epoch }: ObservedPayment) => unsent_epoch === epoch - 1;

/** Recovery does not send it any more: a repeat or an operator decides (rule P15). */
function mayBeLeftUnsent(row: ObservedPayment, { plan, faults }: PaymentHistory): boolean {
  const { firstThereAt, finalAt = 0, claimed_at_wall: claimedAtWallMs = Infinity } = row;
  const ageMs = finalAt - Math.min(firstThereAt, claimedAtWallMs - EPOCH_MS);
  return wasUnsent(row) && (ageMs >= plan.shape.idempotencyTtlMs || faults.clockWasMoved());
}

/** By then recovery must have finished everything that can be finished. */
function stuckUntil({ firstThereAt }: ObservedPayment, { plan }: PaymentHistory): number {
  const { leaseMs, processorTimeoutMs } = plan.shape;
  const leftOverMs = leaseMs + setBackMs(plan) + LONGEST_CHARGE_MS + 6 * processorTimeoutMs;
  return Math.max(FAULTS_END_MS, firstThereAt) + leftOverMs + BACK_OFF_CAP_MS + ROUND_MS + ATTEMPT_MS;
}
