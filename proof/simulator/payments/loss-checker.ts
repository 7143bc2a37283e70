import { DECLINED } from '#idempay/payments/values/payment.js';
import type { ObservedPayment } from '../observed.js';
import { whatIsTrue } from '../violation-kinds.js';
import { type Asked, describe, type Issued, isAskedAgain, isFinal } from './clients.js';
import { checkSettlements } from './feed-checker.js';
import { attemptName, attemptOf, nameOf, orderOf } from './keys.js';
import { laterEnds } from './later-attempts.js';
import { checkRefundsAfterLoss } from './lost-refund-checker.js';
import type { PaymentHistory } from './run.js';

const ONLY_AFTER_LOSS = ['too soon', 'charged before', 'superseded at processor', 'other processor before loss'];

/**
 * Checks a history in which a restore took rows back. A lost row is no violation; but each key is charged once, each order is paid by one
 * attempt, and no answer says what did not happen. The time in which a payment ends is not judged.
 */
export function checkAfterLoss(history: PaymentHistory): string[] {
  const { stores, clients } = history;
  return [
    ...history.bugs.map((bug) => `a bug: ${bug}`),
    ...checkCharges(history),
    ...checkSettlements(history),
    ...[...stores.payments.byKey.values()].flatMap((row) => (row.refund_of === null ? checkRow(row, history) : [])),
    ...checkRefundsAfterLoss(history),
    ...clients.issued.flatMap((issued) => checkAnswers(issued, history).map((text) => `${issued.key}: ${text}`)),
    ...stores.recordedOutcomes().flatMap(([key = '', value]) => {
      const name = nameOf(key);
      const isOne = rowsOf(name, history).some((row) => outcomeIn(row) === value);
      return isOne ? [] : [`${name}: its record says ${value}, and no row ever did`];
    }),
  ];
}

const outcomeIn = ({ state, transaction_id }: ObservedPayment) => (state === 'COMPLETED' ? transaction_id : DECLINED);

/** The row that is there, and those that were lost. */
export const rowsOf = (name: string, { stores: { payments } }: PaymentHistory): ObservedPayment[] =>
  [payments.byKey.get(name) ?? [], payments.lost.filter(({ key }) => key === name)].flat();

const chargesOf = (name: string, { processor }: PaymentHistory) => processor.charges.filter(({ key }) => key === name);

type SentCharge = PaymentHistory['processor']['charges'][number];

/**
 * An operator who looked at the processor before it was sent cannot know of it (`references.md`, "Not promised"). A verdict that was lost before
 * `by` is no excuse for what was said or sent then.
 */
export function couldNotKnow(
  { key, sentAt }: Pick<SentCharge, 'key' | 'sentAt'>,
  { verdicts, stores }: PaymentHistory,
  by = Infinity,
): boolean {
  const isLost = stores.payments.lost.some((row) => row.key === key && row.resolution !== null && row.lostAt <= by);
  return !isLost && (verdicts.get(key) ?? Infinity) <= sentAt;
}

function checkCharges(history: PaymentHistory): string[] {
  const { processor } = history;
  const keys = new Set(processor.charges.map(({ key }) => key));
  const orders = new Set([...keys].map(orderOf));
  return [
    ...[...keys].flatMap((key) => {
      const { length } = chargesOf(key, history);
      return length > 1 ? [`${key}: charged ${length} times`] : [];
    }),
    ...[...orders].flatMap((order) => {
      const charges = processor.charges.filter(({ key }) => orderOf(key) === order);
      const [first, ...others] = charges.toSorted((one, other) => one.sentAt - other.sentAt);
      const wrong = others.find((other) => first && !mayFollow(other, first, history));
      return first && wrong ? [`${order}: is paid by ${first.key} and by ${wrong.key}`] : [];
    }),
  ];
}

/** True if nothing is promised of the later one of two charges of an order. */
function mayFollow(later: SentCharge, first: SentCharge, history: PaymentHistory): boolean {
  const [attempt, before] = [attemptOf(later.key), attemptOf(first.key)];
  if (attempt === before) return true;
  if (attempt > before) return couldNotKnow(first, history, later.sentAt);
  // Only the attempt after it is looked up.
  const next = attemptName(orderOf(later.key), attempt + 1);
  return before > attempt + 1 && history.processor.knowsSince(next) > later.sentAt;
}

/** A charge of the order of an attempt that was cancelled, of which the cancellation had to know. */
function isOf(charge: SentCharge, cancelled: string, history: PaymentHistory): boolean {
  if (orderOf(charge.key) !== orderOf(cancelled) || couldNotKnow(charge, history)) return false;
  const next = attemptOf(cancelled) + 1;
  // Only the attempt after it is looked up.
  return (
    attemptOf(charge.key) <= next || history.processor.knowsSince(attemptName(orderOf(cancelled), next)) < Infinity
  );
}

