import type { FinalOutcome } from '#idempay/payments/values/payment.js';
import type { ObservedPayment } from '../observed.js';
import { whatIsTrue } from '../violation-kinds.js';
import { type Asked, describe, describeOutcome, type Issued, isAskedAgain, isFinal } from './clients.js';
import { attemptName, attemptOf, nameOf, orderOf } from './keys.js';
import { laterEnds } from './later-attempts.js';
import type { PaymentHistory } from './run.js';

type Row = ObservedPayment | undefined;

/** Twice the time of one try without faults, because a last try may begin just before the patience ends. */
const CALM_MS = 2_000;
/** A look at the lock each second, a pause of a second, and the ways. */
const HEARS_WITHIN_MS = 3_000;
/** And when every message takes until its deadline. */
const WORST_MS = 150_000;

/** The answers to the clients of one key, against its row. */
export function checkAnswers(issued: Issued, history: PaymentHistory): string[] {
  const { asked, inquiries } = issued;
  const rows = history.stores.payments.rowsOf(issued.key);
  const [row] = rows;
  const processed = asked.filter((request) => stateOf(request) === 'processed').length;
  const resolved = rows.filter(({ resolution }) => resolution !== null).length;
  const violations = [
    ...asked.flatMap((request) => checkAnswer(request, issued, row, history)),
    ...checkTurns(issued, history),
    ...checkCancellations(issued, history),
    ...checkAcknowledged(issued, history),
    ...whatIsTrue({
      // An order may be paid anew when all its rows were removed.
      [`${processed} answers say that theirs was the first`]: processed > Math.max(1, rows.length),
      'an answer says it processed what an operator resolved': resolved > 0 && processed > rows.length - resolved,
      'was asked again and again for nothing': isAskedAgain(issued) && !asked.some(isFinal),
    }),
    ...issued.orderInquiries.flatMap(({ answer, answeredAt = 0, completedAtSend }) => {
      if (typeof answer !== 'object') return whatIsTrue({ 'an inquiry was never answered': answer === undefined });
      const { key, final } = answer;
      const told = `told that ${nameOf(key)} counts`;
      if (final) return wrongOutcome(told, final, history.stores.payments.rowsOf(nameOf(key)), answeredAt);
      return whatIsTrue({ [`${told}, which has no outcome, of an order that is paid`]: completedAtSend });
    }),
    ...checkChargesTold(issued, history),
    // Inquiries get no outcome before the payment is final, and always one after it.
    ...inquiries.flatMap(({ answer, answeredAt = 0, finalAtSend }) => {
      if (typeof answer === 'object') return wrongOutcome(`told ${describeOutcome(answer)}`, answer, rows, answeredAt);
      const isWronglyNone = answer === 'none' && finalAtSend && !mayHaveExpired(history, row, answeredAt);
      return whatIsTrue({
        'an inquiry was never answered': answer === undefined,
        'no outcome was told of a payment that is final': isWronglyNone,
      });
    }),
  ];
  return violations.map((text) => `${issued.key}: ${text}`);
}

function checkAnswer(request: Asked, issued: Issued, row: Row, history: PaymentHistory): string[] {
  const { answer, answeredAt = 0, sentAt, amount, kind } = request;
  const { reference } = issued;
  const rejects = history.plan.shape.payloadMismatch === 'reject' || reference !== undefined;
  const allTheSame = issued.asked.every((other) => other.amount === amount && other.kind !== 'pay nonsense');
  const state = stateOf(request);
  const which = `a request sent at ${sentAt.toFixed(0)}`;
  const violations = whatIsTrue({
    [`${which} was never answered`]: answer === undefined,
    [`${which} was answered too late`]: isLate(request, row, history),
    [`${which} waited for nothing`]: waitedForNothing(request, row, history),
    [`was said to be ${state} at ${sentAt.toFixed(0)}, and was finished`]: isBusyForNothing(request, issued, history),
    'was called invalid while it was good': state === 'invalid key' && isGood(request, issued, row, history),
    'a good request was called bad': state === 'invalid content' && kind === 'pay',
    'was told of another payment that nobody asked for': isMismatch(request) && (!rejects || allTheSame),
    'an order was told to be the payment of a key': state === 'mismatch' && reference !== undefined,
    'was told that rows are lost': state === 'too soon',
    // One with a bad source may finish the payment of another request.
    'nonsense was paid': state === 'processed' && kind === 'pay nonsense',
  });
  if (typeof answer !== 'object' || !('final' in answer)) return violations;
  const told = `answered ${describe(answer)}`;
  const rows = history.stores.payments.rowsOf(issued.key);
  const wrong = wrongOutcome(told, answer.final, rows, answeredAt);
  if (wrong.length === 0 && !reference && isRepeatedTooLate(request, row, history))
    wrong.push(`${told} after it had expired`);
  const isOther = rejects && row && (rows.every((each) => each.amount !== amount) || kind === 'pay nonsense');
  if (isOther) wrong.push(`asked to pay ${amount} (${kind}), and was told of ${row.amount}`);
  return [...violations, ...wrong];
}

