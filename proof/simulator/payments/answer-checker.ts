import type { ObservedPayment } from './observed-payments.js';
import { type Asked, describe, describeOutcome, type Issued, isFinal } from './requests.js';
import type { PaymentHistory } from './run.js';

/** All that one try takes when every way is fine, twice: one that began just before the patience ended. */
const CALM_MS = 2_000;
/** A look at the lock each second, a pause of a second, and the ways. */
const HEARS_WITHIN_MS = 3_000;
/** And when every message takes until its deadline. */
const WORST_MS = 150_000;

/** What the clients of one key were told, against its row. */
export function checkAnswers(issued: Issued, history: PaymentHistory): string[] {
  const { key, asked, script } = issued;
  const row = history.stores.payments.rowOf(key);
  const { payloadMismatch } = history.plan.shape;
  const violations: string[] = [];
  const complain = (text: string) => void violations.push(`${key}: ${text}`);

  let processed = 0;
  for (const request of asked) {
    const { answer, sentAt, amount, kind } = request;
    if (answer === undefined) complain(`a request sent at ${sentAt.toFixed(0)} was never answered`);
    if (isLate(request, history)) complain(`a request sent at ${sentAt.toFixed(0)} was answered too late`);
    if (waitedForNothing(request, row, history)) complain(`a request sent at ${sentAt.toFixed(0)} waited for nothing`);
    if (isBusyForNothing(request, issued))
      complain(`was said to be under way at ${sentAt.toFixed(0)}, and was finished`);
    if (isWronglyInvalid(request, issued, history)) complain('was called invalid while it was good');
    if (typeof answer !== 'object') continue;

    if (answer.state === 'processed') processed += 1;
    if (answer.state === 'invalid content' && kind === 'pay') complain('a good request was called bad');
    if (answer.state === 'mismatch') {
      const allTheSame = asked.every((other) => other.amount === amount && other.kind === 'pay');
      if (payloadMismatch === 'replay' || allTheSame) complain('was told of another payment that nobody asked for');
    }
    if (answer.state !== 'processed' && answer.state !== 'replayed') continue;

    if (kind === 'pay nonsense' && answer.state === 'processed') complain('nonsense was paid');
    if (payloadMismatch === 'reject' && row && (row.amount !== amount || kind === 'pay nonsense')) {
      complain(`asked to pay ${amount} (${kind}), and was told of ${row.amount}`);
    }
    const { outcome } = answer.final;
    if (!row || row.state !== outcome.state) {
      complain(`answered ${describe(answer)}, and is ${row?.state ?? 'not there'}`);
    } else if (outcome.state === 'COMPLETED' && outcome.transactionId !== row.transaction_id) {
      complain(`answered ${describe(answer)}, and is ${row.transaction_id}`);
    } else if ((row.finalAt ?? Infinity) > (request.answeredAt ?? 0)) {
      complain(`answered ${describe(answer)} before it was so`);
    } else if (isRepeatedTooLate(request, row, history)) {
      complain(`answered ${describe(answer)} after it had expired`);
    }
  }
  if (processed > 1) complain(`${processed} answers say that theirs was the first`);
  if (processed > 0 && row !== undefined && row.resolution !== null)
    complain('an answer says it processed what an operator resolved');
  if (script.asksAgain && !asked.some(({ answer }) => isFinal(answer)))
    complain('was asked again and again for nothing');
  return violations;
}

/** Asked for the outcome: none before there is one, and never none after. */
export function checkInquiries({ key, inquiries }: Issued, history: PaymentHistory): string[] {
  const row = history.stores.payments.rowOf(key);
  const violations: string[] = [];
  for (const { answer, answeredAt = 0, finalAtSend } of inquiries) {
    if (answer === undefined) violations.push(`${key}: an inquiry was never answered`);
    if (answer === 'none') {
      const expired = mayHaveExpired(history, row?.expiresAt, answeredAt);
      if (finalAtSend && !expired) violations.push(`${key}: no outcome was told of a payment that is final`);
    } else if (typeof answer === 'object') {
      const told = describeOutcome(answer);
      const { outcome } = answer;
      const right =
        row?.state === outcome.state && (outcome.state === 'DECLINED' || outcome.transactionId === row.transaction_id);
      if (!right) violations.push(`${key}: the outcome told is ${told}, and is ${row?.state ?? 'not there'}`);
      else if ((row?.finalAt ?? Infinity) > answeredAt) violations.push(`${key}: ${told} was told before it was so`);
    }
  }
  return violations;
}

