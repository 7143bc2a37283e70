import { Idempay, type IdempayOptions } from '@idempay/client';
import { publicErrors } from '#idempay/http/errors/catalogue.js';
import { TestClock } from '#idempay/testing/test-clock.js';

/** The fate of one request. `fetch` rejects with an error; `never`: nothing comes back. */
export type Step = Response | Error | 'never';

export interface SentRequest {
  readonly atMs: number;
  readonly method: string;
  /** From the base URL on. */
  readonly path: string;
  readonly headers: Headers;
  readonly body: string | undefined;
}

export const BASE_URL = 'http://idempay.test';
export const KEY = '01a20492-901c-70a0-943a-94814aa8fa0b';
export const OTHER_KEY = '01a20492-901c-70a0-943a-94814aa8fa0c';
export const PAID = 'Payment processed successfully with Transaction ID: TXN1';
export const REPLAYED = 'Transaction ID: TXN1';
/** The key of a reference. */
export const COMPUTED_KEY = 'f9f4cbd7-c89a-8e3d-8df2-2a15d2a4a0c7';
export const KEY_REFUSED = 'Invalid or missing Idempotency-Key.';
/** The members of a payment's record that say what was paid, while nothing is. */
export const NOTHING_PAID = { transactionId: null, amount: null, currency: null };
export const HUNDRED = { amount: '100.50', currency: 'USD' };

export function json(body: unknown, status = 200, headers: Record<string, string> = {}): Response {
  return new Response(JSON.stringify(body), { status, headers: { 'content-type': 'application/json', ...headers } });
}

/** An error as the service answers it: with its header, and in its words. */
export function refusal(
  status: number,
  message = SENTENCES[status] ?? 'The service failed to answer this request.',
  headers: Record<string, string> = {},
): Response {
  const own = { idempay: '1', 'x-request-id': `request-${status}` };
  return json({ status, error: 'Reason', message }, status, { ...own, ...headers });
}

/** The page of a gateway, which says nothing about the request. */
export function page(status: number, headers: Record<string, string> = {}): Response {
  const text = `<html><body>${status}</body></html>`;
  return new Response(BODILESS.has(status) ? null : text, {
    status,
    headers: { 'content-type': 'text/html', ...headers },
  });
}
const BODILESS = new Set([204, 205, 304]);

const SENTENCES: Readonly<Record<number, string>> = Object.fromEntries(
  [
    publicErrors.credentialsInvalid(),
    publicErrors.scopeMissing(['payments:write']),
    publicErrors.unknownRoute(),
    publicErrors.methodNotAllowed('GET'),
    publicErrors.paymentInProgress(1),
    publicErrors.preconditionFailed('transaction'),
    publicErrors.bodyTooLarge(16_384),
    publicErrors.unsupportedMediaType(),
    publicErrors.paymentMismatch(),
    publicErrors.tooManyRequests(60, 1),
    publicErrors.paymentOutcomeUnknown('key'),
  ].map(({ status, message }) => [status, message]),
);

/** As Node.js fails if the connection broke, at a moment that nobody knows. */
export const reset = () => failed('ECONNRESET');
/** Nothing was sent. */
export const refused = () => failed('ECONNREFUSED');

function failed(code: string): Error {
  return new TypeError('fetch failed', { cause: Object.assign(new Error(code), { code }) });
}

/** A client whose requests meet these steps, one after the other, in a time that passes by itself. */
export function scripted(steps: readonly Step[], options: Partial<IdempayOptions> = {}) {
  const clock = new TestClock();
  const sent: SentRequest[] = [];
  const left = [...steps];
  const fetch = async (url: string, { method = 'GET', headers, body, signal }: RequestInit = {}) => {
    const path = url.replace(BASE_URL, '');
    sent.push({ atMs: clock.now(), method, path, headers: new Headers(headers), body: body as string | undefined });
    const step = left.shift();
    if (step === undefined) throw new Error(`nothing is scripted for ${method} ${path}`);
    if (step === 'never') {
      return new Promise<Response>((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason)));
    }
    if (step instanceof Error) throw step;
    return step;
  };
  const idempay = new Idempay({ baseUrl: BASE_URL, fetch, clock, random: () => 0.5, ...options });
  return {
    idempay,
    clock,
    sent,
    /** The requests to pay that were sent, in their order. */
    payments: () => sent.filter(({ path }) => /^\/api\/payment(\?|$)/.test(path)),
    keysUsed: () => [...new Set(sent.flatMap(({ headers }) => headers.get('idempotency-key') ?? []))],
  };
}

/** The error that a promise rejects with. */
export async function failureOf<E extends Error>(
  kind: abstract new (...parts: never[]) => E,
  promise: Promise<unknown>,
): Promise<E> {
  const fault = await promise.then(
    (value) => new Error(`resolved with ${JSON.stringify(value)}`),
    (thrown: unknown) => thrown,
  );
  if (!(fault instanceof kind)) throw fault;
  return fault;
}

/** `Array.fromAsync`, which Node.js 20 does not have. */
export async function allOf<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}
