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
}

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
  async function send(path: string, { method = 'GET', query, headers, json, signal }: Ask = {}): Promise<Response> {
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
      signal: signal ?? null,
    }).catch(reject);
    if (response.status === 401) {
      const refusal = await errorOf(response.clone());
      if (refusal instanceof ServiceError) onRefused(refusal.message);
    }
    return response;
  }

  async function ask<T>(path: string, request?: Ask): Promise<Answer<T>> {
    const response = await send(path, request);
    if (!response.ok) throw await errorOf(response);
    const { status, headers } = response;
    const text = await response.text().catch(reject);
    // A 204 has no body, so the header alone can prove it.
    if (status === 204 && hasOwnHeader(headers)) return { status, headers, body: null as T };
    const body = isOfType(headers, 'application/json') ? parsed(text) : undefined;
    if (body === undefined) throw foreignAnswer(status);
    return { status, headers, body: body as T };
  }

  return { send, ask };
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

function reject(error: unknown): never {
  throw isAborted(error) ? error : new Unreachable(error);
}
