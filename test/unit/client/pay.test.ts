import { describe, expect, test } from 'vitest';
import {
  DeclinedError,
  InvalidRequestError,
  MismatchError,
  NotAuthorizedError,
  UnavailableError,
  UnexpectedAnswerError,
  UnknownOutcomeError,
} from '#idempay/client/index.js';
import {
  failureOf,
  HUNDRED,
  json,
  KEY,
  KEY_REFUSED,
  OTHER_KEY,
  PAID,
  REPLAYED,
  refusal,
  refused,
  reset,
  type Step,
  scripted,
} from '../../../testkit/client-library/scripted-fetch.js';

const payment = (state: string, more: object = {}) =>
  json({ idempotencyKey: KEY, state, transactionId: null, reason: null, ...more }, 200, { etag: '"a"' });

describe('pay', () => {
  test('takes a key, gives it to onKey, and only then sends the payment with it', async () => {
    const { idempay, sent } = scripted([json(KEY), json(PAID)]);
    const seen: string[] = [];
    const onKey = async (key: string) => {
      await Promise.resolve();
      seen.push(key, `${sent.length} sent`);
    };
    expect(await idempay.payments.pay(HUNDRED, { onKey })).toEqual({
      transactionId: 'TXN1',
      replayed: false,
      key: KEY,
      attempts: 1,
    });
    expect(seen).toEqual([KEY, '1 sent']);
    expect(sent.map(({ method, path }) => `${method} ${path}`)).toEqual([
      'GET /api/server-generated/generate-key',
      'POST /api/payment',
    ]);
    expect(sent[1]?.body).toBe('{"amount":"100.50","currency":"USD"}');
    expect(Object.fromEntries(sent[1]?.headers ?? [])).toMatchObject({
      'content-type': 'application/json',
      'idempotency-key': KEY,
      prefer: 'wait=10',
    });
  });

  const MOMENTARY: readonly (readonly [string, () => Step])[] = [
    ['a lost connection', reset],
    ['409', () => refusal(409, 'Payment is already being processed.')],
    ['429', () => refusal(429)],
    ['500', () => refusal(500)],
    ['502 of a proxy', () => new Response('<html>Bad Gateway</html>', { status: 502 })],
    ['503', () => refusal(503)],
    ['504', () => refusal(504)],
    ['half of a 200', () => new Response('"Payment processed succ')],
    ['a 200 of something else', () => json({ ok: true })],
    ['half of a 402', () => new Response('{"status":402,"err', { status: 402 })],
    ['no answer in time', () => 'never'],
  ];
  test.each(MOMENTARY)('after %s repeats with the same key', async (_, step) => {
    const { idempay, payments, keysUsed } = scripted([json(KEY), step(), step(), json(REPLAYED)]);
    const result = await idempay.payments.pay(HUNDRED);
    expect(result).toEqual({ transactionId: 'TXN1', replayed: true, key: KEY, attempts: 3 });
    expect(payments()).toHaveLength(3);
    expect(keysUsed()).toEqual([KEY]);
  });

  test.each(MOMENTARY.filter(([name]) => name !== '429'))(
    'whose deadline ends after %s is unknown, with the key to resume',
    async (_, step) => {
      const { idempay } = scripted([json(KEY), ...Array.from({ length: 60 }, step)]);
      const error = await failureOf(UnknownOutcomeError, idempay.payments.pay(HUNDRED, { deadlineMs: 30_000 }));
      expect(error).toMatchObject({ key: KEY, record: undefined });
      expect(error.attempts).toBeGreaterThan(1);
      expect(error.message).not.toContain(KEY);
    },
  );

  test('that was only refused for the rate, or never connected, was not attempted', async () => {
    const steps = [
      refusal(429, 'slow down', { 'retry-after': '2' }),
      refused(),
      refusal(429, 'slow', { 'retry-after': '90' }),
    ];
    const { idempay } = scripted([json(KEY), ...steps]);
    const error = await failureOf(UnavailableError, idempay.payments.pay(HUNDRED));
    expect(error).toMatchObject({ status: 429, requestId: 'request-429', retryAfterSeconds: 90 });
  });

  test('pauses by full jitter that doubles, on top of Retry-After', async () => {
    const steps = [refusal(503), refusal(503), refusal(503, 'x', { 'retry-after': '3' }), refusal(503), json(REPLAYED)];
    const { idempay, payments } = scripted([json(KEY), ...steps]);
    await idempay.payments.pay(HUNDRED);
    const times = payments().map(({ atMs }) => atMs);
    // Half of 200, 400, 800 and 1600.
    expect(times.map((time, index) => time - (times[index - 1] ?? 0))).toEqual([0, 100, 200, 3_400, 800]);
  });

  test('takes Retry-After as a date too, by the clock of the service', async () => {
    const headers = { date: 'Sun, 22 Nov 2026 10:00:00 GMT', 'retry-after': 'Sun, 22 Nov 2026 10:00:07 GMT' };
    const { idempay, payments } = scripted([json(KEY), refusal(503, 'x', headers), json(PAID)]);
    await idempay.payments.pay(HUNDRED);
    expect(payments()[1]?.atMs).toBe(7_100);
  });

  test('ends at once where Retry-After is later than its deadline', async () => {
    const { idempay, clock } = scripted([json(KEY), refusal(503, 'x', { 'retry-after': '3600' })]);
    const error = await failureOf(UnknownOutcomeError, idempay.payments.pay(HUNDRED));
    expect(error).toMatchObject({ key: KEY, attempts: 1, status: 503, requestId: 'request-503' });
    expect(clock.now()).toBe(0);
  });

  test('that is declined, invalid or mismatching ends there', async () => {
    const declined = refusal(402, 'Payment declined: insufficient funds');
    const one = await failureOf(DeclinedError, scripted([json(KEY), declined]).idempay.payments.pay(HUNDRED));
    expect(one).toMatchObject({ reason: 'insufficient funds', key: KEY, status: 402, requestId: 'request-402' });
    const invalid = [json(KEY), refusal(503), refusal(400, "'amount' must be more than 0.")];
    const two = await failureOf(InvalidRequestError, scripted(invalid).idempay.payments.pay(HUNDRED));
    expect(two).toMatchObject({ status: 400, message: "'amount' must be more than 0." });
    const three = await failureOf(MismatchError, scripted([json(KEY), refusal(422)]).idempay.payments.pay(HUNDRED));
    expect(three).toMatchObject({ key: KEY, status: 422 });
  });

  test('that is refused for another reason than its content is unknown, after an attempt that may have arrived', async () => {
    for (const refused of [
      refusal(400, 'Missing Idempotency-Key header.'),
      refusal(413),
      refusal(400, 'cannot be read'),
    ]) {
      const { idempay } = scripted([json(KEY), reset(), refused]);
      await failureOf(UnknownOutcomeError, idempay.payments.pay(HUNDRED));
    }
    await failureOf(InvalidRequestError, scripted([json(KEY), refusal(413)]).idempay.payments.pay(HUNDRED));
  });

  test('of an amount that is no string is refused before anything is sent', async () => {
    const { idempay, sent } = scripted([]);
    const body = { amount: 100.5, currency: 'USD' } as never;
    await failureOf(InvalidRequestError, idempay.payments.pay(body));
    expect(sent).toEqual([]);
  });

  test('without credentials was not attempted; after an attempt that may have arrived it is unknown', async () => {
    const error = await failureOf(
      NotAuthorizedError,
      scripted([json(KEY), refusal(401)]).idempay.payments.pay(HUNDRED),
    );
    expect(error.status).toBe(401);
    const later = scripted([json(KEY), reset(), refusal(403)]).idempay.payments.pay(HUNDRED);
    const unknown = await failureOf(UnknownOutcomeError, later);
    expect(unknown).toMatchObject({ key: KEY, attempts: 2, status: 403 });
    expect(unknown.cause).toBeInstanceOf(NotAuthorizedError);
  });

  test.each([
    ['a redirect', () => new Response(null, { status: 308, headers: { location: 'https://other' } })],
    ['the page of a gateway', () => new Response('<html>no such site</html>', { status: 404 })],
    ['another service', () => refusal(405)],
  ])('that meets %s says what to check', async (_, step) => {
    await failureOf(UnexpectedAnswerError, scripted([json(KEY), step()]).idempay.payments.pay(HUNDRED));
    await failureOf(UnknownOutcomeError, scripted([json(KEY), reset(), step()]).idempay.payments.pay(HUNDRED));
  });

  test('sends nothing when onKey fails, and nothing when the deadline ends before it does', async () => {
    const fault = new Error('the disk is full');
    const one = scripted([json(KEY)]);
    const onKey = () => Promise.reject(fault);
    const error = await failureOf(UnavailableError, one.idempay.payments.pay(HUNDRED, { onKey }));
    expect(error.cause).toBe(fault);
    const two = scripted([json(KEY)]);
    await failureOf(UnavailableError, two.idempay.payments.pay(HUNDRED, { onKey: () => new Promise(() => {}) }));
    expect([one.sent.length, two.sent.length, two.clock.now()]).toEqual([1, 1, 60_000]);
  });
});

