import type { FastifyError } from 'fastify';
import type { PayAnswer } from '../../payments/answers.js';
import { publicErrorOf } from '../errors/errors.js';
import { CountedError } from '../errors/public-errors.js';
import type { PaymentOutcome } from '../requests/measures.js';

/** How an answer of the payment area is counted. */
export function countedAs(answer: PayAnswer): PaymentOutcome {
  switch (answer.state) {
    case 'processed':
      return answer.final.outcome.state === 'DECLINED' ? 'declined' : 'processed';
    case 'in progress':
      return 'in_progress';
    case 'invalid key':
      return 'invalid_key';
    case 'invalid content':
      return 'refused';
    case 'busy':
      return 'refused_for_load';
    case 'reference mismatch':
      return 'mismatch';
    case 'charged after cancellation':
      return 'cancelled';
    case 'not its turn':
    case 'superseded':
    case 'superseded at processor':
      return 'out_of_turn';
    case 'too soon':
    case 'other processor before loss':
      return 'unavailable';
    case 'not sent':
      return 'not_sent';
    default:
      return answer.state;
  }
}

/** How a request is counted that ended in an exception. */
export function faultCountedAs(fault: Error): PaymentOutcome {
  const error = publicErrorOf(fault as FastifyError);
  const { status } = error;
  if (error instanceof CountedError && error.reason === 'bodies') return 'refused_for_load';
  if (status === 503) return 'unavailable';
  return status === 500 ? 'error' : 'refused';
}
