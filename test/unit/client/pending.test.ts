import {
  CancelledError,
  DeclinedError,
  Idempay,
  InvalidRequestError,
  NotCancelledError,
  OutOfTurnError,
  type PayResult,
  type PresentPayResult,
  UnknownOutcomeError,
} from '@idempay/client';
import { describe, expect, expectTypeOf, test } from 'vitest';
import { FakeIdempay, type FakePending, TestClock } from '#idempay/testing/index.js';
import {
  COMPUTED_KEY,
  failureOf,
  json,
  NOTHING_PAID,
  page,
  refusal,
  scripted,
} from '../../../testkit/client-library/scripted-fetch.js';

const MONEY = { amount: '100.50', currency: 'USD' };
const PRESENT = { ...MONEY, returnUrl: 'https://shop.example/orders/17/paid' };
const ORDER = { reference: 'order-17' };
const ACTION = { url: 'https://bank.example/confirm/8f2c' };
const UNTIL = '2026-11-20T14:00:00.000Z';

function clientOf(pending: FakePending = { action: ACTION }) {
  const fake = new FakeIdempay();
  const { payments } = new Idempay({ baseUrl: fake.baseUrl, fetch: fake.fetch, clock: new TestClock() });
  fake.next('pay', { pending });
  return { fake, payments };
}

/** The key of the one payment that waits. */
const waitingKey = ({ pendingCharges }: FakeIdempay) => pendingCharges[0]?.key ?? '';

describe('a payment whose payer is present', () => {
  test('is pending with what the payer can do, and then paid by the same call', async () => {
    const { fake, payments } = clientOf();
    const first = await payments.pay(PRESENT, ORDER);
    expect(first).toEqual({
      state: 'pending',
      until: expect.any(String),
      action: ACTION,
      retryAfterSeconds: 5,
      key: waitingKey(fake),
      attempts: 1,
    });
    expect(await payments.pay(PRESENT, ORDER)).toMatchObject({ state: 'pending', action: ACTION });
    fake.confirm(waitingKey(fake));
    expect(await payments.pay(PRESENT, ORDER)).toMatchObject({ state: 'paid', ...MONEY });
    expect(await payments.pay(PRESENT, ORDER)).toMatchObject({ state: 'paid', replayed: true });
    expect(fake.charges).toHaveLength(1);
  });

  test('is declined if the payer refuses, and may be paid with the next attempt', async () => {
    const { fake, payments } = clientOf();
    await payments.pay(PRESENT, ORDER);
    fake.refuse(waitingKey(fake), 'the payer refused');
    const { reason, nextAttempt } = await failureOf(DeclinedError, payments.pay(PRESENT, ORDER));
    expect([reason, nextAttempt]).toEqual(['the payer refused', 2]);
    expect(await payments.pay(PRESENT, { ...ORDER, attempt: 2 })).toMatchObject({ state: 'paid' });
  });

  test('without a reference is resumed by its key', async () => {
    const { fake, payments } = clientOf();
    const first = await payments.pay(PRESENT);
    expect(first.state).toBe('pending');
    fake.confirm(first.key);
    expect(await payments.resume(first.key, PRESENT)).toMatchObject({ state: 'paid', key: first.key, ...MONEY });
  });

  test('waits without an action if the payer has nothing to do', async () => {
    const { payments } = clientOf({});
    expect(await payments.pay(PRESENT, ORDER)).toMatchObject({ state: 'pending', action: undefined });
  });

  test('is shown as pending in its record and in a list, without the action', async () => {
    const { payments } = clientOf();
    const { key } = await payments.pay(PRESENT, ORDER);
    const record = await payments.get(key);
    expect(record).toMatchObject({ state: 'PROCESSING', pending: { until: expect.any(String) } });
    expect(await payments.status(ORDER)).toEqual(record);
    for await (const listed of payments.list({ pending: true })) expect(listed).toEqual(record);
    expect(JSON.stringify(record)).not.toMatch(/bank\.example|shop\.example/);
  });
});

describe('a caller that knows nothing of pending payments', () => {
  test('gets an unknown outcome, also from its repeats, and then the outcome', async () => {
    const { fake, payments } = clientOf();
    const error = await failureOf(UnknownOutcomeError, payments.pay(MONEY, ORDER));
    expect([error.status, error.type, error.charge]).toEqual([504, '/problems#payment-outcome-unknown', undefined]);
    fake.confirm(waitingKey(fake));
    const paid = await payments.pay(MONEY, ORDER);
    expect(paid).toMatchObject({ replayed: expect.any(Boolean), ...MONEY });
    expect(paid).not.toHaveProperty('state');
  });

  test('has the types of before', () => {
    const { payments } = clientOf();
    const calls = () => [payments.pay(MONEY), payments.pay(PRESENT)] as const;
    expectTypeOf<ReturnType<typeof calls>[0]>().toEqualTypeOf<Promise<PayResult>>();
    expectTypeOf<ReturnType<typeof calls>[1]>().toEqualTypeOf<Promise<PresentPayResult>>();
    // @ts-expect-error: whether it is paid is not known before the state was looked at.
    const taken = async () => (await payments.pay(PRESENT)).transactionId;
    expect(taken).toBeTypeOf('function');
  });
});