const stateOf = ({ answer }: Asked) => (typeof answer === 'object' ? answer.state : undefined);

const isMismatch = (request: Asked) => stateOf(request)?.endsWith('mismatch') ?? false;

/** Rule P20: `none` is certain of every row that was there, then and later, and never of what has no row; `made` follows a completion. */
function checkChargesTold({ key, chargeInquiries }: Issued, { stores, processor }: PaymentHistory): string[] {
  const { byKey, removed } = stores.payments;
  const ofOrderRows = [...byKey.values(), ...removed.map(({ row }) => row)].filter(
    (row) => orderOf(row.key) === orderOf(key),
  );
  return chargeInquiries.flatMap(({ answer, answeredAt = 0, ofOrder, rowsAtSend }) => {
    const rows = ofOrder ? ofOrderRows : ofOrderRows.filter((row) => row.key === key);
    const known = new Set(rowsAtSend.map(({ transaction_id }) => transaction_id));
    const isCharged =
      rows.some(({ state, transaction_id }) => state === 'COMPLETED' && known.has(transaction_id)) ||
      processor.charges.some(({ transactionId }) => known.has(transactionId));
    const isMade = rows.some(({ state, finalAt = Infinity }) => state === 'COMPLETED' && finalAt <= answeredAt);
    const about = ofOrder ? 'its order' : 'its key';
    return whatIsTrue({
      'a question about the charge was never answered': answer === undefined,
      [`was told that ${about} was charged, and nothing was completed`]: answer === 'made' && !isMade,
      [`was told that ${about} is not charged, which was or will be`]: answer === 'none' && isCharged,
      [`was told that ${about} is not charged, which has no row`]: answer === 'none' && rows.length === 0,
    });
  });
}

/** An attempt is refused for what the one before is, and superseded by one that is there. */
function checkTurns({ asked, cancelled, reference, script }: Issued, { stores, plan }: PaymentHistory): string[] {
  if (!reference) return [];
  const { payments } = stores;
  const rowsOf = (attempt: number) => payments.rowsOf(attemptName(`k${script.number}`, attempt));
  /** These end the attempts of the order in turn, so what is refused may be a later one. */
  const mayBeOfLater = new Set<object>(cancelled.filter(({ only }) => !only));
  return [...asked, ...cancelled].flatMap((request) => {
    const { answer, previousAtSend, sentAt } = request;
    if (typeof answer !== 'object') return [];
    if (answer.state === 'superseded') {
      const { attempt = 0, state } = answer.newest;
      const isThere = rowsOf(attempt).some((row) => row.state === state || state === 'PROCESSING');
      return whatIsTrue({
        [`was superseded by attempt ${attempt}, which is not ${state}`]: !isThere || attempt <= reference.attempt,
      });
    }
    if (answer.state !== 'not its turn') return [];
    const { previous } = answer;
    const before = rowsOf(reference.attempt - 1);
    const mayBeRemoved = plan.shape.retentionMs !== undefined;
    return whatIsTrue({
      [`the first attempt was refused its turn at ${sentAt.toFixed(0)}`]:
        reference.attempt === 1 && !mayBeOfLater.has(request),
      [`was refused after a decline: ${previous}`]: previousAtSend === 'DECLINED' && !mayBeRemoved,
      [`was refused for an attempt that is not ${previous}`]:
        (previous === 'completed' || previous === 'cancelled') &&
        !before.some(({ state }) => state === previous.toUpperCase()),
      'was refused for an attempt that is there':
        previous === 'absent' && previousAtSend !== undefined && !mayBeRemoved,
      'was refused as too late': previous === 'declined too long ago' && !mayBeRemoved,
    });
  });
}

