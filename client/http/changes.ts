import { type IdempayError, MismatchError, UnknownChangeError } from '../errors.js';
import type { Settings } from '../settings.js';
import { again, causedBy, detailsOf, failureOf, isAboutContent, isMomentary, refusalOf } from './answers.js';
import type { Call, CallOptions } from './call.js';
import { provenMessageOf } from './proof.js';
import { type GivenUp, repeat, whyGivenUp } from './repeat.js';
import { type Read, type Requests, unavailable } from './requests.js';
import type { Answer, Lost, Outgoing, Transport } from './transport.js';

export interface Change<T> {
  readonly request: Outgoing;
  /** `once`: a second send may carry it out twice. `repeatable`: a second send has no further effect. */
  readonly kind: 'once' | 'repeatable';
  /** The client's own key, if it makes the request repeatable. */
  readonly idempotencyKey?: string | undefined;
  /** The result; undefined for every answer that does not prove that it was done. */
  readonly read: Read<T>;
  /** The meaning of a refusal after an attempt that may have been carried out. Returns undefined if that is not known. */
  readonly afterwards: (refusal: IdempayError) => T | IdempayError | undefined;
}

export type Changes = <T>(options: CallOptions, change: Change<T>) => Promise<T>;

/** Writes, each sent again only if that is safe. An answer that is not surely the service's own proves nothing (rule P23). */
export function createChanges(settings: Settings, transport: Transport, requests: Requests): Changes {
  const { clock, keyLifeMs } = settings;
  return <T>(options: CallOptions, change: Change<T>) =>
    requests.within(options, async (call) => {
      const { request, idempotencyKey } = change;
      let mayBeDone = false;
      // With a key that the service has forgotten, a repeat creates again, and the answer does not show it.
      const keyEndsAt = idempotencyKey === undefined ? Number.POSITIVE_INFINITY : clock.now() + keyLifeMs;
      const end = await repeat<T | IdempayError>(settings, call, async () => {
        if (mayBeDone && clock.now() >= keyEndsAt) return { state: 'done', value: keyEnded(idempotencyKey) };
        const result = await transport.send(call, request);
        if (didNothing(result)) return again(result);
        const value = meaningOf(change, result, mayBeDone);
        if (value !== undefined) return { state: 'done', value };
        mayBeDone = true;
        return again(result);
      });
      if (end.state === 'given up') throw mayBeDone ? unknownAtEnd(idempotencyKey, call, end) : unavailable(call, end);
      if (end.value instanceof Error) throw end.value;
      return end.value;
    });
}

/** The result that is known after this attempt; undefined if another one may tell. `mayBeDone`: by an earlier one. */
function meaningOf<T>(change: Change<T>, result: Answer | Lost, mayBeDone: boolean): T | IdempayError | undefined {
  if (result.state === 'answered') {
    const value = change.read(result) ?? refusedBy(change, result, mayBeDone);
    if (value !== undefined) return value;
  }
  return change.kind === 'once' ? unknown(change.idempotencyKey, failureOf(result)) : undefined;
}

/** Undefined for an answer that may be another one next time, or proves nothing. */
function refusedBy<T>(change: Change<T>, answer: Answer, mayBeDone: boolean): T | IdempayError | undefined {
  const { idempotencyKey, afterwards } = change;
  const { status } = answer;
  const message = provenMessageOf(answer);
  if (message === undefined || isMomentary(status)) return undefined;
  if (status === 422 && idempotencyKey !== undefined) {
    return new MismatchError(message, { key: idempotencyKey }, detailsOf(answer));
  }
  const refusal = refusalOf(answer);
  if (!mayBeDone || isAboutContent(status, message)) return refusal;
  return afterwards(refusal) ?? unknown(idempotencyKey, refusal);
}

const UNKNOWN = 'It is not known whether the change was made';

function unknown(idempotencyKey: string | undefined, cause: IdempayError): UnknownChangeError {
  return new UnknownChangeError(`${UNKNOWN}. ${cause.message}`, idempotencyKey, causedBy(cause));
}

function keyEnded(idempotencyKey: string | undefined): UnknownChangeError {
  const message = `${UNKNOWN}, and the service may forget the key before another attempt arrives (keyLifeMs). Look before you repeat it.`;
  return new UnknownChangeError(message, idempotencyKey, {});
}

function unknownAtEnd(idempotencyKey: string | undefined, call: Call, end: GivenUp): UnknownChangeError {
  const { last } = end;
  const tail = last ? ` The last attempt: ${last.message}` : '';
  return new UnknownChangeError(
    `${UNKNOWN}: ${whyGivenUp(call, end)}.${tail}`,
    idempotencyKey,
    causedBy(last, call.signal.reason),
  );
}

/** True if this attempt was certainly not carried out, and another one may be: the service's own 429, or its 503 that says so. */
function didNothing(result: Answer | Lost): boolean {
  if (result.state === 'lost') return !result.mayHaveArrived;
  return (result.status === 429 || result.status === 503) && provenMessageOf(result) !== undefined;
}
