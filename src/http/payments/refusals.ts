import type { PayAnswer, RefusedTurn } from '../../payments/answers.js';
import type { CancelAnswer } from '../../payments/cancel.js';
import { type NamedBy, type PublicError, publicErrors } from '../errors/public-errors.js';

/** Most payments take less. */
const UNDER_WAY_RETRY_SECONDS = 1;

/** What a request to pay, or to issue the key of a reference, is refused with. */
export function refusalOf(answer: PayAnswer, by: NamedBy): PublicError {
  switch (answer.state) {
    case 'processed':
    case 'replayed':
      return declineOf(answer);
    case 'in progress':
      return publicErrors.paymentInProgress(answer.retryAfterSeconds);
    case 'busy':
      return publicErrors.tooManyPayments(answer.retryAfterSeconds, by);
    case 'invalid key':
      return publicErrors.invalidIdempotencyKey();
    case 'invalid content':
      return publicErrors.invalidBody(answer.problem);
    case 'mismatch':
      return publicErrors.paymentMismatch();
    case 'reference mismatch':
      return publicErrors.referenceMismatch();
    case 'cancelled':
      return publicErrors.paymentCancelled();
    case 'charged after cancellation':
      return publicErrors.chargedAfterCancellation();
    case 'not its turn':
      return outOfTurn(answer);
    case 'superseded':
      return publicErrors.attemptSuperseded(answer.attempt, {
        ...answer.newest,
        attempt: answer.newest.attempt ?? answer.attempt,
      });
    case 'superseded at processor':
      return publicErrors.attemptSuperseded(answer.attempt, { attempt: answer.by });
    case 'too soon':
      return publicErrors.rowsLost(answer.retryAfterSeconds);
    case 'other processor before loss':
      return publicErrors.otherProcessorBeforeLoss();
    case 'not sent':
      return publicErrors.paymentNotSent(by);
    case 'unknown':
      return publicErrors.paymentOutcomeUnknown(by);
  }
}

/** What a cancellation is refused with. `attempt` is that of the reference, where one was named. */
export function cancelRefusalOf(
  answer: Exclude<CancelAnswer, { state: 'cancelled' }>,
  attempt: number | undefined,
): PublicError {
  switch (answer.state) {
    case 'completed':
      return publicErrors.cancelledTooLate(answer.transactionId);
    case 'declined':
      return publicErrors.cancelledAfterDecline(attempt);
    case 'in progress':
      return publicErrors.paymentInProgress(answer.retryAfterSeconds);
    case 'invalid key':
      return publicErrors.invalidIdempotencyKey();
    case 'not its turn':
      return outOfTurn(answer);
    case 'too soon':
      return publicErrors.rowsLost(answer.retryAfterSeconds);
    case 'other processor before loss':
      return publicErrors.otherProcessorBeforeLoss();
    case 'superseded at processor':
      return publicErrors.attemptSuperseded(answer.attempt, { attempt: answer.by });
    case 'charged before':
      return publicErrors.cancelledAtProcessor();
    case 'unknown':
      return publicErrors.paymentOutcomeUnknown(attempt === undefined ? 'key' : 'reference');
  }
}

function declineOf({ final, attempt }: Extract<PayAnswer, { state: 'processed' | 'replayed' }>): PublicError {
  const reason = final.outcome.state === 'DECLINED' ? final.outcome.reason : '';
  return attempt === undefined ? publicErrors.paymentDeclined(reason) : publicErrors.attemptDeclined(reason, attempt);
}

function outOfTurn({ attempt, previous }: RefusedTurn): PublicError {
  return previous === 'under way'
    ? publicErrors.attemptBeforeUnderWay(attempt, UNDER_WAY_RETRY_SECONDS)
    : publicErrors.attemptOutOfTurn(attempt, previous);
}