function checkRow({ key, state, amount, resolution }: ObservedPayment, history: PaymentHistory): string[] {
  const attempt = attemptOf(key);
  const before = attemptName(orderOf(key), attempt - 1);
  const charges = chargesOf(key, history);
  const [charge] = charges;
  const isOther = charge !== undefined && charge.amount !== amount;
  const violations = whatIsTrue({
    'is there without the attempt before it': attempt > 1 && !history.stores.payments.byKey.has(before),
    'is COMPLETED and was not charged': state === 'COMPLETED' && !charge,
    // A person who resolves it knows the amount.
    [`is COMPLETED with ${amount}, and was charged ${charge?.amount}`]:
      state === 'COMPLETED' && isOther && resolution === null,
    'is DECLINED and was charged': state === 'DECLINED' && charges.some((each) => !couldNotKnow(each, history)),
    'is CANCELLED and was charged': state === 'CANCELLED' && charge !== undefined,
  });
  return violations.map((text) => `${key}: ${text}`);
}

function checkAnswers(issued: Issued, history: PaymentHistory): string[] {
  const { asked, cancelled, inquiries, orderInquiries, chargeInquiries, key } = issued;
  const all = [asked, cancelled, inquiries, orderInquiries, chargeInquiries].flat();
  return [
    ...asked.flatMap((request) => [...checkPaid(request, issued, history), ...checkRefused(request, issued, history)]),
    ...cancelled.flatMap((request) => [
      ...checkRefused(request, issued, history),
      ...checkCancelled(request, issued, history),
    ]),
    ...inquiries.flatMap(({ answer, answeredAt = 0 }) => {
      if (typeof answer !== 'object') return [];
      return isOutcome(answer.outcome, key, answeredAt, history) ? [] : ['an inquiry was told of an outcome of no row'];
    }),
    ...chargeInquiries.flatMap(({ answer, sentAt: askedAt, ofOrder }) => {
      const isCharged = history.processor.charges.some(
        ({ key: charged, sentAt }) =>
          sentAt <= askedAt && (ofOrder ? orderOf(charged) === orderOf(key) : charged === key),
      );
      return answer === 'none' && isCharged ? ['was told that nothing is charged, and it was'] : [];
    }),
    ...whatIsTrue({
      'was never answered': all.some(({ answer }) => answer === undefined),
      'was asked again and again for nothing': isAskedAgain(issued) && !asked.some(isFinal),
    }),
  ];
}

/** Checks the outcome that a payer was told. */
function checkPaid(request: Asked, { key, reference, asked }: Issued, history: PaymentHistory): string[] {
  const { answer, answeredAt = 0, amount, kind } = request;
  if (typeof answer !== 'object') return [];
  if (answer.state === 'cancelled') {
    const isClosed = rowsOf(key, history).some(
      ({ state, finalAt = Infinity }) => state === 'CANCELLED' && finalAt <= answeredAt,
    );
    return whatIsTrue({ 'a payer was told that it is cancelled, and it is not': !isClosed });
  }
  const rejects = history.plan.shape.payloadMismatch === 'reject' || reference !== undefined;
  const isTheSame = asked.every((other) => other.amount === amount && other.kind !== 'pay nonsense');
  if (answer.state.endsWith('mismatch')) {
    return whatIsTrue({ 'was told of another payment that nobody asked for': !rejects || isTheSame });
  }
  if (!('final' in answer)) return [];
  const { outcome } = answer.final;
  const told = describe(answer);
  const charges = chargesOf(key, history);
  const isPaid = outcome.state === 'COMPLETED';
  const isResolved = rowsOf(key, history).some(({ resolution }) => resolution !== null);
  return whatIsTrue({
    [`answered ${told}, which no row says`]: !isOutcome(outcome, key, answeredAt, history),
    [`answered ${told} before it was charged`]: isPaid && !charges.some(({ sentAt }) => sentAt < answeredAt),
    [`asked to pay ${amount} (${kind}), and was told of ${charges[0]?.amount} as paid`]:
      isPaid && rejects && !isResolved && charges.some((charge) => charge.amount !== amount),
    // If its row was lost, a later request of the payer may be charged.
    [`answered ${told}, and was charged`]:
      !isPaid && charges.some((charge) => charge.sentAt < answeredAt && !couldNotKnow(charge, history, answeredAt)),
  });
}

function isOutcome(
  outcome: { readonly state: 'COMPLETED' | 'DECLINED'; readonly transactionId?: string },
  key: string,
  answeredAt: number,
  history: PaymentHistory,
): boolean {
  return rowsOf(key, history).some(
    ({ state, transaction_id, finalAt = Infinity }) =>
      state === outcome.state && finalAt <= answeredAt && (outcome.transactionId ?? transaction_id) === transaction_id,
  );
}

