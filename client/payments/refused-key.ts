import {
  CancelledError,
  DeadKeyError,
  DeclinedError,
  type IdempayError,
  NotAuthorizedError,
  UnknownOutcomeError,
  UnusedKeyError,
} from '../errors.js';
import { causedBy } from '../http/answers.js';
import type { Call } from '../http/call.js';
import type { Requests } from '../http/requests.js';
import type { Payment } from '../representations.js';
import type { PaidMoney } from './money.js';
import { type LookUpResult, lookUp } from './payment-records.js';

/** A paid payment. `money`: the paid money, if it is known from its record. */
export interface Settled {
  readonly transactionId: string;
  readonly replayed: boolean;
  readonly key: string;
  readonly attempts: number;
  readonly money?: PaidMoney;
}

/**
 * The service refuses the key. Another one could charge twice, also if only one attempt was made with it: a proxy may have sent it twice,
 * and a failover may have lost the first one's result. The record may know.
 */
export async function outcomeOfRefusedKey(
  requests: Requests,
  call: Call,
  { key, attempts, refusal }: { key: string; attempts: number; refusal: IdempayError },
): Promise<Settled> {
  type Kind = typeof UnknownOutcomeError | typeof DeadKeyError;
  function unclear(kind: Kind, what: string, record?: Payment | null, cause = refusal): UnknownOutcomeError {
    return new kind(`${what}. ${cause.message}`, { key }, attempts, record, causedBy(cause));
  }

  let found: LookUpResult;
  try {
    found = await lookUp(requests, call, key);
  } catch (fault) {
    // Without the scope it cannot be read later either.
    const isForbidden = fault instanceof NotAuthorizedError && fault.status === 403;
    throw unclear(isForbidden ? DeadKeyError : UnknownOutcomeError, UNREADABLE, undefined, fault as IdempayError);
  }
  const details = causedBy(refusal);
  if (found.state === 'absent') {
    throw found.isCertain ? new UnusedKeyError(UNUSED, { key }, details) : unclear(DeadKeyError, NO_RECORD, null);
  }
  const { payment } = found;
  const { transactionId, amount, currency } = payment;
  const named = { key, reference: payment.reference ?? undefined, attempt: payment.attempt ?? undefined };
  switch (payment.state) {
    case 'COMPLETED':
      if (transactionId === null) break;
      return { transactionId, replayed: true, key, attempts, money: { amount, currency } };
    case 'DECLINED': {
      const reason = payment.reason ?? '';
      throw new DeclinedError(`Payment declined: ${reason}`, reason, named, details);
    }
    case 'CANCELLED':
      throw new CancelledError(CANCELLED, named, details);
    // Issued, and refused all the same: the service takes no payment with it any more, after a restore for example.
    case 'PENDING':
      throw unclear(DeadKeyError, UNPAID, payment);
  }
  throw unclear(UnknownOutcomeError, UNDECIDED, payment);
}

const CANCELLED = 'The payment was cancelled. No charge will be sent for it.';
const LOOK = 'An attempt may have been charged all the same: look for the key at the processor before you pay again';
const UNREADABLE = `The service refuses the key (expired or lost), and its record cannot be read. ${LOOK}`;
const UNDECIDED =
  'It is not known whether the payment was charged: the service refuses the key, and its record is not final';
const UNPAID = `The service takes no payment with the key any more, and has none for it. ${LOOK}`;
const NO_RECORD = `The service refuses the key (expired or lost) and has no payment for it. ${LOOK}`;
const UNUSED =
  'The key has expired, and the service is certain that nothing was charged with it. Call pay: it takes a new key.';
