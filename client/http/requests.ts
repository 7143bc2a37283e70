import { type IdempayError, UnavailableError, UnexpectedAnswerError } from '../errors.js';
import { positive, type Settings } from '../settings.js';
import { again, causedBy, detailsOf, foreign, isMomentary, refusalOf } from './answers.js';
import { type Call, type CallOptions, within } from './call.js';
import { isOfType, messageOf, parsed } from './proof.js';
import { type Again, type Done, type GivenUp, repeat } from './repeat.js';
import { textOf } from './streams.js';
import type { Answer, Outgoing, Streaming, Transport } from './transport.js';

/** The value in an answer; undefined if it is not the one that was asked for. */
export type Read<T> = (answer: Answer) => T | undefined;

/** Requests that change nothing, and may be sent any number of times. */
export interface Requests {
  /**
   * Rejects for every answer that `read` does not take. A request that is given as a function is made anew for each attempt: `read` may
   * drop what a conditional one was made with.
   */
  send<T>(options: CallOptions, request: Outgoing | (() => Outgoing), read: Read<T>): Promise<T>;
  sendWithin<T>(call: Call, request: Outgoing | (() => Outgoing), read: Read<T>): Promise<T>;
  /** The text of a 200 of this type as it comes; the deadline ends with its head. Only the part before is repeated. */
  open(options: CallOptions, request: Outgoing, type: MediaType): AsyncGenerator<string>;
  /** One call with a deadline, which is the client's if the options name none. */
  within<T>(options: CallOptions, work: (call: Call) => Promise<T>): Promise<T>;
}

type MediaType = Parameters<typeof isOfType>[1];

export function createRequests(transport: Transport, settings: Settings): Requests {
  const { clock, canRefresh, deadlineMs: usualMs } = settings;

  async function sendWithin<T>(call: Call, request: Outgoing | (() => Outgoing), read: Read<T>): Promise<T> {
    const retried = retries();
    return outcomeOf(
      call,
      await repeat<T | IdempayError>(settings, call, async () => {
        const result = await transport.send(call, typeof request === 'function' ? request() : request);
        if (result.state === 'lost') return again(result);
        const value = read(result);
        if (value !== undefined) return { state: 'done', value };
        // Half of an answer, or a 304 for a value that is not remembered any more.
        const isPart = result.status === 200 && isOfType(result.headers, 'application/json') && !parsed(result.text);
        return isPart || result.status === 304 ? unexpectedAgain(result) : retried(result);
      }),
    );
  }

  async function opened(call: Call, request: Outgoing, type: MediaType): Promise<Streaming> {
    const retried = retries();
    return outcomeOf(
      call,
      await repeat<Streaming | IdempayError>(settings, call, async () => {
        const result = await transport.open(call, request);
        if (result.state === 'lost') return again(result);
        if (result.state === 'answered') return retried(result);
        if (isOfType(result.headers, type)) return { state: 'done', value: result };
        result.connection.abort();
        const details = detailsOf({ status: 200, headers: result.headers, text: '' });
        return { state: 'done', value: new UnexpectedAnswerError(foreign({ status: 200 }), details) };
      }),
    );
  }

  /** The next step after an answer that is not the one that was asked for, in one call. */
  function retries(): (answer: Answer) => Done<IdempayError> | Again {
    let mayRefresh = canRefresh;
    return (answer) => {
      if (isMomentary(answer.status)) return again(answer);
      // A gateway that checks tokens itself: the next attempt has another one.
      if (mayRefresh && answer.status === 401 && messageOf(answer) === undefined) {
        mayRefresh = false;
        return unexpectedAgain(answer);
      }
      return { state: 'done', value: refusalOf(answer) };
    };
  }

  async function* open(options: CallOptions, request: Outgoing, type: MediaType): AsyncGenerator<string> {
    const streaming = await within_(options, (call) => opened(call, request, type));
    yield* textOf(streaming, clock, options.signal);
  }

  const within_ = <T>({ signal, deadlineMs = usualMs }: CallOptions, work: (call: Call) => Promise<T>) =>
    within(clock, { signal, deadlineMs: positive('deadlineMs', deadlineMs) }, work);

  return {
    sendWithin,
    open,
    send: (options, request, read) => within_(options, (call) => sendWithin(call, request, read)),
    within: within_,
  };
}

function unexpectedAgain(answer: Answer): Again {
  return { ...again(answer), error: new UnexpectedAnswerError(foreign(answer), detailsOf(answer)) };
}

function outcomeOf<T>(call: Call, end: Done<T | IdempayError> | GivenUp): T {
  if (end.state === 'given up') throw end.last instanceof UnexpectedAnswerError ? end.last : unavailable(call, end);
  if (end.value instanceof Error) throw end.value;
  return end.value;
}

/** The call has ended, and it is known that nothing was done. */
export function unavailable(call: Call, { last, isFutile }: Pick<GivenUp, 'last' | 'isFutile'>): UnavailableError {
  if (isFutile && last) return new UnavailableError(last.message, undefined, causedBy(last));
  const why = call.wasAborted() ? 'Aborted by the caller' : 'Not within the deadline';
  const after = last ? `. The last attempt: ${last.message}` : ', before anything was sent.';
  const seconds = last instanceof UnavailableError ? last.retryAfterSeconds : undefined;
  return new UnavailableError(`${why}${after}`, seconds, causedBy(last, call.signal.reason));
}