/**
 * Checks an acknowledged cancellation: nothing of the payment was or will be charged, and nothing of the attempts after it, unless only
 * this attempt was ended. A request to pay gets this answer only from a row that is CANCELLED.
 */
function checkAcknowledged(issued: Issued, { stores, processor }: PaymentHistory): string[] {
  const { key, reference, script } = issued;
  const { payments } = stores;
  const nameAfter = attemptName(`k${script.number}`, (reference?.attempt ?? 0) + 1);
  const isThere = (name: string, state: ObservedPayment['state'], by: number) =>
    payments.rowsOf(name).find((row) => row.state === state && (row.finalAt ?? Infinity) <= by);
  // When retention has removed its rows, an order may be paid anew.
  const removedAt = Math.min(
    ...payments.removed.flatMap(({ row, at }) => (row.key === key || row.key === nameAfter ? at : [])),
  );
  const isCharged = (isOf: (name: string) => boolean) =>
    processor.charges.some((charge) => isOf(charge.key) && charge.sentAt < removedAt);
  const isLater = (name: string) =>
    reference !== undefined && orderOf(name) === orderOf(key) && attemptOf(name) > reference.attempt;
  const isClosedAfter = (by: number) =>
    laterEnds(key, by, (name) => payments.rowsOf(name)).some(({ state }) => state === 'CANCELLED');
  const told = (answer: Asked['answer'] | Issued['cancelled'][number]['answer']) =>
    typeof answer === 'object' && answer.state === 'cancelled';
  return [
    ...issued.asked.flatMap(({ answer, answeredAt = 0 }) =>
      whatIsTrue({ 'was told to be cancelled, and is not': told(answer) && !isThere(key, 'CANCELLED', answeredAt) }),
    ),
    ...issued.cancelled.flatMap(({ answer, answeredAt = 0, only }) => {
      if (!told(answer)) return [];
      const ended = isThere(key, 'DECLINED', answeredAt);
      const isClosed = reference ? only || isClosedAfter(answeredAt) : ended?.ending;
      return whatIsTrue({
        'was acknowledged as cancelled, and is not': !isThere(key, 'CANCELLED', answeredAt) && !(ended && isClosed),
        'was charged although its cancellation was acknowledged': isCharged((name) => name === key),
        'a later attempt was charged although the order was acknowledged as cancelled': !only && isCharged(isLater),
      });
    }),
  ];
}

/** The answers to a payer or a cancellation about a payment that was closed, or was not. */
function checkCancellations(issued: Issued, history: PaymentHistory): string[] {
  const { asked, cancelled } = issued;
  const rows = history.stores.payments.rowsOf(issued.key);
  const isThere = (state: ObservedPayment['state'], by: number) =>
    rows.some((row) => row.state === state && (row.finalAt ?? Infinity) <= by);
  const { payments } = history.stores;
  const isOrderEnded = rows.some(({ ending }) => ending === 'order');
  const endsAfter = (by: number) => (isOrderEnded ? laterEnds(issued.key, by, (name) => payments.rowsOf(name)) : []);
  return [...asked, ...cancelled].flatMap(({ answer, answeredAt = 0, sentAt }) => {
    const state = typeof answer === 'object' ? answer.state : undefined;
    const transactionId = typeof answer === 'object' && 'transactionId' in answer ? answer.transactionId : undefined;
    const isEnded = rows.some(({ finalAt = Infinity }) => finalAt < sentAt);
    return whatIsTrue({
      'was never answered': answer === undefined,
      'was told to be completed, and is not':
        state === 'completed' &&
        !isThere('COMPLETED', answeredAt) &&
        !endsAfter(answeredAt).some((row) => row.state === 'COMPLETED'),
      'was told to be another payment':
        state === 'completed' &&
        ![...rows, ...endsAfter(answeredAt)].some((row) => row.transaction_id === transactionId),
      'was told to be declined, and is not': state === 'declined' && !isThere('DECLINED', answeredAt),
      'was told that rows are lost': state === 'too soon' || state === 'charged before',
      'an order was told to be unknown': state === 'invalid key' && isEnded && issued.reference !== undefined,
    });
  });
}

