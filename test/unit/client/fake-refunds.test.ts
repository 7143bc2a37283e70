import {
  DeclinedError,
  Idempay,
  MismatchError,
  NotRefundedError,
  UnavailableError,
  UnknownOutcomeError,
} from '@idempay/client';
import { beforeEach, describe, expect, test } from 'vitest';
import { type FakeFault, FakeIdempay, TestClock } from '#idempay/testing/index.js';
import { failureOf } from '../../../testkit/client-library/scripted-fetch.js';

const ORDER = { reference: 'order-17' };
const LINE = { ...ORDER, name: 'line-2', amount: '12.50', currency: 'USD', reason: 'returned' };
const DAY_MS = 86_400_000;

/** Rule P26, as the tests of a shop play it. */
describe('a refund of the fake', () => {
  let now: number;
  let fake: FakeIdempay;
  let payments: Idempay['payments'];
  let payment: string;

  beforeEach(async () => {
    now = Date.UTC(2026, 10, 29);
    fake = new FakeIdempay({ now: () => now });
    ({ payments } = new Idempay({ baseUrl: fake.baseUrl, fetch: fake.fetch, clock: new TestClock() }));
    ({ key: payment } = await payments.pay({ amount: '100.50', currency: 'USD' }, ORDER));
  });

  const { reference: _, name: __, ...content } = LINE;
  const refunded = async () => (await payments.get(payment)).refunded;

  test.each<[string, FakeFault]>([
    ['lost before it arrives', { lose: 'request' }],
    ['whose answer is lost', { lose: 'answer' }],
    ['whose answer is cut', { cut: true }],
    ['answered 503 before anything is done', { status: 503 }],
    ['answered 503 after all of it', { status: 503, after: true }],
    ['under way', { status: 409, retryAfterSeconds: 2 }],
    ['of unknown outcome at the service', { status: 504 }],
    ['of unknown outcome at the processor', 'unknown'],
  ])('%s is given back once', async (_what, fault) => {
    fake.next('refund', fault);
    const { key, attempts } = await payments.refund(LINE);
    expect(attempts).toBe(2);
    expect(fake.refunds).toEqual([{ key, payment, transactionId: expect.any(String), ...content }]);
    expect(await refunded()).toBe('12.50');
  });

  test('that no answer tells before the deadline is unknown, and the same call finds it', async () => {
    fake.next('refund', { status: 504, after: true, retryAfterSeconds: 120 });
    expect(await failureOf(UnknownOutcomeError, payments.refund(LINE))).toMatchObject({ refundName: 'line-2' });
    expect(await payments.refund(LINE)).toMatchObject({ state: 'refunded', replayed: true });
    expect(fake.refunds).toHaveLength(1);
  });

  test('that is declined stays declined, and frees its part', async () => {
    fake.next('refund', { decline: 'the charge is disputed' });
    const all = { ...LINE, amount: '100.50' };
    for (let time = 0; time < 2; time += 1) {
      const { reason } = await failureOf(DeclinedError, payments.refund(all));
      expect(reason).toBe('the charge is disputed');
    }
    expect([await refunded(), fake.refunds]).toEqual(['0.00', []]);
    expect(await payments.refund({ ...all, name: 'line-3' })).toMatchObject({ state: 'refunded' });
  });

  test.each(['confirm', 'refuse'] as const)('that takes time is pending until the test says: %s', async (decision) => {
    fake.next('refund', { pending: { untilMs: now + DAY_MS } });
    const pending = { state: 'pending', until: new Date(now + DAY_MS).toISOString() };
    const { key } = await payments.refund(LINE);
    expect(await payments.refund(LINE)).toMatchObject({ ...pending, key });
    expect(fake.pendingRefunds).toMatchObject([{ key, payment, amount: '12.50' }]);
    expect([await refunded(), fake.refunds]).toEqual(['12.50', []]);
    fake[decision](key);
    if (decision === 'confirm') {
      expect(await payments.refund(LINE)).toMatchObject({ state: 'refunded', key });
      expect([await refunded(), fake.refunds.length]).toEqual(['12.50', 1]);
    } else {
      const { reason } = await failureOf(DeclinedError, payments.refund(LINE));
      expect([reason, await refunded(), fake.refunds]).toEqual(['the payer refused', '0.00', []]);
    }
    expect(fake.pendingRefunds).toEqual([]);
  });

  test('is refused as the service refuses it, and without contract 3 of the adapter', async () => {
    await payments.refund(LINE);
    await failureOf(MismatchError, payments.refund({ ...LINE, amount: '12.51' }));
    const tooMuch = await failureOf(NotRefundedError, payments.refund({ ...LINE, name: 'line-3', amount: '90.00' }));
    expect([tooMuch.why, tooMuch.left]).toEqual(['too-much', '88.00']);
    fake.next('refund', { status: 501 });
    const { why, status, message } = await failureOf(NotRefundedError, payments.refund({ ...LINE, name: 'line-3' }));
    expect([why, status, message]).toEqual(['not-supported', 501, expect.stringContaining('does not know refunds')]);
    fake.next('refund', { status: 429 }, 100);
    await failureOf(UnavailableError, payments.refund({ ...LINE, name: 'line-3' }));
    expect(fake.refunds).toHaveLength(1);
  });

  test('has its name a day later, when the key of the payment has expired', async () => {
    const { key } = await payments.refund(LINE);
    now += 2 * DAY_MS;
    fake.forgetKeys();
    expect(await payments.refund(LINE)).toMatchObject({ key, replayed: true });
    expect(await payments.refund({ ...LINE, name: 'line-3' })).toMatchObject({ replayed: false });
    expect(fake.refunds).toHaveLength(2);
    expect(await payments.refunds(payment)).toHaveLength(2);
    const listed = [];
    for await (const each of payments.list({ ...ORDER, kind: 'refund' })) listed.push(each.refund?.name);
    expect(listed).toEqual(['line-3', 'line-2']);
  });

  test('meets no fault of a payment, and a payment none of a refund', async () => {
    fake.next('pay', { decline: 'lost card' });
    fake.next('refund', { decline: 'disputed' });
    await failureOf(DeclinedError, payments.pay({ amount: '1.00', currency: 'USD' }, { reference: 'order-18' }));
    const { reason } = await failureOf(DeclinedError, payments.refund(LINE));
    expect(reason).toBe('disputed');
  });
});
