import type { FinalOutcome } from '#idempay/payments/values/payment.js';
import type { ObservedPayment } from '../observed.js';
import { whatIsTrue } from '../violation-kinds.js';
import { type Asked, describe, describeOutcome, type Issued, isFinal } from './clients.js';
import type { PaymentHistory } from './run.js';

type Row = ObservedPayment | undefined;

/** Twice the time of one try without faults, because a last try may begin just before the patience ends. */
const CALM_MS = 2_000;
/** A look at the lock each second, a pause of a second, and the ways. */
const HEARS_WITHIN_MS = 3_000;
/** And when every message takes until its deadline. */
const WORST_MS = 150_000;

/** What the clients of one key were told, against its row. */
export function checkAnswers(issued: Issued, history: PaymentHistory): string[] {
  const { asked, inquiries, script } = issued;
  const row = history.stores.payments.rowOf(issued.key);
  const processed = asked.filter((request) => stateOf(request) === 'processed').length;
  const violations = [
    ...asked.flatMap((request) => checkAnswer(request, issued, row, history)),
    ...whatIsTrue({
      [`${processed} answers say that theirs was the first`]: processed > 1,
      'an answer says it processed what an operator resolved': processed > 0 && typeof row?.resolution === 'string',
      'was asked again and again for nothing': script.asksAgain && !asked.some(isFinal),
    }),
    // Inquiries get no outcome before the payment is final, and always one after it.
    ...inquiries.flatMap(({ answer, answeredAt = 0, finalAtSend }) => {
      if (typeof answer === 'object') return wrongOutcome(`told ${describeOutcome(answer)}`, answer, row, answeredAt);
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
  const rejects = history.plan.shape.payloadMismatch === 'reject';
  const allTheSame = issued.asked.every((other) => other.amount === amount && other.kind === 'pay');
  const state = stateOf(request);
  const which = `a request sent at ${sentAt.toFixed(0)}`;
  const violations = whatIsTrue({
    [`${which} was never answered`]: answer === undefined,
    [`${which} was answered too late`]: isLate(request, history),
    [`${which} waited for nothing`]: waitedForNothing(request, row, history),
    [`was said to be under way at ${sentAt.toFixed(0)}, and was finished`]: isBusyForNothing(request, issued),
    'was called invalid while it was good': state === 'invalid key' && isGood(request, issued, row, history),
    'a good request was called bad': state === 'invalid content' && kind === 'pay',
    'was told of another payment that nobody asked for': state === 'mismatch' && (!rejects || allTheSame),
    'nonsense was paid': state === 'processed' && kind === 'pay nonsense',
  });
  if (typeof answer !== 'object' || !('final' in answer)) return violations;
  const told = `answered ${describe(answer)}`;
  const wrong = wrongOutcome(told, answer.final, row, answeredAt);
  if (wrong.length === 0 && isRepeatedTooLate(request, row, history)) wrong.push(`${told} after it had expired`);
  const isOther = rejects && row && (row.amount !== amount || kind === 'pay nonsense');
  if (isOther) wrong.push(`asked to pay ${amount} (${kind}), and was told of ${row.amount}`);
  return [...violations, ...wrong];
}

const stateOf = ({ answer }: Asked) => (typeof answer === 'object' ? answer.state : undefined);

/** An outcome that somebody was told, against the row. */
function wrongOutcome(told: string, { outcome }: FinalOutcome, row: Row, answeredAt: number): string[] {
  if (!row || row.state !== outcome.state) return [`${told}, and is ${row?.state ?? 'not there'}`];
  if (outcome.state === 'COMPLETED' && outcome.transactionId !== row.transaction_id) {
    return [`${told}, and is ${row.transaction_id}`];
  }
  return (row.finalAt ?? Infinity) > answeredAt ? [`${told} before it was so`] : [];
}

/** Answered in time: when all ways were fine, soon after its patience ended. */
function isLate({ sentAt, answeredAt, patienceMs, answer, stoppedMs = 0 }: Asked, { faults }: PaymentHistory): boolean {
  if (answeredAt === undefined || answer === 'cut') return false;
  const worstMs = faults.wereCalm(sentAt, answeredAt) ? CALM_MS : WORST_MS;
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

/** After one client got the outcome, no client gets "in progress", even if the key store lost data (decisions P17). */
function isBusyForNothing(request: Asked, { asked }: Issued): boolean {
  if (stateOf(request) !== 'in progress') return false;
  return asked.some(
    ({ answer, answeredAt = Infinity }) =>
      typeof answer === 'object' && 'final' in answer && answeredAt < request.sentAt,
  );
}

/** A key is good while its payment is known, and before that until it expires, unless the key store forgot it. */
function isGood(request: Asked, { key, askedForAt }: Issued, row: Row, history: PaymentHistory): boolean {
  const { knownAtSend, answeredAt = 0 } = request;
  // A key that was claimed and finished meanwhile may have expired since.
  if (mayHaveExpired(history, row, answeredAt)) return false;
  if (knownAtSend) return true;
  const isForgotten = history.faults.mayHaveForgotten(key, askedForAt, answeredAt);
  return !isForgotten && answeredAt < askedForAt + history.plan.shape.idempotencyTtlMs;
}

const mayHaveExpired = (history: PaymentHistory, row: Row, at: number) =>
  row?.expiresAt !== undefined && (wasAnyClockMoved(history) || row.expiresAt <= at);

/** A history with retention moves clocks of its own. */
const wasAnyClockMoved = ({ plan }: PaymentHistory) =>
  plan.shape.retentionMs !== undefined || plan.faults.some(({ kind }) => kind === 'clock');
