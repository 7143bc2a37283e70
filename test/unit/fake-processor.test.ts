import { expect, test } from 'vitest';
import { createFakeProcessor, type FakeProcessing } from '#idempay/testing/fake-processor.js';

const NOW = Date.UTC(2026, 10, 29);
const KEY = '0193a5b4-7c1e-7000-8000-000000000001';
const CHARGE = { key: KEY, transactionId: 'TXN1795170621886000522918', amount: '5.00', currency: 'EUR' };
const WITH_PAYER = { ...CHARGE, content: { source: 'tok_1', returnUrl: 'https://shop.example/back' } };
const ACTION = { url: 'https://bank.example/confirm' };
const OPEN = {};

const fakeWith = (...processings: FakeProcessing[]) =>
  createFakeProcessor(
    () => processings.shift(),
    () => NOW,
  );

test('a pending charge of the fake processor has the action if a payer is present, and is no charge before it is confirmed', async () => {
  const fake = fakeWith({ pending: { action: ACTION } });
  const pending = { state: 'pending', untilMs: NOW + 3_600_000, action: ACTION };
  expect(await fake.charge(WITH_PAYER)).toMatchObject(pending);
  expect(await fake.lookUp(KEY, CHARGE, OPEN)).toMatchObject(pending);
  expect([fake.charges, fake.pending]).toMatchObject([[], [{ key: KEY, source: 'tok_1' }]]);
  fake.confirm(KEY);
  expect(await fake.lookUp(KEY, CHARGE, OPEN)).toMatchObject({ state: 'succeeded' });
  expect([fake.charges, fake.pending]).toMatchObject([[{ key: KEY, amount: '5.00' }], []]);
  expect(await fake.end(CHARGE)).toMatchObject({ state: 'succeeded' });
  expect(() => fake.confirm(KEY)).toThrow(/No payment and no refund with the key/);
});

test('a pending charge of the fake processor without a payer has no action, and may be refused', async () => {
  const fake = fakeWith({ pending: { untilMs: NOW + 5, action: ACTION } });
  expect(await fake.charge(CHARGE)).toMatchObject({ state: 'pending', untilMs: NOW + 5, action: undefined });
  fake.refuse(KEY, 'no');
  expect(await fake.lookUp(KEY, CHARGE, OPEN)).toEqual({ state: 'declined', reason: 'no' });
  expect([fake.charges, fake.pending]).toEqual([[], []]);
});

test('an ending at the fake processor holds before, during and after a charge', async () => {
  const ended = { state: 'declined', reason: 'the payment was cancelled' };
  const before = fakeWith();
  expect(await before.end(CHARGE)).toEqual(ended);
  expect(await before.charge(CHARGE)).toEqual(ended);
  const during = fakeWith({ pending: {} });
  await during.charge(CHARGE);
  expect(await during.end(CHARGE)).toEqual(ended);
  expect(await during.lookUp(KEY)).toEqual(ended);
  expect(() => during.confirm(KEY)).toThrow(TypeError);
  const after = fakeWith('unknown');
  expect(await after.charge(CHARGE)).toMatchObject({ state: 'unknown' });
  expect(await after.end(CHARGE)).toEqual({ state: 'succeeded' });
  expect([before.charges, during.charges, after.charges]).toMatchObject([[], [], [{ key: KEY }]]);
});

test('a refund at the fake processor is given back once, and never more than was charged', async () => {
  const fake = fakeWith({ decline: 'no' });
  await fake.charge({ ...CHARGE, key: 'other' });
  await fake.charge(CHARGE);
  const refund = {
    key: 'f1',
    payment: KEY,
    transactionId: 'TXN2',
    amount: '3.00',
    currency: 'EUR',
    reason: 'returned',
  };
  expect(await fake.lookUpRefund('f1', KEY, refund)).toEqual({ state: 'no record' });
  for (let time = 0; time < 2; time += 1) expect(await fake.refund(refund)).toEqual({ state: 'succeeded' });
  expect(await fake.lookUpRefund('f1', KEY, refund)).toEqual({ state: 'succeeded' });
  const declined = { state: 'declined', reason: 'more than is left of the charge' };
  expect(await fake.refund({ ...refund, key: 'f2', amount: '2.01' })).toEqual(declined);
  expect(await fake.refund({ ...refund, key: 'f3', amount: '2.00' })).toEqual({ state: 'succeeded' });
  // A decline is final.
  expect(await fake.refund({ ...refund, key: 'f2', amount: '0.01' })).toEqual(declined);
  expect(fake.refunds).toMatchObject([
    { key: 'f1', payment: KEY, amount: '3.00', reason: 'returned' },
    { key: 'f3', amount: '2.00' },
  ]);
  for (const more of [{ payment: 'other' }, { currency: 'USD' }, { payment: 'none' }]) {
    const refused = await fake.refund({ ...refund, ...more, key: JSON.stringify(more), amount: '0.01' });
    expect(refused).toEqual({ state: 'declined', reason: 'there is no such charge' });
  }
});

test('a refund at the fake processor takes time, is declined, or loses its reply, as the test says', async () => {
  const fake = fakeWith(undefined, { pending: { untilMs: NOW + 5, action: ACTION } }, { decline: 'no' }, 'unknown');
  await fake.charge(CHARGE);
  const refund = { key: 'f1', payment: KEY, transactionId: 'TXN2', amount: '3.00', currency: 'EUR' };
  const pending = {
    state: 'pending',
    untilMs: NOW + 5,
    action: undefined,
    charged: { amount: '3.00', currency: 'EUR' },
  };
  for (let time = 0; time < 2; time += 1) expect(await fake.refund(refund)).toEqual(pending);
  expect(await fake.lookUpRefund('f1', KEY, refund)).toEqual(pending);
  expect([fake.refunds, fake.pendingRefunds]).toMatchObject([[], [{ key: 'f1', amount: '3.00' }]]);
  // A refund that takes time has its part of the charge.
  const declined = { state: 'declined', reason: 'more than is left of the charge' };
  expect(await fake.refund({ ...refund, key: 'f2', amount: '2.01' })).toEqual(declined);
  fake.refuse('F1', 'account closed');
  expect(await fake.lookUpRefund('f1', KEY, refund)).toEqual({ state: 'declined', reason: 'account closed' });
  expect(() => fake.confirm('f1')).toThrow(/no refund with the key/);

  expect(await fake.refund({ ...refund, key: 'f3', amount: '5.00' })).toEqual({ state: 'declined', reason: 'no' });
  expect(await fake.refund({ ...refund, key: 'f4', amount: '5.00' })).toMatchObject({ state: 'unknown' });
  expect(await fake.lookUpRefund('f4', KEY, refund)).toEqual({ state: 'succeeded' });
  expect([fake.refunds, fake.pendingRefunds]).toMatchObject([[{ key: 'f4', amount: '5.00' }], []]);
});
