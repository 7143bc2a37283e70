import type { Http } from '../http/http.js';
import { type Asked, useAnswer } from '../parts/use-answer.js';
import type { Payment } from './payment.js';

/** More than one client can have: besides the payment that is shown it has at most 98 attempts. */
const MOST = 100;

/**
 * The other payments at the same reference, in their order. Asked again when this payment changes its state. Unknown while the payment
 * is: an empty answer would be kept while the others are asked for, and would say that there are none.
 */
export function useOtherAttempts(http: Http, payment: Payment | undefined): Asked<readonly Payment[]> {
  const { reference = null, idempotencyKey, state } = payment ?? {};
  return useAnswer(
    async (signal) => {
      if (state === undefined) return undefined;
      if (reference === null) return [];
      const query = { reference, limit: MOST };
      const { body } = await http.ask<Payment[]>('api/payments', { query, signal });
      return body
        .filter((other) => other.idempotencyKey !== idempotencyKey)
        .sort((one, other) => (one.attempt ?? 0) - (other.attempt ?? 0));
    },
    [http, reference, state],
  );
}
