import {
  type IdempayError,
  InvalidRequestError,
  MismatchError,
  NotCancelledError,
  OutOfTurnError,
  type PaymentName,
} from '../errors.js';
import { detailsOf } from '../http/answers.js';
import type { Answer } from '../http/transport.js';

/** The reason, on each 422 and some 409 about a reference or a cancellation. */
const ATTEMPT_STATE_HEADER = 'idempay-attempt-state';

export interface RefusedAttempt {
  /** `refused`: it says nothing about requests before this one, because rows that were lost would be answered so too. */
  readonly state: 'final' | 'refused';
  readonly error: IdempayError;
}

/** The meaning of a 422 or a 409 of the service; undefined if it does not say why, for example because a gateway removed the header. */
export function refusedAttempt(answer: Answer, message: string, payment: PaymentName): RefusedAttempt | undefined {
  const why = answer.headers.get(ATTEMPT_STATE_HEADER)?.trim();
  const details = detailsOf(answer);
  switch (why) {
    case 'previous-absent':
    case 'previous-pending':
    case 'previous-too-old':
      return { state: 'refused', error: new OutOfTurnError(message, why, payment, details) };
    case 'previous-completed':
    case 'previous-cancelled':
    case 'superseded':
      return { state: 'final', error: new OutOfTurnError(message, why, payment, details) };
    case 'mismatch':
      return { state: 'final', error: new MismatchError(message, payment, details) };
    case 'completed':
    case 'declined':
    case 'outcome-at-processor':
      return { state: 'final', error: new NotCancelledError(message, why, payment, details) };
    // The payment is as before, and the next cancellation may find it changed.
    case 'not-begun':
    case 'cannot-be-ended':
      return { state: 'refused', error: new NotCancelledError(message, why, payment, details) };
    case 'other-client':
      return { state: 'refused', error: new InvalidRequestError(message, details) };
    default:
      return undefined;
  }
}
