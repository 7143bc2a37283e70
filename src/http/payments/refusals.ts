import type { FastifyError } from 'fastify';
import type { PayAnswer, RefusedTurn } from '../../payments/answers.js';
import type { CancelAnswer } from '../../payments/cancel.js';
import { type NamedBy, publicErrors } from '../errors/catalogue.js';
import { publicErrorOf } from '../errors/error-answers.js';
import type { PublicError } from '../errors/public-error.js';
import type { PaymentOutcome } from '../requests/measures.js';

type State = PayAnswer['state'];

interface Row<Answer> {
  /** In `idempay_payments_total` (rule O2). */
  readonly countedAs: PaymentOutcome | ((answer: Answer) => PaymentOutcome);
  /** The refusal of the request. For an answer that has an outcome: if the payment was declined. */
  readonly refusal: (answer: Answer, by: NamedBy) => PublicError;
}

/** Most payments take less. */
const UNDER_WAY_RETRY_SECONDS = 1;

/** The refusal of a request to pay, and how its answer is counted, by the state of the answer. */
const ANSWERS: { readonly [Name in State]: Row<PayAnswer & { readonly state: Name }> } = {
  processed: {
    countedAs: ({ final }) => (final.outcome.state === 'DECLINED' ? 'declined' : 'processed'),
    refusal: declineOf,
  },
  replayed: { countedAs: 'replayed', refusal: declineOf },
  'in progress': {
    countedAs: 'in_progress',
    refusal: ({ retryAfterSeconds }) => publicErrors.paymentInProgress(retryAfterSeconds),
  },
  busy: {
    countedAs: 'refused_for_load',
    refusal: ({ retryAfterSeconds }, by) => publicErrors.tooManyPayments(retryAfterSeconds, by),
  },
  'invalid key': { countedAs: 'invalid_key', refusal: () => publicErrors.invalidIdempotencyKey() },
  'invalid content': { countedAs: 'refused', refusal: ({ problem }) => publicErrors.invalidBody(problem) },
  mismatch: { countedAs: 'mismatch', refusal: () => publicErrors.paymentMismatch() },
  'reference mismatch': { countedAs: 'mismatch', refusal: () => publicErrors.referenceMismatch() },
  cancelled: { countedAs: 'cancelled', refusal: () => publicErrors.paymentCancelled() },
  'charged after cancellation': { countedAs: 'cancelled', refusal: () => publicErrors.chargedAfterCancellation() },
  'not its turn': { countedAs: 'out_of_turn', refusal: outOfTurn },
  superseded: {
    countedAs: 'out_of_turn',
    refusal: ({ attempt, newest }) =>
      publicErrors.attemptSuperseded(attempt, { ...newest, attempt: newest.attempt ?? attempt }),
  },
  'superseded at processor': {
    countedAs: 'out_of_turn',
    refusal: ({ attempt, by }) => publicErrors.attemptSuperseded(attempt, { attempt: by }),
  },
  'too soon': {
    countedAs: 'unavailable',
    refusal: ({ retryAfterSeconds }) => publicErrors.rowsLost(retryAfterSeconds),
  },
  'other processor before loss': {
    countedAs: 'unavailable',
    refusal: () => publicErrors.otherProcessorBeforeLoss(),
  },
  /**
   * The answer is word for word the answer to an unknown payment, so a caller that does not know pending payments meets nothing new (rule
   * P24).
   */
  pending: { countedAs: 'pending', refusal: (_answer, by) => publicErrors.paymentOutcomeUnknown(by) },
  'pending without answer': { countedAs: 'pending', refusal: (_answer, by) => publicErrors.paymentOutcomeUnknown(by) },
  'not sent': { countedAs: 'not_sent', refusal: (_answer, by) => publicErrors.paymentNotSent(by) },
  unknown: { countedAs: 'unknown', refusal: (_answer, by) => publicErrors.paymentOutcomeUnknown(by) },
};

/** The refusal of a request to pay, or to issue the key of a reference. */
export function refusalOf(answer: PayAnswer, by: NamedBy): PublicError {
  return rowOf(answer).refusal(answer, by);
}

/**
 * The refusal of a cancellation: the same as for a payment, if a payment can have the answer. `attempt` belongs to the reference, if one
 * was named.
 */
export function cancelRefusalOf(
  answer: Exclude<CancelAnswer, { state: 'cancelled' }>,
  attempt: number | undefined,
): PublicError {
  switch (answer.state) {
    case 'completed':
      return publicErrors.cancelledTooLate(answer.transactionId);
    case 'declined':
      return publicErrors.cancelledAfterDecline(attempt);
    case 'charged before':
      return publicErrors.cancelledAtProcessor();
    case 'cannot be ended':
      return publicErrors.cannotBeEnded();
    case 'nothing to end':
      return publicErrors.nothingToEnd(attempt ?? 1);
    default:
      return refusalOf(answer, attempt === undefined ? 'key' : 'reference');
  }
}

/** How an answer of the payment area is counted. */
export function countedAs(answer: PayAnswer): PaymentOutcome {
  const { countedAs: counted } = rowOf(answer);
  return typeof counted === 'string' ? counted : counted(answer);
}

/** How a request is counted that ended in an exception. */
export function faultCountedAs(fault: Error): PaymentOutcome {
  const { status, problem } = publicErrorOf(fault as FastifyError);
  if (problem.countedAs === 'bodies') return 'refused_for_load';
  if (status === 503) return 'unavailable';
  return status === 500 ? 'error' : 'refused';
}

/** The row of a state takes every answer of this state, which the compiler does not see through the index. */
function rowOf({ state }: PayAnswer): Row<PayAnswer> {
  return ANSWERS[state] as Row<never> as Row<PayAnswer>;
}

function declineOf({ final, attempt }: PayAnswer & { readonly state: 'processed' | 'replayed' }): PublicError {
  const reason = final.outcome.state === 'DECLINED' ? final.outcome.reason : '';
  return attempt === undefined ? publicErrors.paymentDeclined(reason) : publicErrors.attemptDeclined(reason, attempt);
}

function outOfTurn({ attempt, previous }: RefusedTurn): PublicError {
  switch (previous) {
    case 'under way':
      return publicErrors.attemptBeforeUnderWay(attempt, UNDER_WAY_RETRY_SECONDS);
    case 'pending':
      return publicErrors.attemptBeforePending(attempt);
    default:
      return publicErrors.attemptOutOfTurn(attempt, previous);
  }
}
