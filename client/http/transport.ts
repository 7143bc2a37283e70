import type { Settings } from '../settings.js';
import { type Call, unlessAborted } from './call.js';

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

/** A 200 whose body has not been read yet. The caller must read it to its end, or abort the connection. */
export interface Streaming {
  readonly state: 'streaming';
  readonly headers: Headers;
  readonly body: ReadableStream<Uint8Array>;
  readonly connection: AbortController;
}

/** What Node.js says where no connection was made. Browsers do not tell, so there every failure may have arrived. */
const NEVER_CONNECTED = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'UND_ERR_CONNECT_TIMEOUT']);

export interface Transport {
  /** Sends once, twice only where a token was refused. Never rejects. */
  send(call: Call, request: Outgoing): Promise<Answer | Lost>;
  /** The same, but the body of a 200 is left to be read: the deadline of the call ends with its head. */
  open(call: Call, request: Outgoing): Promise<Answer | Lost | Streaming>;
}

export function createTransport(settings: Settings): Transport {
  const { baseUrl, token, canRefresh, attemptTimeoutMs, clock, fetch } = settings;

  async function ask(request: Outgoing, signal: AbortSignal, refresh: boolean): Promise<Response | Lost> {
    const { method, path, headers, body } = request;
    let credential: string | undefined;
    try {
      if (token) credential = await unlessAborted(signal, Promise.resolve(token({ refresh })));
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

  /** `read` may hand the connection on; until it ends, the attempt has its own time-out and ends with the call. */
  async function attempt<T>(
    call: Call,
    request: Outgoing,
    read: (response: Response, connection: AbortController) => Promise<T>,
  ): Promise<T | Lost> {
    const connection = new AbortController();
    const finished = new AbortController();
    const abort = () => connection.abort(call.signal.reason);
    if (call.signal.aborted) abort();
    call.signal.addEventListener('abort', abort);
    void clock.sleep(attemptTimeoutMs, finished.signal).then(() => {
      if (!finished.signal.aborted) connection.abort(new DOMException('No answer in time.', 'TimeoutError'));
    });
    try {
      let response = await ask(request, connection.signal, false);
      // Refused before its body was read, so it may be sent again (decisions A4).
      if (canRefresh && !('state' in response) && response.status === 401) {
        await response.body?.cancel().catch(() => {});
        response = await ask(request, connection.signal, true);
      }
      if ('state' in response) return response;
      return await unlessAborted(connection.signal, read(response, connection)).catch((fault) => lost(true, fault));
    } finally {
      finished.abort();
      call.signal.removeEventListener('abort', abort);
    }
  }

  return {
    send: (call, request) => attempt(call, request, whole),
    open: (call, request) =>
      attempt<Answer | Streaming>(call, request, async (response, connection) => {
        const { status, headers, body } = response;
        return status === 200 && body ? { state: 'streaming', headers, body, connection } : whole(response);
      }),
  };
}

async function whole(response: Response): Promise<Answer> {
  const { status, headers } = response;
  return { state: 'answered', status, headers, text: await response.text() };
}

function lost(mayHaveArrived: boolean, cause: unknown): Lost {
  return { state: 'lost', mayHaveArrived, cause };
}

function wasNeverConnected(fault: unknown): boolean {
  const code = (fault as { cause?: { code?: unknown } } | undefined)?.cause?.code;
  return typeof code === 'string' && NEVER_CONNECTED.has(code);
}
