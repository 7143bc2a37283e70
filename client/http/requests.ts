import { type IdempayError, UnavailableError } from '../errors.js';
import { positive, type Settings } from '../settings.js';
import { again, isMomentary, isSuccess, refusalOf } from './answers.js';
import { type Call, type CallOptions, within } from './call.js';
import { type GivenUp, repeat } from './repeat.js';
import { textOf } from './streams.js';
import type { Answer, Outgoing, Streaming, Transport } from './transport.js';

/** Requests that may be sent any number of times: reads, and what does the same thing twice. */
export interface Requests {
  /** `read` takes what the answer says, and gives undefined for an answer that is not whole. Other statuses reject. */
  send<T>(options: CallOptions, request: Outgoing, read: (answer: Answer) => T | undefined): Promise<T>;
  sendWithin<T>(call: Call, request: Outgoing, read: (answer: Answer) => T | undefined): Promise<T>;
  /** The text of a 200 as it comes; the deadline is that of its head. Only what comes before is repeated. */
  open(options: CallOptions, request: Outgoing): AsyncGenerator<string>;
  /** One call with a deadline; that of the client where the options name none. */
  within<T>(options: CallOptions, work: (call: Call) => Promise<T>): Promise<T>;
}

export function createRequests(transport: Transport, settings: Settings): Requests {
  const { clock, deadlineMs: usualMs } = settings;

  async function sendWithin<T>(call: Call, request: Outgoing, read: (answer: Answer) => T | undefined): Promise<T> {
    const end = await repeat<T | IdempayError>(settings, call, async () => {
      const result = await transport.send(call, request);
      if (result.state === 'lost' || isMomentary(result.status)) return again(result);
      if (!isSuccess(result.status) && result.status !== 304) return { state: 'done', value: refusalOf(result) };
      const value = read(result);
      return value === undefined ? again(result) : { state: 'done', value };
    });
    if (end.state === 'given up') throw unavailable(call, end);
    if (end.value instanceof Error) throw end.value;
    return end.value;
  }

  async function opened(call: Call, request: Outgoing): Promise<Streaming> {
    const end = await repeat<Streaming | IdempayError>(settings, call, async () => {
      const result = await transport.open(call, request);
      if (result.state === 'streaming') return { state: 'done', value: result };
      if (result.state === 'lost' || isMomentary(result.status)) return again(result);
      return { state: 'done', value: refusalOf(result) };
    });
    if (end.state === 'given up') throw unavailable(call, end);
    if (end.value instanceof Error) throw end.value;
    return end.value;
  }

  async function* open(options: CallOptions, request: Outgoing): AsyncGenerator<string> {
    const streaming = await within_(options, (call) => opened(call, request));
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

/** The call has ended, and it is known that nothing was done. */
export function unavailable(call: Call, { last }: Pick<GivenUp, 'last'>): UnavailableError {
  const why = call.wasAborted() ? 'Aborted by the caller' : 'Not within the deadline';
  const after = last ? `. The last attempt: ${last.message}` : ', before anything was sent.';
  const { status, requestId } = last ?? {};
  const seconds = last instanceof UnavailableError ? last.retryAfterSeconds : undefined;
  return new UnavailableError(`${why}${after}`, seconds, { status, requestId, cause: last ?? call.signal.reason });
}
