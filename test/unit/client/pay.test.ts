import {
  DeadKeyError,
  DeclinedError,
  InvalidRequestError,
  isSamePayment,
  MismatchError,
  NotAuthorizedError,
  type PayOptions,
  UnavailableError,
  UnexpectedAnswerError,
  UnknownOutcomeError,
  UnusedKeyError,
} from '@idempay/client';
import { describe, expect, test } from 'vitest';
import {
  failureOf,
  HUNDRED,
  json,
  KEY,
  KEY_REFUSED,
  NOTHING_PAID,
  OTHER_KEY,
  PAID,
  page,
  REPLAYED,
  refusal,
  refused,
  reset,
  type Step,
  scripted,
} from '../../../testkit/client-library/scripted-fetch.js';

const payment = (state: string, more: object = {}) =>
  json({ idempotencyKey: KEY, state, ...NOTHING_PAID, reason: null, ...more }, 200, { etag: '"a"' });

const paid = (money: object) => payment('COMPLETED', { transactionId: 'TXN1', ...money });

/** As the service answers for a key without a payment. */
const absent = (state?: string) => {
  const message = 'No payment found for this Idempotency-Key. The key has expired unpaid.';
  return refusal(404, message, state === undefined ? {} : { 'idempay-key-state': state });
};

describe('pay', () => {
  test('a misspelt member of a payment is refused before anything is sent', async () => {
    const { idempay, sent } = scripted([]);
    const misspelt = { ...HUNDRED, sorce: 'tok_1' };
    const error = await failureOf(InvalidRequestError, idempay.payments.pay(misspelt, { reference: 'order-17' }));
    expect(error.message).toBe(
      "'sorce' is no member of a payment. There are amount, currency, source, description, metadata, returnUrl.",
    );
    await failureOf(InvalidRequestError, idempay.payments.resume(KEY, misspelt));
    expect(sent).toEqual([]);
  });

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
      ...HUNDRED,
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

  test('sends what the payment is about, the same in each attempt', async () => {
    const { idempay, sent } = scripted([json(KEY), reset(), json(PAID)]);
    const content = { source: 'tok_1', description: 'Zwei Bücher', metadata: { basket: '7' } };
    const result = await idempay.payments.pay({ ...HUNDRED, ...content });
    expect(sent.slice(1).map(({ body }) => body)).toEqual(
      Array(2).fill(
        '{"amount":"100.50","currency":"USD","source":"tok_1","description":"Zwei Bücher","metadata":{"basket":"7"}}',
      ),
    );
    expect(JSON.stringify(result)).not.toContain('tok_1');
  });

  test('a content that the service refuses is an InvalidRequestError, and the error holds no source', async () => {
    const { idempay } = scripted([json(KEY), refusal(400, "'source' looks like a card number.")]);
    const error = await failureOf(
      InvalidRequestError,
      idempay.payments.pay({ ...HUNDRED, source: '4111111111111111' }),
    );
    expect(JSON.stringify({ ...error, message: error.message })).not.toContain('4111');
  });

  const MOMENTARY: readonly (readonly [string, () => Step])[] = [
    ['a lost connection', reset],
    ['409', () => refusal(409, 'Payment is already being processed.')],
    ['429', () => refusal(429)],
    ['500', () => refusal(500)],
    ['502 of a proxy', () => page(502)],
    ['403 of a proxy', () => page(403)],
    ['429 of a proxy', () => page(429)],
    ['a redirect', () => page(308, { location: 'https://other' })],
    ['503', () => refusal(503)],
    ['504', () => refusal(504)],
    [
      'half of a 200',
      () => new Response('"Payment processed succ', { headers: { 'content-type': 'application/json' } }),
    ],
    ['a 200 of another media type', () => new Response(JSON.stringify(PAID))],
    ['a 201', () => json(PAID, 201)],
    ['a 200 of something else', () => json({ ok: true })],
    ['half of a 402', () => new Response('{"status":402,"err', { status: 402 })],
    ['no answer in time', () => 'never'],
  ];
  test.each(MOMENTARY)('after %s repeats with the same key', async (_, step) => {
    const { idempay, payments, keysUsed } = scripted([json(KEY), step(), step(), json(REPLAYED)]);
    const result = await idempay.payments.pay(HUNDRED);
    expect(result).toEqual({ transactionId: 'TXN1', replayed: true, key: KEY, attempts: 3, ...HUNDRED });
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
      refusal(429, undefined, { 'retry-after': '2' }),
      refused(),
      refusal(429, undefined, { 'retry-after': '90' }),
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
      refusal(400, 'The request body cannot be read: it is empty. Send a JSON object.'),
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

  test('whose key cannot be had, because something else answers, sends nothing and says what to check', async () => {
    for (const step of [page(308, { location: 'https://other' }), page(404), page(200), json({ ok: true })]) {
      const { idempay, sent } = scripted([step]);
      await failureOf(UnexpectedAnswerError, idempay.payments.pay(HUNDRED));
      expect(sent).toHaveLength(1);
    }
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

/**
 * Bug: a program whose orders may lack their number compiled, and each of its calls charged again.
 * Cause: the options were a union, so TypeScript took an optional `reference` for one of its two kinds.
 * Fix: one signature for each kind.
 */
describe('the options of a payment', () => {
  const { idempay } = scripted([]);
  const { payments } = idempay;
  const present = { ...HUNDRED, returnUrl: 'https://shop.example/orders/17' };

  test('do not compile if their reference is optional', () => {
    const calls = [
      // @ts-expect-error: a job without a number would be another payment each time.
      (job: { reference?: string }) => payments.pay(HUNDRED, job),
      // @ts-expect-error: the same.
      (job: { reference: string | undefined }) => payments.pay(HUNDRED, job),
      // @ts-expect-error: the same with another option next to it.
      (job: { reference?: string; deadlineMs?: number }) => payments.pay(HUNDRED, { ...job }),
      // @ts-expect-error: the same.
      (reference?: string) => payments.pay(HUNDRED, { reference }),
      // @ts-expect-error: the empty text would be left out.
      (reference?: string) => payments.pay(HUNDRED, { ...(reference && { reference }), deadlineMs: 10 }),
      // @ts-expect-error: the same while the payer is present.
      (job: { reference?: string }) => payments.pay(present, job),
      // @ts-expect-error: the same.
      (reference?: string) => payments.pay(present, { ...(reference && { reference }), deadlineMs: 10 }),
    ];
    expect(calls).toHaveLength(7);
  });

  test('compile with a reference, without one, and with one that was looked at', () => {
    const { signal } = new AbortController();
    const calls = [
      () => [payments.pay(HUNDRED), payments.pay(present), payments.pay(HUNDRED, {})],
      () => payments.pay(HUNDRED, { onKey: () => new Promise(() => {}), signal, deadlineMs: 10 }),
      () => payments.pay(present, { onKey: async (key) => void key.length }),
      () => payments.pay(HUNDRED, { reference: 'order-17', attempt: undefined, deadlineMs: undefined }),
      (attempt?: number) => payments.pay(present, { reference: 'order-17', attempt, signal }),
      (reference?: string) => reference && payments.pay(HUNDRED, { reference, deadlineMs: 10 }),
      (options: PayOptions) =>
        options.reference === undefined ? payments.pay(HUNDRED, options) : payments.pay(HUNDRED, options),
    ];
    expect(calls).toHaveLength(7);
  });
});

describe('a key that the service refuses', () => {
  test('in the first attempt is unused only where the service is certain: the next call takes a new one', async () => {
    const steps = [json(KEY), json(OTHER_KEY), refusal(429), refusal(400, KEY_REFUSED), absent('expired-unpaid')];
    const { idempay, sent, keysUsed } = scripted([...steps, json(OTHER_KEY), json(PAID)]);
    await idempay.payments.prefetchKeys(2);
    const seen: string[] = [];
    const paying = idempay.payments.pay(HUNDRED, { onKey: (key) => void seen.push(key) });
    expect(await failureOf(UnusedKeyError, paying)).toMatchObject({ key: KEY, status: 400 });
    expect([seen, keysUsed()]).toEqual([[KEY], [KEY]]);
    // The other one that was fetched with it is not trusted any more.
    await idempay.payments.pay(HUNDRED);
    expect(sent.at(-2)?.path).toBe('/api/server-generated/generate-key');
    const { idempay: other } = scripted([json(KEY), refusal(400, KEY_REFUSED), absent('unknown')]);
    await failureOf(DeadKeyError, other.payments.pay(HUNDRED));
  });

  test.each([
    ['says that it is not certain', () => absent('unknown')],
    ['does not say whether it is certain', () => absent()],
    ['is not read with the scope of the caller', () => refusal(403)],
    ['says that the key is issued', () => payment('PENDING')],
  ])('is dead where its record %s: resume does not help, and none takes another key', async (_, step) => {
    const { idempay, keysUsed } = scripted([refusal(400, KEY_REFUSED), step()]);
    const error = await failureOf(DeadKeyError, idempay.payments.resume(KEY, HUNDRED));
    expect(error).toMatchObject({ name: 'DeadKeyError', key: KEY, attempts: 1 });
    expect(error).toBeInstanceOf(UnknownOutcomeError);
    expect(keysUsed()).toEqual([KEY]);
  });

  test('is not certain by the answer of a gateway, whatever it says', async () => {
    const body = { status: 404, error: 'Not Found', message: 'No payment found for this Idempotency-Key.' };
    const answer = json(body, 404, { 'idempay-key-state': 'expired-unpaid' });
    const { idempay } = scripted([refusal(400, KEY_REFUSED), answer]);
    const error = await failureOf(UnknownOutcomeError, idempay.payments.resume(KEY, HUNDRED));
    expect(error).toMatchObject({ name: 'UnknownOutcomeError', record: undefined });
  });

  test('after an attempt that may have arrived never leads to another one', async () => {
    const { idempay, sent, keysUsed } = scripted([json(KEY), reset(), refusal(400, KEY_REFUSED), absent('unknown')]);
    const error = await failureOf(DeadKeyError, idempay.payments.pay(HUNDRED));
    expect(error).toMatchObject({ key: KEY, record: null, attempts: 2, status: 400 });
    expect(sent.at(-1)?.path).toBe(`/api/payments/${KEY}`);
    expect(keysUsed()).toEqual([KEY]);
  });

  test.each([
    ['COMPLETED', { transactionId: 'TXN7', amount: '7.00', currency: 'EUR' }],
    ['DECLINED', { reason: 'lost card' }],
    ['PROCESSING', { transactionId: 'TXN7' }],
  ])('is looked up in the record: %s', async (state, more) => {
    const { idempay } = scripted([refusal(400, KEY_REFUSED), reset(), payment(state, more)]);
    const resumed = idempay.payments.resume(KEY, HUNDRED);
    if (state === 'COMPLETED') {
      const paid = { amount: '7.00', currency: 'EUR' };
      expect(await resumed).toEqual({ transactionId: 'TXN7', replayed: true, key: KEY, attempts: 1, ...paid });
    } else if (state === 'DECLINED') {
      expect(await failureOf(DeclinedError, resumed)).toMatchObject({ reason: 'lost card', key: KEY });
    } else {
      const error = await failureOf(UnknownOutcomeError, resumed);
      expect(error.record).toMatchObject({ state, idempotencyKey: KEY });
    }
  });

  /**
   * Bug: a key was reported as paid with the transaction id `undefined`.
   * Cause: what has a key and a state was taken for the record of a payment.
   * Fix: the members that say what was paid belong to it.
   */
  test('is not paid where what should be its record does not say what was paid', async () => {
    const half = json({ idempotencyKey: KEY, state: 'COMPLETED' });
    const { idempay } = scripted([refusal(400, KEY_REFUSED), half]);
    await failureOf(UnknownOutcomeError, idempay.payments.resume(KEY, HUNDRED));
  });

  test('whose record cannot be read is unknown, with the reason', async () => {
    const { idempay } = scripted([refusal(400, KEY_REFUSED), refusal(401)]);
    const error = await failureOf(UnknownOutcomeError, idempay.payments.resume(KEY, HUNDRED));
    expect(error).toMatchObject({ name: 'UnknownOutcomeError', record: undefined });
    expect(error.cause).toBeInstanceOf(NotAuthorizedError);
  });
});

describe('resume', () => {
  test('sends the key that it is given, and takes no other', async () => {
    const { idempay, payments, keysUsed } = scripted([refusal(503), json(REPLAYED), paid(HUNDRED)]);
    const result = await idempay.payments.resume(KEY, HUNDRED);
    expect(result).toEqual({ transactionId: 'TXN1', replayed: true, key: KEY, attempts: 2, ...HUNDRED });
    expect([payments().length, keysUsed()]).toEqual([2, [KEY]]);
  });

  test('with another amount shows the amount that was paid', async () => {
    const { idempay } = scripted([json(REPLAYED), paid({ amount: '7.00', currency: 'EUR' })]);
    const result = await idempay.payments.resume(KEY, HUNDRED);
    expect(result).toMatchObject({ amount: '7.00', currency: 'EUR' });
    expect(isSamePayment(result, HUNDRED)).toBe(false);
    expect(isSamePayment(result, { amount: '7', currency: 'eur' })).toBe(true);
  });

  test('is paid also where the record cannot be read, or is of another payment', async () => {
    for (const step of [refusal(403), reset(), page(200), payment('COMPLETED', { transactionId: 'TXN2' })]) {
      const { idempay } = scripted([json(REPLAYED), step]);
      const result = await idempay.payments.resume(KEY, HUNDRED);
      expect(result).toMatchObject({ transactionId: 'TXN1', amount: null, currency: null });
      expect(isSamePayment(result, HUNDRED)).toBe(false);
    }
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
