import { CREDENTIAL, type Settings } from '../settings.js';
import { type Call, onAbort, unlessAborted } from './call.js';
import { ConnectionFault, wasNeverConnected } from './connection-faults.js';
import { provenMessageOf } from './proof.js';

export interface Outgoing {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** With its query, from `/api` on. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** JSON text. */
  readonly body?: string;
}

/** The whole answer of one attempt. */
export interface Answer {
  readonly state: 'answered';
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

/** No answer, or only a part of one. */
export interface Lost {
  readonly state: 'lost';
  /** False: the request surely never reached a server. */
  readonly mayHaveArrived: boolean;
  readonly baseUrl: string;
  readonly cause: unknown;
}

/** A 200 whose body has not been read yet, of whatever type. The caller must read it to its end, or abort the connection. */
export interface Streaming {
  readonly state: 'streaming';
  readonly headers: Headers;
  readonly body: ReadableStream<Uint8Array>;
  readonly connection: AbortController;
}

export interface Transport {
  /** Sends once, and again only if the service itself refused the token. Never rejects. */
  send(call: Call, request: Outgoing): Promise<Answer | Lost>;
  /** The same, but the body of a 200 is left to be read: the deadline of the call ends with its head. */
  open(call: Call, request: Outgoing): Promise<Answer | Lost | Streaming>;
}

export function createTransport(settings: Settings): Transport {
  const { baseUrl, token, canRefresh, attemptTimeoutMs, clock, fetch } = settings;
  /** The last token got a 401, so the next request asks for another one. */
  let tokenRefused = false;

  const lost = (mayHaveArrived: boolean, cause: unknown): Lost => ({ state: 'lost', mayHaveArrived, baseUrl, cause });

  async function credentialFor(signal: AbortSignal): Promise<string | undefined | ConnectionFault> {
    if (!token) return undefined;
    try {
      const given: unknown = await unlessAborted(signal, Promise.resolve(token({ refresh: tokenRefused })));
      tokenRefused = false;
      // A header with "null", or with two lines, would fail later and say less.
      return typeof given === 'string' && CREDENTIAL.test(given) ? given : new ConnectionFault(NO_TOKEN);
    } catch (cause) {
      return new ConnectionFault(TOKEN_FAILED, { cause });
    }
  }

  async function ask(request: Outgoing, signal: AbortSignal): Promise<Response | Lost> {
    const { method, path, headers, body } = request;
    const credential = await credentialFor(signal);
    if (signal.aborted) return lost(false, signal.reason);
    if (credential instanceof ConnectionFault) return lost(false, credential);
    try {
      const response = fetch(`${baseUrl}${path}`, {
        method,
        headers: {
          accept: ACCEPTED,
          ...(credential !== undefined && { authorization: `Bearer ${credential}` }),
          ...(body !== undefined && { 'content-type': 'application/json' }),
          ...headers,
        },
        ...(body !== undefined && { body }),
        signal,
        // A redirected POST would arrive as a GET, and credentials elsewhere.
        redirect: 'manual',
        credentials: 'omit',
        // A browser's own cache would answer conditional reads itself.
        cache: 'no-store',
      });
      return await unlessAborted(signal, response);
    } catch (fault) {
      // An aborted request may have been sent, for any reason of the abort.
      return lost(signal.aborted || !wasNeverConnected(fault), fault);
    }
  }

  /** One request and its answer; of an answer that is to be streamed only the head. */
  async function exchange(
    request: Outgoing,
    connection: AbortController,
    streams: boolean,
  ): Promise<Answer | Lost | Streaming> {
    const response = await ask(request, connection.signal);
    if ('state' in response) return response;
    const { status, headers, body } = response;
    if (streams && status === 200 && body) return { state: 'streaming', headers, body, connection };
    const whole = response.text().then((text): Answer => ({ state: 'answered', status, headers, text }));
    return unlessAborted(connection.signal, whole).catch((fault) => lost(true, fault));
  }

  /** Until it ends, the attempt has its own time-out and ends with the call. */
  async function attempt(call: Call, request: Outgoing, streams: boolean): Promise<Answer | Lost | Streaming> {
    const connection = new AbortController();
    const finished = new AbortController();
    const abort = () => connection.abort(call.signal.reason);
    const forget = onAbort(call.signal, abort);
    void clock.sleep(attemptTimeoutMs, finished.signal).then(() => {
      if (!finished.signal.aborted) connection.abort(new DOMException('No answer in time.', 'TimeoutError'));
    });
    try {
      const result = await exchange(request, connection, streams);
      if (!canRefresh || result.state !== 'answered' || result.status !== 401) return result;
      tokenRefused = true;
      // The service refuses a token before it reads the body (rule A4). The 401 of a gateway may come after a request that was
      // carried out, so it is for the caller to decide whether the request may be sent again.
      return provenMessageOf(result) === undefined ? result : await exchange(request, connection, streams);
    } finally {
      finished.abort();
      forget();
    }
  }

  return {
    send: (call, request) => attempt(call, request, false) as Promise<Answer | Lost>,
    open: (call, request) => attempt(call, request, true),
  };
}

/** Asks for errors with their type. A service that has none sends plain JSON all the same. */
const ACCEPTED = 'application/problem+json, application/json;q=0.9, application/x-ndjson;q=0.9';

const NO_TOKEN = "'token' must give text without spaces or line ends";
/** Without its message, which may hold credentials. */
const TOKEN_FAILED = "'token' failed, as the cause says";
