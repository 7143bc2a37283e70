import { unitsOf } from '#idempay/payments/values/money.js';
import type { ObservedPayment } from '../observed.js';
import { whatIsTrue } from '../violation-kinds.js';
import type { Issued } from './clients.js';
import { refundName } from './keys.js';
import { couldNotKnow, rowsOf } from './loss-checker.js';
import { checkSends, checkSum } from './refund-checker.js';
import type { PaymentHistory } from './run.js';

/** Answers of a refund that say that there is none, although its payment was COMPLETED. */
const NEVER: readonly string[] = ['other currency', 'other processor', 'not supported', 'too old'];

/**
 * Checks refunds in a history in which rows were lost (rule P26). Each name gives back once, and all names of a payment no more than was
 * charged. The sum in a payment's row is that of the rows that are there; what was given back for a lost row is counted again when its name
 * is asked for. No answer says that a refund was not made which was.
 */
export function checkRefundsAfterLoss(history: PaymentHistory): string[] {
  const { stores, clients } = history;
  const rows = [...stores.payments.byKey.values()];
  return [
    ...checkSends(history),
    ...checkGivenBack(history),
    ...rows.flatMap((row) => (row.refund_of === null ? checkSum(row, rows) : checkRow(row, history))),
    ...clients.issued.flatMap((issued) => checkAnswers(issued, history)),
  ];
}

function checkGivenBack({ processor: { charges, refunds } }: PaymentHistory): string[] {
  const payments = new Set(refunds.map(({ payment }) => payment));
  return [...payments].flatMap((payment) => {
    const given = refunds.filter((refund) => refund.payment === payment);
    const units = given.reduce((sum, refund) => sum + unitsOf(refund), 0);
    const charged = charges.find(({ key }) => key === payment);
    const chargedUnits = charged ? unitsOf(charged) : 0;
    return whatIsTrue({
      [`${payment}: was given back ${units} of ${chargedUnits}`]: units > chargedUnits,
      [`${payment}: a refund of it was given back twice`]: new Set(given.map(({ key }) => key)).size < given.length,
    });
  });
}

function checkRow(row: ObservedPayment, history: PaymentHistory): string[] {
  const { key, state, amount, resolution } = row;
  const given = history.processor.refunds.find((refund) => refund.key === key);
  const violations = whatIsTrue({
    'is COMPLETED and was not given back': state === 'COMPLETED' && !given,
    // A person who resolves it knows the amount.
    [`is COMPLETED with ${amount}, and ${given?.amount} was given back`]:
      state === 'COMPLETED' && given !== undefined && given.amount !== amount && resolution === null,
    'is DECLINED and was given back': state === 'DECLINED' && given !== undefined && !couldNotKnow(given, history),
  });
  return violations.map((text) => `${key}: ${text}`);
}

function checkAnswers({ key, refunds }: Issued, history: PaymentHistory): string[] {
  return refunds.flatMap(({ name, amount, answer, sentAt, answeredAt = 0 }) => {
    const refund = refundName(key, name);
    const rows = rowsOf(refund, history);
    const given = history.processor.refunds.find((each) => each.key === refund);
    const wasRestored = history.faults.restores.some((at) => at <= answeredAt);
    const state = typeof answer === 'object' ? answer.state : undefined;
    const outcome = typeof answer === 'object' && answer.state === 'final' ? answer.outcome : undefined;
    const isOutcome = (row: ObservedPayment) =>
      row.state === outcome?.state && row.amount === amount && (row.finalAt ?? Infinity) <= answeredAt;
    const isResolved = rows.some(({ resolution }) => resolution !== null);
    const violations = whatIsTrue({
      'was never answered': answer === undefined,
      [`was told ${outcome?.state}, which no row says`]: outcome !== undefined && !rows.some(isOutcome),
      'was told to be given back, and was not':
        outcome?.state === 'COMPLETED' &&
        !isResolved &&
        !(given && given.sentAt < answeredAt && given.amount === amount),
      'was told to be declined, and was given back':
        outcome?.state === 'DECLINED' &&
        given !== undefined &&
        given.amount === amount &&
        given.sentAt < answeredAt &&
        !couldNotKnow(given, history),
      'was told of another amount, and there is none':
        state === 'other amount' && !hasOtherAmount(refund, amount, history),
      // Only the row of the payment, or its refunds, may be lost.
      [`was told "${state}", and no row was lost`]:
        !wasRestored && (state === 'no payment' || state === 'not completed'),
      'was told that there is no payment, and not that it may be lost':
        typeof answer === 'object' && answer.state === 'no payment' && !answer.mayBeLost,
      'was told "too much", and was given back':
        state === 'too much' && given !== undefined && isKnownSince(given.key, sentAt, history),
      [`was told "${state}" of a payment that was COMPLETED`]: NEVER.includes(state ?? ''),
    });
    return violations.map((text) => `${refund}: ${text}`);
  });
}

function hasOtherAmount(refund: string, amount: string, history: PaymentHistory): boolean {
  const given = history.processor.refunds.filter(({ key }) => key === refund);
  return [...rowsOf(refund, history), ...given].some((each) => each.amount !== amount);
}

/** True if somebody was told before that it was given back. */
function isKnownSince(refund: string, sentAt: number, history: PaymentHistory): boolean {
  return rowsOf(refund, history).some(({ state, finalAt = Infinity }) => state === 'COMPLETED' && finalAt <= sentAt);
}
