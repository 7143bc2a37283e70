import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import {
  CancelledError,
  DeadKeyError,
  DeclinedError,
  Idempay,
  NotAuthorizedError,
  NotCancelledError,
  OutOfTurnError,
  UnknownChangeError,
  UnknownOutcomeError,
} from '@idempay/client';
import { expect, expectTypeOf, test } from 'vitest';
import type { Scope } from '#idempay/access/scopes.js';
import {
  type FakeFault,
  FakeIdempay,
  type FakeIdempayOptions,
  type FakeOperation,
  type FakeScope,
  TestClock,
} from '#idempay/testing/index.js';
import { failureOf } from '../../../testkit/client-library/scripted-fetch.js';
import { ROOT } from '../../../testkit/programs.js';

/** The service waits as long for a settlement. */
const REAL_WAIT_MS = 10_000;
const PAYMENT = { amount: '100.50', currency: 'USD' };

function clientOf(options: FakeIdempayOptions = {}) {
  const fake = new FakeIdempay(options);
  const idempay = new Idempay({ baseUrl: fake.baseUrl, fetch: fake.fetch, clock: new TestClock() });
  return { fake, idempay };
}

test.each<[string, FakeFault]>([
  ['lost before it arrives', { lose: 'request' }],
  ['whose answer is lost', { lose: 'answer' }],
  ['whose answer is cut', { cut: true }],
  ['answered 503 before anything is done', { status: 503 }],
  ['answered 503 after all of it', { status: 503, after: true }],
  ['in progress', { status: 409, retryAfterSeconds: 2 }],
  ['of unknown outcome', 'unknown'],
])('a payment %s is charged once', async (_, fault) => {
  const { fake, idempay } = clientOf();
  fake.next('pay', fault);
  const { transactionId, key, attempts } = await idempay.payments.pay(PAYMENT);
  expect(attempts).toBe(2);
  expect(fake.charges).toEqual([{ key, transactionId, ...PAYMENT }]);
});

test.each<FakeFault>([{ lose: 'answer' }, { status: 504 }, 'unknown'])(
  'an order is charged once: %o',
  async (fault) => {
    const { fake, idempay } = clientOf();
    const order = { reference: 'order-17' };
    fake.next('pay', fault);
    const results = await Promise.all([idempay.payments.pay(PAYMENT, order), idempay.payments.pay(PAYMENT, order)]);
    fake.forgetKeys();
    results.push(await idempay.payments.pay(PAYMENT, order));
    const { key, transactionId } = results[0];
    expect(new Set(results.map((result) => result.transactionId))).toEqual(new Set([transactionId]));
    expect(fake.charges).toEqual([{ key, transactionId, ...PAYMENT }]);
  },
);

test('a fault for an operation that does not exist is refused at once, as a mistake of the test', () => {
  expect(() => new FakeIdempay().next('status' as never, { status: 503 })).toThrow(
    /'status' is no operation .*getPaymentStatus/,
  );
});

/**
 * Bug: a test passed although its fault did nothing, such as a decline of a cancellation, or `'lost'` of a payment.
 * Cause: each operation took every fault, and a fault without a known member was a request without a fault.
 * Fix: each operation has its own faults in its types, and any other fault is a TypeError.
 */
test('a fault that an operation does not know is refused at once, as a mistake of the test', () => {
  const fake = new FakeIdempay();
  const wrong: [FakeOperation, unknown][] = [
    ['cancelPayment', 'unknown'],
    ['cancelPayment', { decline: 'lost card' }],
    ['cancelPayment', { pending: {} }],
    ['getPayment', { decline: 'lost card' }],
    ['generateKey', { pending: {} }],
    ['pay', 'cannot-be-ended'],
    ['pay', 'lost'],
    ['pay', { declined: 'misspelt' }],
    ['pay', { decline: undefined }],
    ['pay', { pending: null }],
    ['pay', { lose: 'reply' }],
    ['refund', { status: '503' }],
    ['refund', {}],
    ['refund', null],
    ['pay', undefined],
  ];
  for (const [operation, fault] of wrong) {
    expect(() => fake.next(operation, fault as FakeFault), `${operation} ${JSON.stringify(fault)}`).toThrow(
      new RegExp(`is no fault of '${operation}'\\. There are \\{ lose: `),
    );
  }
  const typed = [
    // @ts-expect-error: a cancellation is not declined.
    () => fake.next('cancelPayment', { decline: 'lost card' }),
    // @ts-expect-error: a read is not pending.
    () => fake.next('getPayment', { pending: {} }),
    // @ts-expect-error: only a cancellation ends.
    () => fake.next('pay', 'cannot-be-ended'),
  ];
  for (const next of typed) expect(next).toThrow(TypeError);
});

