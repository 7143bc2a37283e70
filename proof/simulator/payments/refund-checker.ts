import { unitsOf } from '#idempay/payments/values/money.js';
import type { ObservedPayment } from '../observed.js';
import { whatIsTrue } from '../violation-kinds.js';
import { couldNotKnow } from './checker.js';
import type { Issued } from './clients.js';
import { nameOf, refundName } from './keys.js';
import type { PaymentHistory } from './run.js';

const moneyOf = ({ amount, currency }: ObservedPayment) => ({ amount: String(amount), currency: String(currency) });

/** Answers that a client may hear of a payment that is COMPLETED, of which the refund has no row then. */
const REFUSALS: readonly string[] = ['too much', 'busy', 'too old', 'no payment'];
/** These come from retention alone. */
const OF_RETENTION: readonly string[] = ['too old', 'no payment'];

/** Rule P26: `rows` are those of payments and refunds, also those that were removed. */
export function checkRefunds(rows: readonly ObservedPayment[], history: PaymentHistory): string[] {
  return [
    ...checkSends(history),
    ...rows.flatMap((row) => (row.refund_of === null ? checkSum(row, rows) : checkRefund(row, history))),
    ...history.clients.issued.flatMap((issued) => checkAnswers(issued, history)),
  ];
}

/**
 * A refund is sent again only after a look-up that found no record. After a restore, an execution whose row was lost may send until its lease
 * has ended, next to one that has looked up: the processor gives back once for both.
 */
export function checkSends({ processor, faults, plan }: PaymentHistory): string[] {
  const sentAt = new Map<string, number>();
  return processor.refundSteps.flatMap(({ key, at, step }) => {
    const before = sentAt.get(key);
    if (step !== 'sent') {
      sentAt.delete(key);
      return [];
    }
    sentAt.set(key, at);
    if (before === undefined) return [];
    const isOfLostRow = faults.restores.some((lostAt) => before >= lostAt && before <= lostAt + plan.shape.leaseMs);
    return isOfLostRow ? [] : [`${key}: was sent again without a look-up`];
  });
}

/** The sum of a payment is that of its refunds that are not declined. A payment and its refunds are removed together. */
export function checkSum(
  { key, refunded, claimed, firstThereAt }: ObservedPayment,
  rows: readonly ObservedPayment[],
): string[] {
  // An order that is paid anew has the key that it had.
  const nextAt = Math.min(
    ...rows.filter((row) => row.key === key && row.firstThereAt > firstThereAt).map((row) => row.firstThereAt),
  );
  // The times are those of the store's clock, which may have been set back.
  const isOnly = rows.filter((row) => row.key === key).length === 1;
  const isOfRow = (row: ObservedPayment) => isOnly || (row.firstThereAt >= firstThereAt && row.firstThereAt < nextAt);
  const ofPayment = rows.filter((row) => row.refund_of === claimed.key && isOfRow(row));
  const kept = ofPayment.filter(({ state }) => state !== 'DECLINED');
  const sum = kept.reduce((units, row) => units + unitsOf(moneyOf(row)), 0);
  return whatIsTrue({ [`${key}: has ${refunded} refunded, and its refunds are ${sum}`]: (refunded ?? 0) !== sum });
}

function checkRefund(row: ObservedPayment, history: PaymentHistory): string[] {
  const { key, state, transaction_id, amount } = row;
  const { processor, plan } = history;
  const given = processor.refunds.filter((refund) => refund.key === key);
  const violations = whatIsTrue({
    [`was given back ${given.length} times`]: given.length > 1,
    'was given back as another refund': given.some(
      (refund) => refund.transactionId !== transaction_id || refund.amount !== amount,
    ),
    'is COMPLETED and was not given back': state === 'COMPLETED' && given.length === 0 && !plan.shape.isCertain,
    'is DECLINED and was given back':
      state === 'DECLINED' && given.some(({ sentAt }) => !couldNotKnow(row, sentAt, history)),
    'is still PROCESSING long after everything was well': row.finalAt === undefined,
  });
  return violations.map((text) => `${key}: ${text}`);
}

function checkAnswers({ key, refunds }: Issued, { stores, plan }: PaymentHistory): string[] {
  return refunds.flatMap(({ name, amount, answer, sentAt, answeredAt = 0 }) => {
    const rows = stores.payments.rowsOf(refundName(key, name));
    const isFinal = ({ finalAt = Infinity }: ObservedPayment) => finalAt <= answeredAt;
    const state = typeof answer === 'object' ? answer.state : undefined;
    const isMade = rows.some(
      (row) => row.state === 'COMPLETED' && row.amount === amount && Number(row.finalAt) <= sentAt,
    );
    const isRefused = state !== undefined && REFUSALS.includes(state);
    const outcome = typeof answer === 'object' && answer.state === 'final' ? answer.outcome : undefined;
    const isOutcome = (row: ObservedPayment) =>
      row.state === outcome?.state && row.amount === amount && isFinal(row) && row.refund_of !== null;
    const isKept = plan.shape.retentionMs === undefined;
    const violations = whatIsTrue({
      'was never answered': answer === undefined,
      [`was told ${outcome?.state}, which no row says`]: outcome !== undefined && !rows.some(isOutcome),
      'was told of another amount, and there is none':
        state === 'other amount' && rows.every((row) => row.amount === amount),
      [`was told "${state}", and was given back`]: isMade && isRefused && isKept,
      [`was told "${state}", and nothing is removed`]: isKept && OF_RETENTION.includes(state ?? ''),
      [`was told "${state}" of a payment that is COMPLETED here`]: [
        'not completed',
        'other currency',
        'other processor',
        'not supported',
      ].includes(state ?? ''),
      'was told the key of another refund':
        typeof answer === 'object' && 'key' in answer && nameOf(answer.key) !== refundName(key, name),
    });
    return violations.map((text) => `${refundName(key, name)}: ${text}`);
  });
}