/** Answered in time: when all ways were fine, soon after its patience ended. */
function isLate(request: Asked, { faults }: PaymentHistory): boolean {
  const { sentAt, answeredAt, patienceMs, answer } = request;
  if (answeredAt === undefined || answer === 'cut') return false;
  const calm = faults.wereCalm(sentAt, answeredAt);
  const stoppedMs = Math.max(0, request.pausedMsAtAnswer - request.pausedMsAtSend);
  return answeredAt - sentAt > patienceMs + stoppedMs + (calm ? CALM_MS : WORST_MS);
}

/** Whoever waits is told soon after the end, also where nothing announced it. */
function waitedForNothing(request: Asked, row: ObservedPayment | undefined, { faults }: PaymentHistory): boolean {
  const { sentAt, answeredAt, patienceMs } = request;
  if (patienceMs === 0 || answeredAt === undefined || row?.finalAt === undefined) return false;
  if (request.pausedMsAtAnswer > request.pausedMsAtSend) return false;
  return answeredAt > Math.max(row.finalAt, sentAt) + HEARS_WITHIN_MS && faults.wereOver(row.key, sentAt, answeredAt);
}

/** An outcome is repeated for as long as its key's life, and no longer: then the key is one that nobody knows. */
function isRepeatedTooLate(
  { answer, sentAt }: Asked,
  { expiresAt = 0 }: ObservedPayment,
  history: PaymentHistory,
): boolean {
  const clockMoved = wasAnyClockMoved(history);
  return typeof answer === 'object' && answer.state === 'replayed' && !clockMoved && sentAt > expiresAt;
}

/** Once somebody was told the outcome, nobody is told that it is under way, whatever the key store lost (decisions P17). */
function isBusyForNothing({ answer, sentAt }: Asked, { asked }: Issued): boolean {
  if (typeof answer !== 'object' || answer.state !== 'in progress') return false;
  return asked.some(
    (before) =>
      typeof before.answer === 'object' &&
      (before.answer.state === 'processed' || before.answer.state === 'replayed') &&
      (before.answeredAt ?? Infinity) < sentAt,
  );
}

/** A key is good while its payment is known, and before that until it expires, unless the key store forgot it. */
function isWronglyInvalid(request: Asked, { key, askedForAt }: Issued, history: PaymentHistory): boolean {
  if (typeof request.answer !== 'object' || request.answer.state !== 'invalid key') return false;
  const row = history.stores.payments.rowOf(key);
  const answeredAt = request.answeredAt ?? 0;
  const { shape } = history.plan;
  if (request.knownAtSend) return !mayHaveExpired(history, row?.expiresAt, answeredAt);
  const forgotten = history.faults.mayHaveForgotten(key, askedForAt, answeredAt);
  // A key that was claimed and finished meanwhile may have expired since.
  const finishedMeanwhile = mayHaveExpired(history, row?.expiresAt, answeredAt);
  return !forgotten && !finishedMeanwhile && answeredAt < askedForAt + shape.idempotencyTtlMs;
}

function mayHaveExpired(history: PaymentHistory, expiresAt: number | undefined, at: number): boolean {
  const clockMoved = wasAnyClockMoved(history);
  return expiresAt !== undefined && (clockMoved || expiresAt <= at);
}

/** A history with retention moves clocks of its own. */
function wasAnyClockMoved({ plan }: PaymentHistory): boolean {
  return plan.shape.retentionMs !== undefined || plan.faults.some(({ kind }) => kind === 'clock');
}