test('a payment that cannot be ended is not cancelled, and is paid later', async () => {
  const { fake, idempay } = clientOf();
  const order = { reference: 'order-17' };
  fake.next('pay', { pending: {} });
  await idempay.payments.pay({ ...PAYMENT, returnUrl: 'https://shop.example/orders/17' }, order);
  fake.next('cancelPayment', 'cannot-be-ended');
  const { why } = await failureOf(NotCancelledError, idempay.payments.cancel(order));
  expect(why).toBe('cannot-be-ended');
  fake.confirm(fake.pendingCharges[0]?.key ?? '');
  await idempay.payments.pay(PAYMENT, order);
  expect(fake.charges).toHaveLength(1);
});

const ID = '100000000000001';
const REQUESTS = {
  generateKey: 'GET /api/server-generated/generate-key',
  pay: 'POST /api/payment',
  cancelPayment: 'POST /api/payment-cancellation',
  refund: 'POST /api/refund',
  getPaymentStatus: 'GET /api/payment-status',
  getPayment: 'GET /api/payments/of-a-key',
  listRefunds: 'GET /api/payments/of-a-key/refunds',
  listPayments: 'GET /api/payments',
  exportPayments: 'GET /api/payments/export',
  resolvePayment: 'POST /api/payments/of-a-key/resolution',
  createTransaction: 'POST /api/transactions',
  createTransactions: 'POST /api/transactions/batch',
  listTransactions: 'GET /api/transactions',
  searchTransactions: 'GET /api/transactions/search',
  getTransaction: `GET /api/transactions/${ID}`,
  changeTransactionStatus: `PUT /api/transactions/${ID}/status`,
  removeTransaction: `DELETE /api/transactions/${ID}`,
} satisfies Record<FakeOperation, string>;

test.each(Object.entries(REQUESTS) as [FakeOperation, string][])(
  'a fault for %s is met by %s',
  async (operation, request) => {
    const fake = new FakeIdempay();
    fake.next(operation, { lose: 'request' });
    const [method = '', path = ''] = request.split(' ');
    expect(await fake.handle({ method, path, query: {}, headers: {}, body: '' })).toBe('lost');
  },
);

test('what a payment is about is charged as the first call of it said', async () => {
  const { fake, idempay } = clientOf();
  const content = { source: 'tok_first', description: 'A book', metadata: { basket: '7' } };
  fake.next('pay', 'unknown');
  const [first, second] = await Promise.all(
    [content, { ...content, source: 'tok_second' }].map((said) =>
      idempay.payments.pay({ ...PAYMENT, ...said }, { reference: 'order-17' }),
    ),
  );
  expect(second?.transactionId).toBe(first?.transactionId);
  expect(fake.charges).toEqual([{ key: first?.key, transactionId: first?.transactionId, ...PAYMENT, ...content }]);
  const { description, metadata } = await idempay.payments.get(first?.key ?? '');
  expect({ description, metadata }).toEqual({ description: 'A book', metadata: { basket: '7' } });
});

test('a declined order is paid by its next attempt, and a cancelled one never', async () => {
  const { fake, idempay } = clientOf();
  const { payments } = idempay;
  fake.next('pay', { decline: 'lost card' });
  const order = { reference: 'order-18' };
  const error = await failureOf(DeclinedError, payments.pay(PAYMENT, order));
  expect(error).toMatchObject({ ...order, attempt: 1, nextAttempt: 2, reason: 'lost card' });
  await payments.pay(PAYMENT, { ...order, attempt: error.nextAttempt });
  expect(await failureOf(OutOfTurnError, payments.pay(PAYMENT, order))).toMatchObject({ why: 'superseded' });
  expect(await payments.status(order)).toMatchObject({ attempt: 2, state: 'COMPLETED' });
  fake.next('cancelPayment', { lose: 'answer' });
  await payments.cancel({ reference: 'order-19' });
  await failureOf(CancelledError, payments.pay(PAYMENT, { reference: 'order-19' }));
  expect(fake.charges).toHaveLength(1);
});

test('faults of one operation are met in their order, as often as was asked', async () => {
  const { fake, idempay } = clientOf();
  fake.next('pay', { status: 503 }, 3);
  fake.next('pay', { decline: 'lost card' });
  const error = await failureOf(DeclinedError, idempay.payments.pay(PAYMENT));
  expect([error.reason, fake.charges.length]).toEqual(['lost card', 0]);
  const declined = await idempay.payments.get(error.key);
  expect(declined).toMatchObject({ state: 'DECLINED', reason: 'lost card' });
  fake.next('pay', { lose: 'answer' }, 100);
  const unknown = await failureOf(UnknownOutcomeError, idempay.payments.pay(PAYMENT));
  expect(fake.charges).toHaveLength(1);
  expect(unknown.key).toBe(fake.charges[0]?.key);
});

