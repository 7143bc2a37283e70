import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import type { LookUpResult } from '#idempay/payments/ports/processor.js';
import { LONG_MS } from '../../testkit/protocol/payment-attempts.js';
import {
  type Composition,
  compose,
  computeRefundKey,
  MONEY,
  orderOf,
} from '../../testkit/protocol/payment-composition.js';
import { openRestoredFolder, type Restored } from '../../testkit/protocol/restored-folder.js';
import { until } from '../../testkit/time/until.js';

/** Rows of refunds were lost with a restore: the processor is asked before anything is sent, or refused (rule P26). */

const LINE = { name: 'line-2', amount: '60.00', currency: 'USD' };
const LOST = { ...LINE, name: 'line-1' };
const MADE = { state: 'succeeded', charged: { amount: LOST.amount, currency: LOST.currency } } as const;

let restored: Restored;
beforeAll(async () => {
  restored = await openRestoredFolder();
});
afterAll(() => restored.close());

async function givenPaid(): Promise<Composition & { key: string; lost: string }> {
  const process = compose(restored.ports);
  const key = await process.payments.issueKey();
  await process.payments.pay({ key }, MONEY);
  return { ...process, key, lost: computeRefundKey(key, LOST.name) };
}

test('a refund that was made is found, and not sent again', async () => {
  const { payments, processor, key, lost } = await givenPaid();
  processor.decideRefund(lost, MADE);
  expect(await payments.refund({ key }, LOST)).toMatchObject({ state: 'final', outcome: { state: 'COMPLETED' } });
  expect([processor.refunds, processor.refundLookUps.length]).toEqual([[], 1]);
  expect(await restored.ports.paymentHistory.find(key)).toMatchObject({ refundedUnits: 6000 });
});

/**
 * Bug: the refund stayed unknown for ever, and no verdict was right: with one, the books had the amount that was asked for, or nothing. Cause:
 * a refund was always compared with its row. Fix: a row that was claimed after a loss gets what was given back, as that of a payment.
 */
test('a refund that was made with another amount is kept with it', async () => {
  const { payments, processor, key, lost } = await givenPaid();
  processor.decideRefund(lost, MADE);
  const other = { ...LOST, amount: '25.00' };
  for (let time = 0; time < 2; time += 1) {
    expect(await payments.refund({ key }, other)).toEqual({ key: lost, payment: key, state: 'other amount' });
  }
  expect(await restored.ports.paymentHistory.find(lost)).toMatchObject({ state: 'COMPLETED', amount: LOST.amount });
  expect(await restored.ports.paymentHistory.find(key)).toMatchObject({ refundedUnits: 6000 });
  expect(await payments.refund({ key }, LOST)).toMatchObject({ state: 'final', isRepeat: true });
  expect(processor.refunds).toEqual([]);
});

test.each<LookUpResult>([{ state: 'succeeded' }, { ...MADE, charged: { amount: '6000', currency: 'JPY' } }])(
  'a refund stays unknown, and is not sent, if the processor says %j',
  async (said) => {
    const { payments, processor, key, lost } = await givenPaid();
    processor.decideRefund(lost, said);
    const other = { ...LOST, amount: '25.00' };
    expect(await payments.refund({ key }, other)).toEqual({ key: lost, payment: key, state: 'unknown' });
    processor.decideRefund(lost, MADE);
    expect(await payments.refund({ key }, other)).toMatchObject({ state: 'other amount' });
    expect([processor.refunds, await restored.ports.paymentHistory.find(key)]).toMatchObject([
      [],
      { refundedUnits: 6000 },
    ]);
  },
);

test('a refund that is found pending is settled with what was given back', async () => {
  const { payments, processor, key, lost } = await givenPaid();
  processor.decideRefund(lost, { ...MADE, state: 'pending', untilMs: 0 });
  expect(await payments.refund({ key }, LOST)).toMatchObject({ state: 'pending' });
  processor.decideRefund(lost, { ...MADE, charged: { ...MADE.charged, amount: '59.00' } });
  const later = compose(restored.ports, {}, processor).payments;
  expect(await later.refund({ key }, LOST)).toMatchObject({ state: 'other amount' });
  expect(await restored.ports.paymentHistory.find(key)).toMatchObject({ refundedUnits: 5900 });
});

/**
 * Bug: an operator's decline was written of a refund that the processor called pending, with another amount than was asked for: its row was not
 * pending, because the reply counted as unknown. Fix: it is pending with the amount of its row, until it ends.
 */