describe('the end of a pending payment', () => {
  test('by a cancellation closes the order', async () => {
    const { fake, payments } = clientOf();
    const { key } = await payments.pay(PRESENT, ORDER);
    expect(await payments.cancel(ORDER)).toEqual({ key });
    await failureOf(DeclinedError, payments.pay(PRESENT, { ...ORDER, attempt: 1 }).catch(declinedOrSuperseded));
    await failureOf(CancelledError, payments.pay(PRESENT, { ...ORDER, attempt: 2 }));
    expect([fake.charges, fake.pendingCharges]).toEqual([[], []]);
    expect(await payments.get(key)).toMatchObject({ state: 'DECLINED', ending: 'order' });
  });

  test('of one attempt only leaves the order to another card', async () => {
    const { fake, payments } = clientOf();
    const { key } = await payments.pay(PRESENT, ORDER);
    const early = await failureOf(OutOfTurnError, payments.pay(PRESENT, { ...ORDER, attempt: 2 }));
    expect([early.why, early.status]).toEqual(['previous-pending', 409]);
    expect(await payments.cancel({ ...ORDER, only: 'attempt' })).toEqual({ key });
    expect(await payments.cancel({ ...ORDER, only: 'attempt' })).toEqual({ key });
    expect(await payments.pay(PRESENT, { ...ORDER, attempt: 2 })).toMatchObject({ state: 'paid' });
    expect(fake.charges).toHaveLength(1);
  });

  test('of an attempt that was never begun ends nothing', async () => {
    const { payments } = clientOf();
    const none = { reference: 'order-18', only: 'attempt' } as const;
    expect((await failureOf(NotCancelledError, payments.cancel(none))).why).toBe('not-begun');
  });

  test('that the processor refuses is not repeated', async () => {
    const text = 'The payment cannot be ended at the processor now, so it is under way as before.';
    const headers = { 'idempotency-key': COMPUTED_KEY, 'idempay-attempt-state': 'cannot-be-ended' };
    const { idempay, sent } = scripted([refusal(409, text, headers)]);
    const error = await failureOf(NotCancelledError, idempay.payments.cancel(ORDER));
    expect([error.why, sent.length]).toEqual(['cannot-be-ended', 1]);
  });

  test('takes only the word attempt, and only with a reference', async () => {
    const { payments } = clientOf();
    const wrong = [
      { ...ORDER, only: 'order' },
      { ...ORDER, only: '' },
      { key: COMPUTED_KEY, only: 'attempt' },
    ];
    for (const target of wrong) await failureOf(InvalidRequestError, payments.cancel(target as never));
  });
});

/** A closed order may answer either of these about its first attempt. */
function declinedOrSuperseded(error: Error): never {
  if (error instanceof OutOfTurnError) throw new DeclinedError('', '', { key: error.key }, {});
  throw error;
}

const RECORD = { idempotencyKey: COMPUTED_KEY, state: 'PROCESSING', ...NOTHING_PAID, pending: { until: UNTIL } };
const NAMED = { idempay: '1', 'idempotency-key': COMPUTED_KEY };

describe('a 202', () => {
  test.each([
    ['of a gateway', page(202)],
    ['without the header of the service', json(RECORD, 202, { ...NAMED, idempay: '' })],
    ['of another key', json({ ...RECORD, idempotencyKey: COMPUTED_KEY.replace('f9', 'fa') }, 202, NAMED)],
    ['without its key', json(RECORD, 202, { idempay: '1' })],
    ['of a payment that is not pending', json({ ...RECORD, pending: undefined }, 202, NAMED)],
    ['of another state', json({ ...RECORD, state: 'COMPLETED' }, 202, NAMED)],
    ['without a time', json({ ...RECORD, pending: { until: 'soon' } }, 202, NAMED)],
    ['with an action of something else', json({ ...RECORD, pending: { until: UNTIL, action: { n: 1 } } }, 202, NAMED)],
    ['of another reference', json({ ...RECORD, reference: 'order-16', attempt: 1 }, 202, NAMED)],
    ['of another attempt', json({ ...RECORD, ...ORDER, attempt: 2 }, 202, NAMED)],
    ['cut', new Response('{"idempotencyKey":', { status: 202, headers: { ...NAMED, idempay: '1' } })],
  ])('%s says nothing, so the payment may have been made', async (_which, answer) => {
    const { idempay } = scripted([answer], { deadlineMs: 5_000 });
    await failureOf(UnknownOutcomeError, idempay.payments.pay(PRESENT, ORDER));
  });

  test('that nobody asked for says nothing', async () => {
    const { idempay } = scripted([json(RECORD, 202, NAMED)], { deadlineMs: 5_000 });
    await failureOf(UnknownOutcomeError, idempay.payments.pay(MONEY, ORDER));
  });

  test('of the service is believed', async () => {
    const { idempay, sent } = scripted([json(RECORD, 202, { ...NAMED, 'retry-after': '7' })]);
    const pending = await idempay.payments.pay(PRESENT, ORDER);
    expect(pending).toMatchObject({ state: 'pending', until: UNTIL, retryAfterSeconds: 7, key: COMPUTED_KEY });
    expect(JSON.parse(String(sent[0]?.body))).toEqual(PRESENT);
    const ofAttempt = scripted([json({ ...RECORD, ...ORDER, attempt: 2 }, 202, NAMED)]).idempay;
    expect(await ofAttempt.payments.pay(PRESENT, { ...ORDER, attempt: 2 })).toMatchObject({ state: 'pending' });
  });

  test('is believed if its key is written in another case than in the call', async () => {
    const { idempay } = scripted([json(RECORD, 202, NAMED)], { deadlineMs: 5_000 });
    expect(await idempay.payments.resume(COMPUTED_KEY.toUpperCase(), PRESENT)).toMatchObject({ state: 'pending' });
  });
});

test('a return address that is no text is refused before anything is sent', async () => {
  const { idempay, sent } = scripted([]);
  await failureOf(InvalidRequestError, idempay.payments.pay({ ...MONEY, returnUrl: null as never }, ORDER));
  expect(sent).toEqual([]);
});