test('a key that was forgotten is refused, and a payment outlives its key', async () => {
  let now = Date.now();
  const { fake, idempay } = clientOf({ now: () => now, keyLifeMs: 1_000 });
  await idempay.payments.prefetchKeys(1);
  fake.forgetKeys();
  await failureOf(DeadKeyError, idempay.payments.pay(PAYMENT));
  const { key } = await idempay.payments.pay(PAYMENT);
  now += 1_000;
  // The record of a payment outlives its key.
  expect(await idempay.payments.resume(key, PAYMENT)).toMatchObject({ key, replayed: true });
});

test('transactions have tags and faults too; an API key is asked for', async () => {
  const { fake, idempay } = clientOf();
  fake.next('createTransaction', { lose: 'answer' });
  const wanted = { fromAccount: 'alice', toAccount: 'bob', amount: '1' };
  await failureOf(UnknownChangeError, idempay.transactions.create(wanted));
  expect(await idempay.transactions.ids()).toHaveLength(1);
  const closed = clientOf({ apiKey: 'idem_1' });
  await failureOf(NotAuthorizedError, closed.idempay.payments.pay(PAYMENT));
});

/**
 * Bug: the tests of a shop passed with a key that lacks a scope in production.
 * Cause: the key of a fake had every scope.
 * Fix: the option `scopes`, which the service's own code enforces.
 */
test('a key with scopes gets a 403 for what they do not allow, as at the service', async () => {
  const apiKey = 'idem_1';
  const clientWith = (fake: FakeIdempay) => new Idempay({ baseUrl: fake.baseUrl, fetch: fake.fetch, apiKey });
  const { payments, transactions } = clientWith(
    new FakeIdempay({ apiKey, scopes: ['payments:write', 'payments:read'] }),
  );
  await payments.pay(PAYMENT, { reference: 'order-17' });
  const refund = { reference: 'order-17', name: 'line-1', ...PAYMENT };
  const { status, message } = await failureOf(NotAuthorizedError, payments.refund(refund));
  expect([status, message]).toEqual([403, expect.stringContaining('lacks the scope refunds:write')]);
  await failureOf(NotAuthorizedError, transactions.ids());
  // Without scopes the key may do everything, also next to a fake with some.
  const every = clientWith(new FakeIdempay({ apiKey })).payments;
  await every.pay(PAYMENT, { reference: 'order-17' });
  await every.refund(refund);
  expect(() => new FakeIdempay({ scopes: ['payments:read'] })).toThrow(/give both/);
  expectTypeOf<FakeScope>().toEqualTypeOf<Scope>();
});

/**
 * Bug: each empty page of `settlements.follow` took ten real seconds, also with a TestClock.
 * Cause: the fake waited for a settlement as the service does, by the system's clock, and the TestClock stood still meanwhile.
 * Fix: the fake answers at once, and the client waits by its own clock.
 */
test('settlements are followed without a wait in real time', async () => {
  const { idempay } = clientOf();
  const { key } = await idempay.payments.pay(PAYMENT, { reference: 'order-17' });
  const startedAtMs = performance.now();
  const seen: string[] = [];
  let pages = 0;
  for await (const { settlements } of idempay.settlements.follow()) {
    seen.push(...settlements.map((each) => each.idempotencyKey));
    pages += 1;
    if (seen.length > 0 && pages > 2) break;
  }
  expect(seen).toEqual([key]);
  expect(performance.now() - startedAtMs).toBeLessThan(REAL_WAIT_MS);
});

test('a payment that an operator resolved is found under its key in any case, and expires as others do', async () => {
  let now = Date.now();
  const { fake } = clientOf({ now: () => now, keyLifeMs: 1_000 });
  const key = (await (await fake.fetch(`${fake.baseUrl}/api/server-generated/generate-key`)).json()) as string;
  const post = async (path: string, body: object) => {
    const headers = { 'Content-Type': 'application/json', 'Idempotency-Key': key };
    const init = { method: 'POST', headers, body: JSON.stringify(body) };
    return (await fake.fetch(`${fake.baseUrl}/api/${path}`, init)).status;
  };
  fake.next('pay', 'unknown');
  expect(await post('payment', PAYMENT)).toBe(504);
  const verdict = { outcome: 'completed', reason: 'on the statement' };
  expect(await post(`payments/${key.toUpperCase()}/resolution`, verdict)).toBe(200);
  expect(await post('payment', PAYMENT)).toBe(200);
  now += 1_000;
  expect(await post('payment', PAYMENT)).toBe(400);
});

