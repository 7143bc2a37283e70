import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { inState, newReference } from '../../testkit/protocol/payment-attempts.js';
import { type Composition, compose, MONEY, OTHER_MONEY, orderOf } from '../../testkit/protocol/payment-composition.js';
import { openRestoredFolder, type Restored } from '../../testkit/protocol/restored-folder.js';

/**
 * Payments that are pending at the processor, and whose rows were lost with a restore: the processor is asked first, and a row that was claimed
 * since may have another amount than the charge (rules P22, P24 and P25).
 */

const CANCELLED = { state: 'cancelled' };
const NO_ANSWER = { state: 'unknown', cause: 'no answer' } as const;
const SUCCEEDED = { state: 'succeeded', charged: MONEY } as const;
/** A reply that does not say which amount was charged. */
const OF_SOME_AMOUNT = { state: 'succeeded' } as const;

let restored: Restored;
let process: Composition;
beforeAll(async () => {
  restored = await openRestoredFolder();
});
beforeEach(() => {
  process = compose(restored.ports);
});
afterAll(() => restored.close());

const nextOf = ({ reference }: ReturnType<typeof orderOf>) => orderOf(reference.text, reference.attempt + 1);
const rowOf = (key: string) => restored.ports.paymentHistory.find(key);
const stateOf = async (key: string) => (await restored.ports.ledger.find(key)).state;

/** The processor has it, and no row does. */
async function pendingBefore(order = orderOf()) {
  process.processor.plan({ outcome: 'pending' });
  await process.processor.charge({ key: order.key, transactionId: 'TXN1', ...MONEY });
  return order;
}

/** Its row was lost, and it was claimed again with another amount while the processor did not answer. */
async function claimedAgain() {
  const order = await pendingBefore();
  process.processor.planLookUp(NO_ANSWER);
  inState(await process.payments.pay(order, OTHER_MONEY), 'unknown');
  return order;
}

test('a cancellation ends it, with what the processor says of it, and closes the order', async () => {
  const { payments, processor } = process;
  const order = await pendingBefore();
  processor.planEnd(NO_ANSWER);
  expect(await payments.cancel(order)).toEqual({ state: 'unknown' });
  expect(await stateOf(order.key)).toBe('pending');
  expect(await payments.cancel(order)).toEqual(CANCELLED);
  const asked = { key: order.key, ...MONEY, id: 'pi_1' };
  expect(processor.endings).toMatchObject([asked, asked]);
  expect(await rowOf(order.key)).toMatchObject({ state: 'DECLINED', ending: 'order', ...MONEY });
  expect(await stateOf(nextOf(order).key)).toBe('cancelled');
  expect(processor.charges).toHaveLength(1);
});

test('a cancellation of only this attempt ends it, and another one may be paid', async () => {
  const { payments, processor } = process;
  const order = await pendingBefore();
  expect(await payments.cancel(order, 'attempt')).toEqual(CANCELLED);
  expect(processor.endings).toMatchObject([{ key: order.key, ...MONEY }]);
  expect(await payments.pay(nextOf(order), MONEY)).toMatchObject({ state: 'processed' });
});

test.each([undefined, 'attempt'] as const)('the attempts before it were declined (only: %s)', async (only) => {
  const { payments } = process;
  const text = newReference();
  const third = await pendingBefore(orderOf(text, 3));
  expect(await payments.cancel(third, only)).toEqual(CANCELLED);
  for (const attempt of [1, 2]) {
    const known = { state: 'DECLINED', resolution: expect.stringContaining('attempt 3') };
    expect(await rowOf(orderOf(text, attempt).key)).toMatchObject(known);
  }
});

test('a cancellation of an order that the processor gives no answer about writes nothing', async () => {
  const { payments, processor } = process;
  const order = orderOf();
  processor.planLookUp(NO_ANSWER);
  expect(await payments.cancel(order)).toEqual({ state: 'unknown' });
  expect(await stateOf(order.key)).toBe('absent');
});

test.each([undefined, 'attempt'] as const)('it is left alone if its amount is not known (only: %s)', async (only) => {
  const { payments, processor } = process;
  processor.tellsAmounts = false;
  const order = await pendingBefore();
  expect(await payments.cancel(order, only)).toEqual({ state: 'unknown' });
  expect([processor.endings, await stateOf(order.key)]).toEqual([[], 'absent']);
});

