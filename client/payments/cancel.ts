import { type IdempayError, InvalidRequestError, UnknownChangeError } from '../errors.js';
import { causedBy } from '../http/answers.js';
import type { Call, CallOptions } from '../http/call.js';
import { type GivenUp, whyGivenUp } from '../http/repeat.js';
import { type Requests, unavailable } from '../http/requests.js';
import type { Outgoing, Transport } from '../http/transport.js';
import { refuseUnknown } from '../refuse-unknown.js';
import type { Settings } from '../settings.js';
import { repeatAttempts } from './attempts.js';
import { KEY } from './idempotency-keys.js';
import { readCancelAnswer } from './payment-answers.js';
import {
  type AskedPayment,
  askedReference,
  namesReference,
  type OperatedReference,
  REFERENCE_MEMBERS,
  referenceQuery,
  withKeyOf,
} from './references.js';

/** The target of a cancellation: an attempt at a reference, or the payment of a key. */
export type CancelTarget =
  | CancelledReference
  | { readonly key: string; readonly reference?: never; readonly only?: never };

export interface CancelledReference extends OperatedReference {
  /** Ends this attempt only, so that the next one may follow: the payer takes another card. If omitted, the order is closed. */
  readonly only?: 'attempt' | undefined;
}

export interface CancelResult {
  readonly key: string;
  /** For operators: the client that had the reference. Undefined for every other caller, and for a key. */
  readonly client?: string | undefined;
}

const KEY_MEMBER = new Set(['key']);
const CANCELLED_MEMBERS = new Set([...REFERENCE_MEMBERS, 'only']);

/** Closes a payment that is not to be made. Repeated like a payment: it is cancelled once, or paid, and never both. */
export class Canceller {
  constructor(
    private readonly settings: Settings,
    private readonly transport: Transport,
    private readonly requests: Requests,
  ) {}

  async cancel(target: CancelTarget, options: CallOptions): Promise<CancelResult> {
    const asked = askedIn(target);
    const request = requestOf(target, asked);
    return this.requests.within(options, async (call) => {
      const end = await repeatAttempts(this.settings, call, {
        asked,
        send: () => this.transport.send(call, request),
        read: readCancelAnswer,
        withKeysOf: withKeyOf,
      });
      const { mayHaveArrived } = end;
      if (end.state === 'given up') throw mayHaveArrived ? unknownAtEnd(call, end) : unavailable(call, end);
      const { value } = end;
      if (value.state === 'cancelled')
        return { key: value.key, ...(value.client !== undefined && { client: value.client }) };
      throw value.state !== 'final' && mayHaveArrived ? refusedAfterwards(value.error) : value.error;
    });
  }
}

function askedIn(target: CancelTarget): AskedPayment {
  if (namesReference(target)) {
    refuseUnknown(target, 'option of cancel', CANCELLED_MEMBERS);
    const { only } = target as CancelledReference;
    if (only !== undefined && only !== 'attempt') throw new InvalidRequestError(INVALID_SCOPE);
    return askedReference(target);
  }
  refuseUnknown(target, 'option of cancel', KEY_MEMBER);
  const { key } = target;
  if (typeof key !== 'string' || !KEY.test(key)) {
    throw new InvalidRequestError("Give the 'reference' of the payment, or its 'key'.");
  }
  return { key };
}

function requestOf(target: CancelTarget, { key, reference, attempt }: AskedPayment): Outgoing {
  const path = '/api/payment-cancellation';
  if (reference === undefined) return { method: 'POST', path, headers: { 'idempotency-key': key as string } };
  const client = 'client' in target ? target.client : undefined;
  const only = 'only' in target && target.only !== undefined ? '&only=attempt' : '';
  return { method: 'POST', path: `${path}?${referenceQuery(reference, attempt, client)}${only}` };
}

/** The service's own sentence. */
const INVALID_SCOPE = "'only' must be 'attempt', sent once, or left out.";

const UNKNOWN = 'It is not known whether the payment was cancelled';
const AGAIN = 'Cancel the same again: it is cancelled once, or paid, and never both.';

function refusedAfterwards(cause: IdempayError): UnknownChangeError {
  return new UnknownChangeError(`${UNKNOWN}. ${AGAIN} ${cause.message}`, undefined, causedBy(cause));
}

function unknownAtEnd(call: Call, end: GivenUp): UnknownChangeError {
  const { last } = end;
  const tail = last ? ` The last attempt: ${last.message}` : '';
  return new UnknownChangeError(
    `${UNKNOWN}: ${whyGivenUp(call, end)}. ${AGAIN}${tail}`,
    undefined,
    causedBy(last, call.signal.reason),
  );
}