/**
 * Checks an acknowledged cancellation: its row says so, and nothing of the order is charged, or nothing of the attempt if only that was ended.
 * If the row that says so is lost afterwards, a later charge breaks no promise (`references.md`, "Not promised").
 */
function checkCancelled(
  { answer, answeredAt = 0, only }: Issued['cancelled'][number],
  { key, reference }: Issued,
  history: PaymentHistory,
): string[] {
  if (typeof answer !== 'object' || answer.state !== 'cancelled') return [];
  const { processor, stores } = history;
  const next = reference && attemptName(orderOf(key), reference.attempt + 1);
  const isSaid = ({ state, finalAt = Infinity }: ObservedPayment) => state === 'CANCELLED' && finalAt <= answeredAt;
  const isClosed = (name: string) => rowsOf(name, history).some(isSaid);
  const ended = rowsOf(key, history).find(
    ({ state, finalAt = Infinity }) => state === 'DECLINED' && finalAt <= answeredAt,
  );
  const isClosedAfter = laterEnds(key, answeredAt, (name) => rowsOf(name, history)).some(isSaid);
  const isEnded = ended !== undefined && (next ? only === 'attempt' || isClosedAfter : ended.ending !== null);
  /** The answer may come after the loss of a row that was committed before it. */
  const isKept = (name: string) => {
    const { state, finalAt = Infinity } = stores.payments.byKey.get(name) ?? {};
    return finalAt <= answeredAt && state !== 'COMPLETED';
  };
  const isNextLost = next !== undefined && !isClosed(key) && !isKept(next);
  const mayBeForgotten = !isKept(key) || isNextLost;
  const isAbout = (charge: SentCharge) => (only ? charge.key === key : isOf(charge, key, history));
  return whatIsTrue({
    'was told to be cancelled, and is not': !isClosed(key) && !isEnded,
    'was told to be cancelled, and was charged': processor.charges.some(
      (charge) => isAbout(charge) && (charge.sentAt < answeredAt || !mayBeForgotten),
    ),
  });
}

/** The answer to a payer or a cancellation about a payment that is not made by the request. */
function checkRefused(
  request: Asked | Issued['cancelled'][number],
  { key, reference }: Issued,
  history: PaymentHistory,
): string[] {
  const { answer, sentAt, answeredAt = 0 } = request;
  if (typeof answer !== 'object') return [];
  const { state } = answer;
  const { processor, faults, plan, stores } = history;
  const isEnded = (end: ObservedPayment['state']) =>
    rowsOf(key, history).some((row) => row.state === end && (row.finalAt ?? Infinity) <= answeredAt);
  const isPaidLater =
    rowsOf(key, history).some(({ ending }) => ending === 'order') &&
    laterEnds(key, answeredAt, (name) => rowsOf(name, history)).some((row) => row.state === 'COMPLETED');
  const isKnown = (name: string) => processor.knowsSince(name) <= answeredAt;
  /** The cancellation of an order ends its attempts in turn. */
  const isNextKnown =
    'only' in request &&
    !request.only &&
    reference !== undefined &&
    isKnown(attemptName(orderOf(key), reference.attempt + 1));
  const wasRestored = faults.restores.some((at) => at <= answeredAt);
  const waitMs = plan.shape.leaseMs + plan.shape.processorTimeoutMs;
  // The service looks at the wait after the request was sent. The answer may come long after that, because the process was paused.
  const wasWaiting = faults.restores.some((at) => at <= answeredAt && sentAt <= at + waitMs);
  return whatIsTrue({
    'was told to be completed, and is not': state === 'completed' && !isEnded('COMPLETED') && !isPaidLater,
    'was told to be declined, and is not': state === 'declined' && !isEnded('DECLINED'),
    'was told of a next attempt that the processor does not know':
      'by' in answer && !isKnown(attemptName(orderOf(key), answer.by)),
    'was told to be charged before, and the processor does not know it':
      state === 'charged before' && !isKnown(key) && !isNextKnown,
    'was told that rows are lost': !wasRestored && ONLY_AFTER_LOSS.includes(state),
    'was told that rows were lost a moment ago, long after that': state === 'too soon' && !wasWaiting,
    'was told that another processor may know, and rows of this one were left':
      state === 'other processor before loss' && !stores.payments.wasSetBackToNothing,
    'was told that it was never made, and was charged':
      'previous' in answer &&
      answer.previous === 'absent' &&
      chargesOf(key, history).some((each) => each.sentAt < sentAt),
    'was told that its row may be lost, and the processor knew it':
      'previous' in answer && answer.previous === 'may be lost' && processor.knowsSince(key) < sentAt,
    'the first attempt was refused its turn': state === 'not its turn' && attemptOf(key) === 1,
    'a key was told to be another order': state === 'reference mismatch' && reference === undefined,
  });
}