test.each([
  [NO_ANSWER, 'unknown'],
  [{ state: 'no record' }, 'nothing to end'],
  [SUCCEEDED, 'charged before'],
] as const)(
  'a cancellation of only an attempt of which the processor says %j is answered as %s',
  async (said, state) => {
    const { payments, processor } = process;
    const order = orderOf();
    processor.planLookUp(said);
    expect(await payments.cancel(order, 'attempt')).toEqual({ state });
    expect([processor.endings, await stateOf(order.key)]).toEqual([[], 'absent']);
  },
);

test('a payment for whose new row nothing was sent is ended by the processor, which may have the lost one', async () => {
  const { payments, processor } = process;
  const order = await claimedAgain();
  expect(await payments.cancel(order)).toEqual(CANCELLED);
  expect(processor.endings).toHaveLength(1);
});

test('a new row with another amount is found pending, and gets what was charged', async () => {
  const { payments, processor } = process;
  const order = await claimedAgain();
  expect(await payments.pay(order, OTHER_MONEY)).toEqual({ state: 'reference mismatch' });
  expect(await rowOf(order.key)).toMatchObject({ state: 'PROCESSING', ...MONEY });
  processor.decide(order.key, OF_SOME_AMOUNT);
  const { another } = process;
  expect(await another().payments.pay(order, MONEY)).toEqual({ state: 'unknown' });
  expect(await rowOf(order.key)).toMatchObject({ state: 'PROCESSING' });
  processor.decide(order.key, SUCCEEDED);
  expect(await another().payments.pay(order, MONEY)).toMatchObject({ state: 'processed' });
  expect(await rowOf(order.key)).toMatchObject({ state: 'COMPLETED', ...MONEY });
  expect(processor.charges).toHaveLength(1);
});

test.each([SUCCEEDED, { state: 'declined', reason: 'the payer refused' }] as const)(
  'no verdict of an operator is written for a new row if the processor answers once that it is $state, and not again',
  async (said) => {
    const { processor, records } = process;
    const order = await claimedAgain();
    const verdict = { state: 'DECLINED', reason: 'not on the statement' } as const;
    processor.planLookUp(said, NO_ANSWER);
    expect(await records.resolve(order.key, verdict)).toEqual({ state: 'in progress', retryAfterSeconds: 1 });
    processor.decide(order.key, said);
    expect(await records.resolve(order.key, verdict)).toMatchObject({ state: 'final' });
    const charged = said.state === 'succeeded' ? { state: 'COMPLETED', ...MONEY } : { state: 'DECLINED' };
    expect(await rowOf(order.key)).toMatchObject({ ...charged, resolution: undefined });
  },
);

test('an ending that finds it paid looks up the amount, and settles nothing without one', async () => {
  const { payments, processor } = process;
  const order = await claimedAgain();
  processor.planEnd(OF_SOME_AMOUNT, OF_SOME_AMOUNT);
  processor.planLookUp(OF_SOME_AMOUNT);
  expect(await payments.cancel(order)).toEqual({ state: 'unknown' });
  expect(await rowOf(order.key)).toMatchObject({ state: 'PROCESSING', ending: 'order' });
  processor.decide(order.key, SUCCEEDED);
  expect(await payments.cancel(order)).toMatchObject({ state: 'completed' });
  expect(await rowOf(order.key)).toMatchObject({ state: 'COMPLETED', ...MONEY });
});

test('an operator may resolve at once what an ending found paid, although the look-up of the amount got no answer', async () => {
  const { payments, processor, records } = process;
  const order = await claimedAgain();
  const verdict = { state: 'COMPLETED', reason: 'on the statement' } as const;
  processor.planLookUp(NO_ANSWER, NO_ANSWER, NO_ANSWER);
  processor.planEnd(OF_SOME_AMOUNT);
  expect(await payments.cancel(order)).toEqual({ state: 'unknown' });
  expect(await records.resolve(order.key, verdict)).toMatchObject({ state: 'resolved' });
});