test('a fault is met by the request that came first, also where others are under way', async () => {
  const { fake, idempay } = clientOf();
  fake.next('pay', { decline: 'lost card' });
  const orders = ['order-20', 'order-21', 'order-22'].map((reference) => idempay.payments.pay(PAYMENT, { reference }));
  const ends = await Promise.allSettled(orders);
  expect(ends.map(({ status }) => status)).toEqual(['rejected', 'fulfilled', 'fulfilled']);
  expect(fake.charges).toHaveLength(2);
});

test('a list is of one moment, whatever is removed while it is read', async () => {
  const { fake, idempay } = clientOf();
  const wanted = Array.from({ length: 1_000 }, () => ({ fromAccount: 'alice', toAccount: 'bob', amount: '1' }));
  for (let time = 0; time < 3; time += 1) await idempay.transactions.createBatch(wanted);
  const newest = (await idempay.transactions.ids()).at(-1) as number;
  const listed = fake.fetch(`${fake.baseUrl}/api/transactions`);
  await Promise.all([listed, idempay.transactions.remove(newest), idempay.transactions.remove(newest - 1)]);
  const ids = ((await (await listed).json()) as { transactionId: number }[]).map(({ transactionId }) => transactionId);
  const tag = createHash('md5')
    .update(`${ids.join('')}${ids.length}`)
    .digest('hex');
  expect((await listed).headers.get('etag')).toBe(`"${tag}"`);
  expect(await idempay.transactions.ids()).toHaveLength(2_998);
});

test('a name that lost its number, and an empty filter, are refused as the service refuses them', async () => {
  const { fake } = clientOf();
  const paying = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(PAYMENT) };
  expect((await fake.fetch(`${fake.baseUrl}/api/payment?reference=order-`, paying)).status).toBe(400);
  expect((await fake.fetch(`${fake.baseUrl}/api/payments?reference=`)).status).toBe(400);
  expect((await fake.fetch(`${fake.baseUrl}/api/payments?reference=order-`)).status).toBe(200);
  expect(fake.charges).toEqual([]);
});

test.each([
  ['an object of its own', new URLSearchParams({ a: 'b' }), 415],
  ['text without a media type', '{"amount":"1","currency":"EUR"}', 415],
  ['bytes', new TextEncoder().encode('{"amount":"1","currency":"EUR"}'), 415],
])('a body is sent as fetch sends it: %s', async (_, body, status) => {
  const { fake } = clientOf();
  const url = `${fake.baseUrl}/api/payment?reference=order-23`;
  const answer = await fake.fetch(url, { method: 'POST', body });
  expect(answer.status).toBe(status);
  const headers = { 'content-type': 'application/json' };
  const json = '{"amount":"1","currency":"EUR"}';
  for (const good of [json, new TextEncoder().encode(json), new Blob([json])])
    expect((await fake.fetch(url, { method: 'POST', body: good, headers })).status).toBe(200);
  expect(fake.charges).toHaveLength(1);
});

/**
 * Bug: a plain script ended in the middle of a request, with exit code 13.
 * Cause: a connection in memory and timers that keep no process alive were all that was left while a duplicate waited.
 * Fix: the fake keeps the process alive while it works on a request.
 */
test('a script that does nothing else gets the answers of all requests, and ends', async () => {
  const script = `
    import { FakeIdempay } from '#idempay/testing/index.js';
    const fake = new FakeIdempay();
    const pay = async (reference) => {
      const headers = { 'content-type': 'application/json', prefer: 'wait=10' };
      const body = JSON.stringify({ amount: '100.50', currency: 'EUR' });
      return (await fake.fetch(fake.baseUrl + '/api/payment?reference=' + reference, { method: 'POST', headers, body })).status;
    };
    await pay('order-1');
    fake.next('pay', 'unknown');
    const statuses = await Promise.all([pay('order-2'), pay('order-2'), pay('order-2')]);
    console.log(statuses.sort().join(' '), fake.charges.length);`;
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', script], {
    cwd: ROOT,
  });
  expect(stdout).toBe('200 200 504 2\n');
});

test('handle answers without fetch, for other libraries', async () => {
  const { fake } = clientOf();
  const path = '/api/payment';
  const headers = { 'content-type': 'application/json' };
  const request = { method: 'POST', path, query: { reference: 'order-24' }, headers, body: JSON.stringify(PAYMENT) };
  expect(await fake.handle(request)).toMatchObject({ status: 200, headers: { idempay: '1' } });
  fake.next('pay', { lose: 'answer' });
  expect(await fake.handle(request)).toBe('lost');
  expect(fake.requests).toMatchObject([request, request]);
});
