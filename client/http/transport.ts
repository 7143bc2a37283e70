import type { Settings } from '../settings.js';
import { type Call, unlessAborted } from './call.js';
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
  readonly cause: unknown;
}

/** A 200 whose body has not been read yet, of whatever type. The caller must read it to its end, or abort the connection. */
export interface Streaming {
  readonly state: 'streaming';
  readonly headers: Headers;
  readonly body: ReadableStream<Uint8Array>;
  readonly connection: AbortController;
}

/** What Node.js says where no connection was made. Browsers do not tell, so there every failure may have arrived. */
const NEVER_CONNECTED = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'UND_ERR_CONNECT_TIMEOUT']);

export interface Transport {
  /** Sends once, and again only where the service itself refused the token. Never rejects. */
  send(call: Call, request: Outgoing): Promise<Answer | Lost>;
  /** The same, but the body of a 200 is left to be read: the deadline of the call ends with its head. */
  open(call: Call, request: Outgoing): Promise<Answer | Lost | Streaming>;
}

export function createTransport(settings: Settings): Transport {
  const { baseUrl, token, canRefresh, attemptTimeoutMs, clock, fetch } = settings;
  /** The last token got a 401, so the next request asks for another one. */
  let tokenRefused = false;

  async function ask(request: Outgoing, signal: AbortSignal): Promise<Response | Lost> {
    const { method, path, headers, body } = request;
    let credential: string | undefined;
    try {
      if (token) credential = await unlessAborted(signal, Promise.resolve(token({ refresh: tokenRefused })));
      tokenRefused = false;
    } catch (fault) {
      return lost(false, fault);
    }
    if (signal.aborted) return lost(false, signal.reason);
    try {
      const response = fetch(`${baseUrl}${path}`, {
        method,
        headers: {
          accept: 'application/json, application/x-ndjson',
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
      // What was aborted may have been sent, whatever the reason of the abort looks like.
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
    if (call.signal.aborted) abort();
    call.signal.addEventListener('abort', abort);
    void clock.sleep(attemptTimeoutMs, finished.signal).then(() => {
      if (!finished.signal.aborted) connection.abort(new DOMException('No answer in time.', 'TimeoutError'));
    });
    try {
      const result = await exchange(request, connection, streams);
      if (!canRefresh || result.state !== 'answered' || result.status !== 401) return result;
      tokenRefused = true;
      // The service refuses a token before it reads the body (decisions A4). The 401 of a gateway may come after a request that was
      // carried out, so it is for the caller to decide whether the request may be sent again.
      return provenMessageOf(result) === undefined ? result : await exchange(request, connection, streams);
    } finally {
      finished.abort();
      call.signal.removeEventListener('abort', abort);
    }
  }

  return {
    send: (call, request) => attempt(call, request, false) as Promise<Answer | Lost>,
    open: (call, request) => attempt(call, request, true),
  };
}

function lost(mayHaveArrived: boolean, cause: unknown): Lost {
  return { state: 'lost', mayHaveArrived, cause };
}

function wasNeverConnected(fault: unknown): boolean {
  const code = (fault as { cause?: { code?: unknown } } | undefined)?.cause?.code;
  return typeof code === 'string' && NEVER_CONNECTED.has(code);
}