/** An outcome that somebody was told, against the row, or the rows of an order that was paid anew. */
function wrongOutcome(
  told: string,
  final: FinalOutcome,
  rows: readonly ObservedPayment[],
  answeredAt: number,
): string[] {
  const wrong = rows.map((row) => wrongOutcomeOf(told, final, row, answeredAt));
  return wrong.some((each) => each.length === 0)
    ? []
    : (wrong[0] ?? wrongOutcomeOf(told, final, undefined, answeredAt));
}

function wrongOutcomeOf(told: string, { outcome }: FinalOutcome, row: Row, answeredAt: number): string[] {
  if (!row || row.state !== outcome.state) return [`${told}, and is ${row?.state ?? 'not there'}`];
  if (outcome.state === 'COMPLETED' && outcome.transactionId !== row.transaction_id) {
    return [`${told}, and is ${row.transaction_id}`];
  }
  return (row.finalAt ?? Infinity) > answeredAt ? [`${told} before it was so`] : [];
}

/**
 * Answered in time: when all ways were fine, soon after its patience ended. A request about a pending payment may join a look-up that began
 * before it (found: seed 60614).
 */
function isLate(
  { sentAt, answeredAt, patienceMs, answer, stoppedMs = 0 }: Asked,
  row: Row,
  { faults, plan: { shape } }: PaymentHistory,
): boolean {
  if (answeredAt === undefined || answer === 'cut') return false;
  const wasPending = typeof row?.pending_until === 'number';
  const joinedMs = wasPending ? shape.processorTimeoutMs : 0;
  const worstMs = faults.wereCalm(sentAt - joinedMs, answeredAt) ? CALM_MS : WORST_MS;
  return answeredAt - sentAt > patienceMs + Math.max(0, stoppedMs) + worstMs;
}

/** A waiting request is answered soon after the end, even without an announcement. */
function waitedForNothing(request: Asked, row: Row, { faults }: PaymentHistory): boolean {
  const { sentAt, answeredAt, patienceMs, stoppedMs = 0 } = request;
  if (patienceMs === 0 || answeredAt === undefined || row?.finalAt === undefined || stoppedMs > 0) return false;
  return answeredAt > Math.max(row.finalAt, sentAt) + HEARS_WITHIN_MS && faults.wereOver(row.key, sentAt, answeredAt);
}

/** An outcome is repeated for as long as its key's life, and no longer: then the key is unknown. */
const isRepeatedTooLate = (request: Asked, row: Row, history: PaymentHistory) =>
  stateOf(request) === 'replayed' && !wasAnyClockMoved(history) && request.sentAt > (row?.expiresAt ?? 0);

/** After one client got the outcome, no client gets "in progress", even if the key store lost data (rule P17). */
function isBusyForNothing(request: Asked, { asked, key }: Issued, history: PaymentHistory): boolean {
  if (!['in progress', 'pending'].includes(stateOf(request) ?? '')) return false;
  // An order that is paid anew.
  if (history.stores.payments.rowsOf(key).length > 1) return false;
  return asked.some(
    ({ answer, answeredAt = Infinity }) =>
      typeof answer === 'object' && 'final' in answer && answeredAt < request.sentAt,
  );
}

/** A key is good while its payment is known, and before that until it expires, unless the key store forgot it. */
function isGood(request: Asked, { key, reference }: Issued, row: Row, history: PaymentHistory): boolean {
  const { knownAtSend, keyFrom, answeredAt = 0 } = request;
  const { retentionMs, idempotencyTtlMs } = history.plan.shape;
  // A request that names its reference is always good.
  if (keyFrom === undefined) return true;
  // A key that was claimed and finished meanwhile may have expired since; an order never expires, and may be removed.
  if (reference ? retentionMs !== undefined : mayHaveExpired(history, row, answeredAt)) return false;
  if (knownAtSend) return true;
  const isForgotten = history.faults.mayHaveForgotten(key, keyFrom, answeredAt);
  return !isForgotten && answeredAt < keyFrom + idempotencyTtlMs;
}

const mayHaveExpired = (history: PaymentHistory, row: Row, at: number) =>
  row?.expiresAt !== undefined && (wasAnyClockMoved(history) || row.expiresAt <= at);

/** A history with retention moves clocks of its own. */
const wasAnyClockMoved = ({ plan }: PaymentHistory) =>
  plan.shape.retentionMs !== undefined || plan.faults.some(({ kind }) => kind === 'clock');