describe('a key that the service refuses', () => {
  test('in the first attempt charged nothing: the next call takes a new one', async () => {
    const steps = [json(KEY), json(OTHER_KEY), refusal(429), refusal(400, KEY_REFUSED), json(OTHER_KEY), json(PAID)];
    const { idempay, sent, keysUsed } = scripted(steps);
    await idempay.payments.prefetchKeys(2);
    const seen: string[] = [];
    await failureOf(UnavailableError, idempay.payments.pay(HUNDRED, { onKey: (key) => void seen.push(key) }));
    expect([seen, keysUsed()]).toEqual([[KEY], [KEY]]);
    // The other one that was fetched with it is not trusted any more.
    await idempay.payments.pay(HUNDRED);
    expect(sent.at(-2)?.path).toBe('/api/server-generated/generate-key');
  });

  test('after an attempt that may have arrived never leads to another one', async () => {
    const { idempay, sent, keysUsed } = scripted([
      json(KEY),
      reset(),
      refusal(400, KEY_REFUSED),
      refusal(404, 'No payment found for this Idempotency-Key.'),
    ]);
    const error = await failureOf(UnknownOutcomeError, idempay.payments.pay(HUNDRED));
    expect(error).toMatchObject({ key: KEY, record: null, attempts: 2, status: 400 });
    expect(sent.at(-1)?.path).toBe(`/api/payments/${KEY}`);
    expect(keysUsed()).toEqual([KEY]);
  });

  test.each([
    ['COMPLETED', { transactionId: 'TXN7' }],
    ['DECLINED', { reason: 'lost card' }],
    ['PROCESSING', { transactionId: 'TXN7' }],
    ['PENDING', {}],
  ])('is looked up in the record: %s', async (state, more) => {
    const { idempay } = scripted([refusal(400, KEY_REFUSED), reset(), payment(state, more)]);
    const resumed = idempay.payments.resume(KEY, HUNDRED);
    if (state === 'COMPLETED') {
      expect(await resumed).toEqual({ transactionId: 'TXN7', replayed: true, key: KEY, attempts: 1 });
    } else if (state === 'DECLINED') {
      expect(await failureOf(DeclinedError, resumed)).toMatchObject({ reason: 'lost card', key: KEY });
    } else {
      const error = await failureOf(UnknownOutcomeError, resumed);
      expect(error.record).toMatchObject({ state, idempotencyKey: KEY });
    }
  });

  test('whose record cannot be read is unknown, with the reason', async () => {
    const { idempay } = scripted([refusal(400, KEY_REFUSED), refusal(403)]);
    const error = await failureOf(UnknownOutcomeError, idempay.payments.resume(KEY, HUNDRED));
    expect(error.record).toBeUndefined();
    expect(error.cause).toBeInstanceOf(NotAuthorizedError);
  });
});

