import { type IdempayError, MismatchError, UnknownChangeError } from '../errors.js';
import {
  again,
  detailsOf,
  failureOf,
  isAboutContent,
  isMomentary,
  isSuccess,
  messageOf,
  refusalOf,
} from '../http/answers.js';
import type { Call, CallOptions } from '../http/call.js';
import { type GivenUp, repeat } from '../http/repeat.js';
import { type Requests, unavailable } from '../http/requests.js';
import type { Answer, Lost, Outgoing, Transport } from '../http/transport.js';
import type { Settings } from '../settings.js';

export interface Change<T> {
  readonly request: Outgoing;
  /** `once`: a second send may carry it out twice. `repeatable`: a second send has no further effect. */
  readonly kind: 'once' | 'repeatable';
  /** The client's own key, where it makes the request repeatable. */
  readonly idempotencyKey?: string | undefined;
  /** The result of a 2xx; undefined for half of one. */
  readonly read: (answer: Answer) => T | undefined;
  /** What a refusal means after an attempt that may have been carried out; undefined: that is not known. */
  readonly afterwards: (refusal: IdempayError) => T | IdempayError | undefined;
}

export type Changes = <T>(options: CallOptions, change: Change<T>) => Promise<T>;

/** Writes, each sent again only where that is safe. */
export function createChanges(settings: Settings, transport: Transport, requests: Requests): Changes {
  const { clock, keyLifeMs } = settings;
  return <T>(options: CallOptions, change: Change<T>) => {
    const { request, kind, idempotencyKey, read, afterwards } = change;
    return requests.within(options, async (call) => {
      let mayBeDone = false;
      const isOnce = kind === 'once';
      // With a key that the service has forgotten, a repeat creates again, and the answer does not show it.
      const keyEndsAt = idempotencyKey === undefined ? Number.POSITIVE_INFINITY : clock.now() + keyLifeMs;
      const end = await repeat<T | IdempayError>(settings, call, async () => {
        if (mayBeDone && clock.now() >= keyEndsAt) return { state: 'done', value: keyEnded() };
        const result = await transport.send(call, request);
        if (didNothing(result, isOnce)) return again(result);
        if (result.state === 'answered' && !isMomentary(result.status)) {
          const value = isSuccess(result.status) ? read(result) : refused(result);
          if (value !== undefined) return { state: 'done', value };
        }
        if (isOnce) return { state: 'done', value: unknown(failureOf(result)) };
        mayBeDone = true;
        return again(result);
      });
      if (end.state === 'given up') throw mayBeDone ? unknownAtEnd(call, end) : unavailable(call, end);
      if (end.value instanceof Error) throw end.value;
      return end.value;

      function refused(answer: Answer): T | IdempayError {
        const message = messageOf(answer);
        if (answer.status === 422 && message !== undefined && idempotencyKey !== undefined) {
          return new MismatchError(message, idempotencyKey, detailsOf(answer));
        }
        const refusal = refusalOf(answer);
        if (!mayBeDone || isAboutContent(answer)) return refusal;
        return afterwards(refusal) ?? unknown(refusal);
      }
    });

    function unknown(cause: IdempayError): UnknownChangeError {
      const { status, requestId, message } = cause;
      return new UnknownChangeError(`${UNKNOWN}. ${message}`, idempotencyKey, { status, requestId, cause });
    }

    function keyEnded(): UnknownChangeError {
      const message = `${UNKNOWN}, and the service may forget the key before another attempt arrives (keyLifeMs). Look before you repeat it.`;
      return new UnknownChangeError(message, idempotencyKey, {});
    }

    function unknownAtEnd(call: Call, { last }: GivenUp): UnknownChangeError {
      const why = call.wasAborted() ? 'the caller aborted' : 'the deadline ended';
      const tail = last ? ` The last attempt: ${last.message}` : '';
      const { status, requestId } = last ?? {};
      const details = { status, requestId, cause: last ?? call.signal.reason };
      return new UnknownChangeError(`${UNKNOWN}: ${why} before an answer.${tail}`, idempotencyKey, details);
    }
  };
}

const UNKNOWN = 'It is not known whether the change was made';

/**
 * Whether the request was certainly not carried out. For a create the service then sends `Retry-After`; a 503 without it has an unknown
 * effect. For a repeatable request no 503 counts, because proxies send them too.
 */
function didNothing(result: Answer | Lost, isOnce: boolean): boolean {
  if (result.state === 'lost') return !result.mayHaveArrived;
  if (result.status === 429) return true;
  return isOnce && result.status === 503 && messageOf(result) !== undefined && result.headers.has('retry-after');
}
