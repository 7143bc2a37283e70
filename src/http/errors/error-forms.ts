import type { Charge } from '../../payments/history/charge.js';
import { PROBLEM_TYPE, prefersProblem } from '../requests/accept.js';
import { PROBLEMS, problemTypeOf } from './problems.js';
import { errorBody, type PublicError } from './public-errors.js';

export interface ErrorForm {
  readonly contentType: string;
  readonly text: string;
}

/**
 * An error in the form that the request asks for with `Accept`: RFC 9457 where it prefers that (rule P20), else the body of spec 2.5.
 * `charge` is given for an error of a payment. No error may be kept by a cache, so none needs `Vary`.
 */
export function formOf(error: PublicError, accept: string | undefined, charge?: Charge): ErrorForm {
  if (!prefersProblem(accept)) {
    const body = errorBody(error.status, error.message);
    return { contentType: 'application/json; charset=utf-8', text: JSON.stringify(body) };
  }
  // RFC 9457 and RFC 6839 name no parameter: it is UTF-8 (RFC 8259 8.1).
  return { contentType: PROBLEM_TYPE, text: JSON.stringify(problemBody(error, charge)) };
}

/** The members of RFC 9457 3.1, and `charge` if the error is of a payment. */
export function problemBody(error: PublicError, charge?: Charge) {
  const { title } = PROBLEMS[error.problem];
  const { status, message: detail } = error;
  return { type: problemTypeOf(error.problem), title, status, detail, ...(charge && { charge }) };
}