test('an operator cannot decline a refund that waits with another amount', async () => {
  const { payments, records, processor, key, lost } = await givenPaid();
  processor.decideRefund(lost, { ...MADE, state: 'pending', untilMs: Date.now() + LONG_MS });
  const other = { ...LOST, amount: '25.00' };
  expect(await payments.refund({ key }, other)).toMatchObject({ state: 'pending' });
  const declined = { state: 'DECLINED', reason: 'not there' } as const;
  expect(await records.resolve(lost, declined)).toMatchObject({ state: 'too early', isPending: true });
  expect(await restored.ports.paymentHistory.find(key)).toMatchObject({ refundedUnits: 2500 });
  processor.decideRefund(lost, MADE);
  expect(await records.resolve(lost, declined)).toMatchObject({ state: 'final', payment: { state: 'COMPLETED' } });
  expect(await restored.ports.paymentHistory.find(key)).toMatchObject({ refundedUnits: 6000 });
  expect(await payments.refund({ key }, other)).toMatchObject({ state: 'other amount' });
});

/**
 * Bug: the shop that asked with the amount that was given back was told that another one was, and to use another name, while a request with the
 * wrong amount was under way. Cause: its row has what it asked for until its execution has found out (found: simulator, seeds 70259 and 70715).
 */
test('a refund is not told to have another amount while the row of a wrong one is under way', async () => {
  const { payments, processor, key, lost } = await givenPaid();
  processor.decideRefund(lost, MADE);
  let answer: (said: LookUpResult) => void = () => {};
  processor.planRefundLookUp(
    () =>
      new Promise((resolve) => {
        answer = resolve;
      }),
  );
  const wrong = payments.refund({ key }, { ...LOST, amount: '25.00' });
  await until('the look-up', LONG_MS, () => processor.refundLookUps.length > 0);
  expect(await payments.refund({ key }, LOST)).toMatchObject({ state: 'in progress' });
  answer(MADE);
  expect(await wrong).toMatchObject({ state: 'other amount' });
  expect(await payments.refund({ key }, LOST)).toMatchObject({ state: 'final', outcome: { state: 'COMPLETED' } });
});

test('a refund is not told to have another amount while the row of a wrong one is pending', async () => {
  const { payments, processor, key, lost } = await givenPaid();
  processor.decideRefund(lost, { state: 'pending', untilMs: Date.now() + LONG_MS });
  expect(await payments.refund({ key }, { ...LOST, amount: '25.00' })).toMatchObject({ state: 'pending' });
  expect(await payments.refund({ key }, LOST)).toEqual({ key: lost, payment: key, state: 'unknown' });
  processor.decideRefund(lost, MADE);
  const later = compose(restored.ports, {}, processor).payments;
  expect(await later.refund({ key }, LOST)).toMatchObject({ state: 'final', outcome: { state: 'COMPLETED' } });
});

test('an operator cannot decline a refund that was made with another amount', async () => {
  const { payments, records, processor, key, lost } = await givenPaid();
  processor.planRefundLookUp({ state: 'unknown', cause: 'it is down' });
  expect(await payments.refund({ key }, { ...LOST, amount: '25.00' })).toMatchObject({ state: 'unknown' });
  processor.decideRefund(lost, MADE);
  expect(await records.resolve(lost, { state: 'DECLINED', reason: 'not there' })).toMatchObject({
    state: 'final',
    payment: { state: 'COMPLETED', amount: LOST.amount },
  });
});

test('a refund that has no part left is not refused as too much if it was made with another amount', async () => {
  const { payments, processor, key, lost } = await givenPaid();
  await payments.refund({ key }, LINE);
  processor.decideRefund(lost, { ...MADE, charged: { ...MADE.charged, amount: '10.00' } });
  expect(await payments.refund({ key }, LOST)).toEqual({ key: lost, payment: key, state: 'other amount' });
  expect(await restored.ports.paymentHistory.find(lost)).toBeUndefined();
});

test('a refund that has no part left is unknown if it was made in another currency', async () => {
  const { payments, processor, key, lost } = await givenPaid();
  await payments.refund({ key }, LINE);
  processor.decideRefund(lost, { ...MADE, charged: { amount: '6000', currency: 'JPY' } });
  expect(await payments.refund({ key }, LOST)).toEqual({ key: lost, payment: key, state: 'unknown' });
});