describe('resume', () => {
  test('sends the key that it is given, and takes no other', async () => {
    const { idempay, sent, keysUsed } = scripted([refusal(503), json(REPLAYED)]);
    const result = await idempay.payments.resume(KEY, HUNDRED);
    expect(result).toEqual({ transactionId: 'TXN1', replayed: true, key: KEY, attempts: 2 });
    expect([sent.length, keysUsed()]).toEqual([2, [KEY]]);
  });

  test('that cannot reach the service is unknown: the attempt before the crash may have arrived', async () => {
    const { idempay } = scripted(Array.from({ length: 60 }, refused));
    await failureOf(UnknownOutcomeError, idempay.payments.resume(KEY, HUNDRED, { deadlineMs: 10_000 }));
    const { idempay: other } = scripted([]);
    const signal = AbortSignal.abort();
    expect(await failureOf(UnknownOutcomeError, other.payments.resume(KEY, HUNDRED, { signal }))).toMatchObject({
      attempts: 0,
    });
  });

  test('of what is no key is refused before anything is sent', async () => {
    const { idempay, sent } = scripted([]);
    await failureOf(InvalidRequestError, idempay.payments.resume('', HUNDRED));
    expect(sent).toEqual([]);
  });
});

describe('an abort by the caller', () => {
  test('before anything is sent: not attempted', async () => {
    const { idempay, sent } = scripted([json(KEY)]);
    const abort = new AbortController();
    const onKey = () => abort.abort(new Error('the payer closed the page'));
    const error = await failureOf(UnavailableError, idempay.payments.pay(HUNDRED, { onKey, signal: abort.signal }));
    expect(error.cause).toMatchObject({ message: 'the payer closed the page' });
    expect(sent).toHaveLength(1);
    const kept: string[] = [];
    const options = { onKey: (key: string) => void kept.push(key), signal: abort.signal };
    await failureOf(UnavailableError, idempay.payments.pay(HUNDRED, options));
    expect([sent.length, kept]).toEqual([1, []]);
  });

  test('while an attempt is under way: unknown, however its reason looks', async () => {
    const abort = new AbortController();
    const { idempay, clock } = scripted([json(KEY), 'never']);
    void clock.sleep(500, new AbortController().signal).then(() => abort.abort(refused()));
    const error = await failureOf(UnknownOutcomeError, idempay.payments.pay(HUNDRED, { signal: abort.signal }));
    expect(error).toMatchObject({ key: KEY, attempts: 1 });
    expect(clock.now()).toBe(500);
  });

  test('between two attempts ends the pause', async () => {
    const abort = new AbortController();
    const { idempay, clock } = scripted([json(KEY), refusal(503, 'x', { 'retry-after': '30' })]);
    void clock.sleep(500, new AbortController().signal).then(() => abort.abort());
    await failureOf(UnknownOutcomeError, idempay.payments.pay(HUNDRED, { signal: abort.signal }));
    expect(clock.now()).toBe(500);
  });
});
