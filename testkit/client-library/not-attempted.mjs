// Plain JavaScript, because the shop that is killed runs without a build.
import {
  ConflictError,
  InvalidRequestError,
  NotAuthorizedError,
  NotFoundError,
  UnavailableError,
  UnexpectedAnswerError,
  UnusedKeyError,
} from '@idempay/client';

/**
 * Nothing was charged: the service was down, the request for a key was refused, also by a gateway that keeps the service's header, or
 * the service is certain of the key. The checker compares it with the processor's log.
 */
export function isNotAttempted(fault) {
  return [
    UnavailableError,
    UnexpectedAnswerError,
    UnusedKeyError,
    ConflictError,
    InvalidRequestError,
    NotAuthorizedError,
    NotFoundError,
  ].some((kind) => fault instanceof kind);
}