test('a refund that the processor has no record of is sent once', async () => {
  const { payments, processor, key } = await givenPaid();
  for (let time = 0; time < 2; time += 1) {
    expect(await payments.refund({ key }, LOST)).toMatchObject({ state: 'final', outcome: { state: 'COMPLETED' } });
  }
  expect([processor.refunds.length, processor.refundLookUps.length]).toEqual([1, 1]);
});

test('a refund that the processor gives no answer about is not sent', async () => {
  const { payments, processor, key } = await givenPaid();
  processor.planRefundLookUp({ state: 'unknown', cause: 'it is down' });
  expect(await payments.refund({ key }, LOST)).toMatchObject({ state: 'unknown' });
  expect(processor.refunds).toEqual([]);
  expect(await payments.refund({ key }, LOST)).toMatchObject({ state: 'final', outcome: { state: 'COMPLETED' } });
  expect(processor.refunds).toHaveLength(1);
});

test.each(['succeeded', 'pending'] as const)(
  'a refund that is %s is not refused as too much while another one has its part',
  async (state) => {
    const { payments, processor, key, lost } = await givenPaid();
    processor.planRefund({ outcome: 'pending' });
    expect(await payments.refund({ key }, LINE)).toMatchObject({ state: 'pending' });
    processor.decideRefund(lost, state === 'pending' ? { ...MADE, state, untilMs: Date.now() } : MADE);
    expect(await payments.refund({ key }, LOST)).toEqual({ key: lost, payment: key, state: 'unknown' });
    processor.decideRefund(computeRefundKey(key, LINE.name), { state: 'declined', reason: 'more than is left' });
    processor.decideRefund(lost, MADE);
    const { another } = { another: compose(restored.ports, {}, processor).payments };
    expect(await another.refund({ key }, LINE)).toMatchObject({ outcome: { state: 'DECLINED' } });
    expect(await another.refund({ key }, LOST)).toMatchObject({ outcome: { state: 'COMPLETED' } });
    expect(processor.refunds).toHaveLength(1);
  },
);

test('a refund is not refused as too much while the processor does not say what became of it', async () => {
  const { payments, processor, key, lost } = await givenPaid();
  await payments.refund({ key }, LINE);
  processor.planRefundLookUp({ state: 'unknown', cause: 'it is down' });
  expect(await payments.refund({ key }, LOST)).toEqual({ key: lost, payment: key, state: 'unknown' });
  expect(processor.refunds).toHaveLength(1);
});

const NO_PAYMENT = { state: 'no payment', mayBeLost: true };

test('a refund of a payment whose row may be lost says so', async () => {
  const { payments, processor } = compose(restored.ports);
  expect(await payments.refund(orderOf(), LINE)).toEqual(NO_PAYMENT);
  expect([processor.refunds, processor.refundLookUps]).toEqual([[], []]);
});

test('a refund says so too if the row was lost after it was read', async () => {
  const before = await openRestoredFolder();
  onTestFinished(() => before.close());
  const { payments, processor } = compose(before.ports);
  const order = orderOf();
  expect(await payments.pay(order, MONEY)).toMatchObject({ state: 'processed' });
  const after = compose({ ...restored.ports, paymentHistory: before.ports.paymentHistory }, {}, processor);
  expect(await after.payments.refund(order, LINE)).toEqual(NO_PAYMENT);
  expect([processor.refunds, processor.refundLookUps]).toEqual([[], []]);
});

/**
 * Bug: a refund of an order was refused for good, because it charged nothing. Cause: the row of the attempt that was paid was lost, and the
 * declined one before it was the newest. Fix: a declined attempt is not the last one if the next may be lost.
 */
test('a refund of an order whose paid attempt may be lost says so, and by its key it is of the declined one', async () => {
  const { payments, processor } = compose(restored.ports);
  const order = orderOf();
  processor.plan({ outcome: 'declined' });
  expect(await payments.pay(order, MONEY)).toMatchObject({ final: { outcome: { state: 'DECLINED' } } });
  expect(await payments.refund(order, LINE)).toEqual(NO_PAYMENT);
  expect(await payments.refund({ key: order.key }, LINE)).toMatchObject({ state: 'not completed' });
  expect([processor.refunds, processor.refundLookUps]).toEqual([[], []]);
});

test('a refund that was never made is refused as too much', async () => {
  const { payments, processor, key } = await givenPaid();
  await payments.refund({ key }, LINE);
  expect(await payments.refund({ key }, LOST)).toEqual({ state: 'too much', left: '40.50', currency: 'USD' });
  expect(processor.refunds).toHaveLength(1);
});
