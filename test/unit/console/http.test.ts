import { getEventListeners } from 'node:events';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { createHttp } from '../../../console/src/http/http.js';
import { errorOf, mayHaveArrived, retryAfterMs, Unreachable } from '../../../console/src/http/service-error.js';
import { refusal } from '../../../testkit/client-library/scripted-fetch.js';

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal('document', { baseURI: 'http://idempay.test/console' });
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

/** A body that never ends if the head arrives, and no answer at all else. */
function stallFetch(hasHead: boolean): void {
  vi.stubGlobal('fetch', async (_address: string, { signal }: RequestInit) => {
    const aborted = new Promise<never>((_, reject) => {
      signal?.addEventListener('abort', () => reject(signal.reason));
    });
    if (!hasHead) return aborted;
    const body = new ReadableStream({ pull: () => aborted });
    return new Response(body, { headers: { 'content-type': 'application/json', idempay: '1' } });
  });
}

/** The error of a request after this time; undefined if it still waits. */
async function errorAfter(ms: number, request: (http: ReturnType<typeof createHttp>) => Promise<unknown>) {
  let error: unknown;
  request(createHttp(undefined, () => {})).catch((thrown: unknown) => {
    error = thrown;
  });
  await vi.advanceTimersByTimeAsync(ms);
  return error;
}

/**
 * Bug: after a connection was cut in the middle the console showed an old state for minutes, as if it were the present one. Cause: only the
 * live view limited the time of a request. Fix: each request has a limit, unless it says that it has none.
 */
describe('a request of the console without a whole answer', () => {
  test.each([
    ['no answer', false],
    ['half of an answer', true],
  ])('is given up after 15 seconds if it only reads, with %s', async (_what, hasHead) => {
    stallFetch(hasHead);
    expect(await errorAfter(14_999, (http) => http.ask('api/payments'))).toBeUndefined();
    const error = await errorAfter(15_000, (http) => http.ask('api/payments'));
    expect(error).toBeInstanceOf(Unreachable);
    expect((error as Error).message).toMatch(/^The service gave no whole answer within 15 seconds\./);
  });

  test('is given up after two minutes if it changes something, which it may have done', async () => {
    stallFetch(false);
    const send = (http: ReturnType<typeof createHttp>) => http.ask('api/refund', { method: 'POST', json: {} });
    expect(await errorAfter(119_999, send)).toBeUndefined();
    expect(mayHaveArrived(await errorAfter(120_000, send))).toBe(true);
  });

  test('waits for ever if it has no limit, and ends with its caller', async () => {
    stallFetch(false);
    const caller = new AbortController();
    const send = (http: ReturnType<typeof createHttp>) =>
      http.send('api/payments/export', { limitMs: null, signal: caller.signal });
    expect(await errorAfter(3_600_000, send)).toBeUndefined();
    const ended = errorAfter(1, (http) => http.ask('api/payments', { signal: caller.signal }));
    caller.abort();
    expect(await ended).toMatchObject({ name: 'AbortError' });
  });
});

/** Bug: each request left a listener on the signal of its view, so that a live view that was open for long kept all of them. */
test('a request lets go of its caller when the answer is whole, and at its limit else', async () => {
  vi.stubGlobal(
    'fetch',
    async () => new Response('{}', { headers: { 'content-type': 'application/json', idempay: '1' } }),
  );
  const { signal } = new AbortController();
  const listeners = () => getEventListeners(signal, 'abort').length;
  const http = createHttp(undefined, () => {});
  const asked = http.ask('api/live', { signal });
  expect(listeners()).toBe(1);
  await asked;
  expect(listeners()).toBe(0);
  await http.send('readyz', { signal });
  expect(listeners()).toBe(1);
  await vi.advanceTimersByTimeAsync(15_000);
  expect(listeners()).toBe(0);
});

test('the service asks for a pause with 429 and 503 only', async () => {
  const pauseOf = async (status: number) =>
    retryAfterMs(await errorOf(refusal(status, 'Later.', { 'retry-after': '7' })));
  expect(await Promise.all([429, 503, 409, 500].map(pauseOf))).toEqual([7_000, 7_000, 0, 0]);
  expect(retryAfterMs(await errorOf(refusal(429, 'Later.')))).toBe(0);
  expect(retryAfterMs(new Unreachable(undefined))).toBe(0);
});
