import { StoreUnavailable } from '../platform/faults.js';
import type { Answers, PayAnswer } from './answers.js';
import { fingerprintOf, fingerprintOfRefused, type PaymentRequest } from './values/money.js';
import type { NamedPayment } from './values/reference.js';
import type { Patience, Waiting, WaitingPlace } from './waiting.js';

type Pay = (named: NamedPayment, request: PaymentRequest) => Promise<PayAnswer>;

export type PayPatiently = (named: NamedPayment, request: PaymentRequest, patience: Patience) => Promise<PayAnswer>;

/** Waits instead of answering 'in progress'; where the attempt ended without an outcome, this request begins one. */
export function createPayPatiently(
  waiting: Pick<Waiting, 'enter'>,
  { conflict }: Pick<Answers, 'conflict'>,
  pay: Pay,
): PayPatiently {
  return async function payPatiently(named, request, patience) {
    const first = await pay(named, request);
    if (first.state !== 'in progress') return first;
    const place = waiting.enter(named.key, patience, named.client);
    if (!place) return first;
    try {
      let answer = await payWhenFree(place, first, () => pay(named, request));
      // The last try may be long ago, and the payment may be final since.
      if (answer.state === 'in progress') {
        answer = await conflict(named, 'problem' in request ? fingerprintOfRefused(request) : fingerprintOf(request));
      }
      return { ...answer, waited: true };
    } finally {
      place.leave();
    }
  };
}

/** Tries again each time the attempt has probably ended, until there is an answer or the wait is over. */
async function payWhenFree(
  place: WaitingPlace,
  first: PayAnswer,
  pay: () => Promise<PayAnswer>,
): Promise<PayAnswer> {
  let answer = first;
  let fault: unknown;
  while (answer.state === 'in progress' && (await place.next())) {
    try {
      answer = await pay();
      fault = undefined;
    } catch (thrown) {
      // A store that is down for a moment does not end the wait.
      if (!(thrown instanceof StoreUnavailable)) throw thrown;
      fault = thrown;
    }
  }
  if (fault !== undefined) throw fault;
  return answer;
}
