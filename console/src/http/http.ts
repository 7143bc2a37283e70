import { hasOwnHeader, isOfType, parsed } from '@idempay/client/proof';
import { errorOf, foreignAnswer, isAborted, ServiceError, Unreachable } from './service-error.js';

export interface Ask {
  readonly method?: string;
  /** Undefined and empty values are left out. */
  readonly query?: Readonly<Record<string, string | number | undefined>>;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as JSON. */
  readonly json?: unknown;
  readonly signal?: AbortSignal | undefined;
  /** For the whole answer. If omitted, the limit of the method; null: none. */
  readonly limitMs?: number | null;
}

const SECOND_MS = 1_000;
/** A connection that was cut in the middle says nothing for minutes, and an old state would be shown meanwhile. */
const READ_LIMIT_MS = 15_000;
/** Longer than a lock and a processor take together: the result of a change that is given up is not known. */
const CHANGE_LIMIT_MS = 120_000;
/** For a read that waits for the processor, whose time limit is a setting of the service. */
export const PROCESSOR_LIMIT_MS = CHANGE_LIMIT_MS;

export interface Answer<T> {
  readonly status: number;
  readonly headers: Headers;
  /** The whole body, parsed; null if it is empty. */
  readonly body: T;
}

/** Requests of the console to its own service, with the credential of the session. Paths have no slash before them: `api/payments`. */
export interface Http {
  /** Any answer, also a refusal; throws `Unreachable` when none comes. The session ends with a 401 of the service. */
  send(path: string, ask?: Ask): Promise<Response>;
  /**
   * The JSON of a 2xx, or its 204. Throws `ServiceError` for a refusal of the service, and `Unreachable` for an answer that is not surely its
   * own (rule P23).
   */
  ask<T>(path: string, ask?: Ask): Promise<Answer<T>>;
}

/** `credential` is an API key or a token; without one none is sent. `onRefused` is called after a 401. */
export function createHttp(credential: string | undefined, onRefused: (sentence: string) => void): Http {
  async function sendUntil(signal: AbortSignal | null, path: string, request: Ask = {}): Promise<Response> {
    const { method = 'GET', query, headers, json } = request;
    const response = await fetch(addressOf(path, query), {
      method,
      headers: {
        ...(credential !== undefined && { Authorization: `Bearer ${credential}` }),
        ...(json !== undefined && { 'Content-Type': 'application/json' }),
        ...headers,
      },
      ...(json !== undefined && { body: JSON.stringify(json) }),
      // The console always shows current data.
      cache: 'no-store',
      // The service knows no cookies; a proxy in front of it may.
      credentials: 'same-origin',
      redirect: 'error',
      signal,
    }).catch(reject);
    if (response.status === 401) {
      const refusal = await errorOf(response.clone());
      if (refusal instanceof ServiceError) onRefused(refusal.message);
    }
    return response;
  }

  async function answerUntil<T>(signal: AbortSignal | null, path: string, request?: Ask): Promise<Answer<T>> {
    const response = await sendUntil(signal, path, request);
    if (!response.ok) throw await errorOf(response);
    const { status, headers } = response;
    const text = await response.text().catch(reject);
    // A 204 has no body, so the header alone can prove it.
    if (status === 204 && hasOwnHeader(headers)) return { status, headers, body: null as T };
    const body = isOfType(headers, 'application/json') ? parsed(text) : undefined;
    if (body === undefined) throw foreignAnswer(status);
    return { status, headers, body: body as T };
  }

  return {
    send: (path, request) => sendUntil(limited(request).signal, path, request),
    async ask<T>(path: string, request?: Ask) {
      const { signal, end } = limited(request);
      return answerUntil<T>(signal, path, request).finally(end);
    },
  };
}

/** Relative to the page, so that a proxy may add a prefix. */
export function addressOf(path: string, query: Ask['query'] = {}): string {
  const address = new URL(path, document.baseURI);
  address.hash = '';
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== '') address.searchParams.set(name, String(value));
  }
  return address.href;
}

/**
 * The signal also ends the reading of the body. `end`, or the limit, lets go of the caller's signal, which lives as long as a page.
 * `AbortSignal.any` is too new for some browsers.
 */
function limited({ method = 'GET', signal, limitMs = method === 'GET' ? READ_LIMIT_MS : CHANGE_LIMIT_MS }: Ask = {}): {
  signal: AbortSignal | null;
  end(): void;
} {
  if (limitMs === null) return { signal: signal ?? null, end: () => {} };
  const own = new AbortController();
  const sentence = `The service gave no whole answer within ${limitMs / SECOND_MS} seconds. Check that it runs and that this machine reaches it.`;
  const timer = setTimeout(() => own.abort(new DOMException(sentence, 'TimeoutError')), limitMs);
  if (signal?.aborted) own.abort(signal.reason);
  signal?.addEventListener('abort', () => own.abort(signal.reason), { signal: own.signal });
  const end = () => {
    clearTimeout(timer);
    own.abort();
  };
  return { signal: own.signal, end };
}

function reject(error: unknown): never {
  if (error instanceof DOMException && error.name === 'TimeoutError') throw new Unreachable(error, error.message);
  throw isAborted(error) ? error : new Unreachable(error);
}
