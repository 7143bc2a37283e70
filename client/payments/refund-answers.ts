import { DeclinedError, InvalidRequestError, MismatchError, NotRefundedError } from '../errors.js';
import { detailsOf, isAboutContent, isMomentary, refusalOf, retryAfterMs } from '../http/answers.js';
import { jsonOf, pendingIn } from '../http/forms.js';
import { hasOwnHeader, provenMessageOf } from '../http/proof.js';
import type { Answer, Lost } from '../http/transport.js';
import { refusedAttempt } from './attempt-states.js';
import { again, type PaymentAnswer, unreadReference } from './payment-answers.js';
import { type AskedPayment, keyOfAnswer, refundKeyOf, withKeyOf } from './references.js';

/** A refund as a request names it. The keys are undefined until an answer has named them. */
export interface AskedRefund extends AskedPayment {
  readonly refundName: string;
}

export interface Refunded {
  readonly state: 'refunded';
  readonly transactionId: string;
  readonly replayed: boolean;
  readonly key: string;
}

export interface PendingRefund {
  readonly state: 'pending';
  readonly until: string;
  readonly retryAfterSeconds: number | undefined;
  readonly key: string;
}

/** The answer of one attempt at a refund. */
export type RefundAnswer = Exclude<PaymentAnswer<Refunded | PendingRefund>, { state: 'key refused' }>;

/** Rule P26. The text says if it is a repeat: a browser may not show the header. */
const REFUNDED = /^(Refund processed successfully with )?Transaction ID: (TXN\d+)$/;
const DECLINED = 'Refund declined: ';
const NAME_TAKEN = 'The payment has a refund of this name, ';
/** The two 409 that pass: the refund, or the payment, is under way. */
const IN_PROGRESS = 'The refund is already being processed.';
const TOO_EARLY = 'The payment is not completed yet, ';
const TOO_MUCH = /^The payment has (\S+) ([A-Z]{3}) left /;
const OTHER_CURRENCY = /^The payment was made in ([A-Z]{3}), /;

/** The beginnings of the other sentences, by which a payment cannot be refunded here. */
const REASONS = [
  ['not-paid', /^The payment is [A-Z]+, so there is nothing to give back\./],
  ['other-processor', /^The payment was charged by the processor /],
  ['too-late', /^The record of the payment is about to be removed, /],
  ['not-supported', /^The adapter of the processor does not know refunds /],
] as const;

/** Only what is surely the service's own answer is believed (rule P23): everything else may mean a refund. */
export function readRefundAnswer(result: Answer | Lost, asked: AskedRefund): RefundAnswer {
  if (result.state === 'lost') return again(result, result.mayHaveArrived);
  const refundKey = refundKeyOf(result, asked.refundKey);
  const done =
    refundKey === undefined ? undefined : (refundedIn(result, refundKey) ?? pendingOf(result, asked, refundKey));
  if (done) return done;

  const message = provenMessageOf(result);
  return message === undefined ? again(result, true) : refusalIn(result, message, { ...asked, refundKey });
}

/** The meaning of a refusal that is the service's own. */
function refusalIn(answer: Answer, message: string, asked: AskedRefund): RefundAnswer {
  const { status } = answer;
  // A rate limit is checked before everything else.
  if (status === 429) return again(answer, false);
  const refusal = notRefunded(answer, message, asked);
  // Rows that were lost would be answered so too, so it says nothing about attempts before.
  if (refusal) return { state: 'refused', error: refusal };
  if (isMomentary(status) || message === IN_PROGRESS) return again(answer, true);
  if (message.startsWith(TOO_EARLY)) return again(answer, false);
  if (status !== 402 && !message.startsWith(NAME_TAKEN)) return refused(answer, message, asked);
  return finalOf(answer, message, asked) ?? again(answer, true);
}

/** The names in the answers of one call so far. An answer with another key comes from another service, to which a gateway sent the request. */
export function withRefundKeyOf(answer: Answer, asked: AskedRefund): AskedRefund {
  const refundKey = hasOwnHeader(answer.headers) ? refundKeyOf(answer, asked.refundKey) : undefined;
  return { ...asked, ...withKeyOf(answer, asked), refundKey: refundKey ?? asked.refundKey };
}

function refundedIn(answer: Answer, key: string): Refunded | undefined {
  const sentence = jsonOf(answer);
  const [, first, transactionId] = (typeof sentence === 'string' && REFUNDED.exec(sentence)) || [];
  return transactionId === undefined
    ? undefined
    : { state: 'refunded', transactionId, replayed: first === undefined, key };
}

/** A refund has no reference of its own, so it must name the payment, if the key of the payment is known. */
function pendingOf(answer: Answer, asked: AskedRefund, key: string): PendingRefund | undefined {
  const refund = pendingIn(answer, key);
  if (refund?.refund?.name !== asked.refundName) return undefined;
  const payment = (keyOfAnswer(answer, asked) ?? asked.key)?.toLowerCase();
  if (payment !== undefined && refund.refund.payment !== payment) return undefined;
  const retryAfterSeconds = retryAfterMs(answer.headers) / 1000 || undefined;
  return { state: 'pending', until: refund.pending.until, retryAfterSeconds, key };
}

/** A refusal that the row of the refund gives. Undefined if a gateway removed one of the two keys. */
function finalOf(answer: Answer, message: string, asked: AskedRefund) {
  const key = keyOfAnswer(answer, asked);
  if (key === undefined || asked.refundKey === undefined) return undefined;
  const [named, details] = [{ ...asked, key }, detailsOf(answer)];
  const error =
    answer.status === 402
      ? new DeclinedError(message, message.slice(DECLINED.length), named, details)
      : new MismatchError(message, named, details);
  return { state: 'final', error } as const;
}

function notRefunded(answer: Answer, message: string, asked: AskedRefund): NotRefundedError | undefined {
  const details = detailsOf(answer);
  const [, left, of] = TOO_MUCH.exec(message) ?? [];
  if (left !== undefined) return new NotRefundedError(message, 'too-much', asked, { left, currency: of }, details);
  const [, currency] = OTHER_CURRENCY.exec(message) ?? [];
  if (currency !== undefined) return new NotRefundedError(message, 'other-currency', asked, { currency }, details);
  const [why] = REASONS.find(([, sentence]) => sentence.test(message)) ?? [];
  return why && new NotRefundedError(message, why, asked, {}, details);
}

function refused(answer: Answer, message: string, asked: AskedRefund) {
  const unread = asked.reference === undefined ? undefined : unreadReference(answer, message);
  if (unread) return { state: 'refused', error: unread } as const;
  const ofAnotherClient = refusedAttempt(answer, message, { ...asked, key: asked.key ?? '' });
  if (ofAnotherClient?.error instanceof InvalidRequestError) return ofAnotherClient;
  const state = isAboutContent(answer.status, message) ? 'final' : 'refused';
  return { state, error: refusalOf(answer) } as const;
}
