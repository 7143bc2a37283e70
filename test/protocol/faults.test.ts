import { describe, expect, test } from 'vitest';
import { StoreUnavailable } from '#idempay/faults.js';
import type { PayAnswer } from '#idempay/payments/answers.js';
import { gate } from '../../testkit/concurrency.js';
import { inState, SHORT_MS } from '../../testkit/protocol/payment-attempts.js';
import { type Composition, compose, LOST, MONEY } from '../../testkit/protocol/payment-composition.js';
import { sharePorts } from '../../testkit/protocol/ports.js';
import { until } from '../../testkit/time/until.js';
import { untilPast } from '../../testkit/time/until-past.js';

/**
 * The payment protocol when a store fails or a process stands still between two steps. Whatever happens, each test ends
 * with one transaction id and at most one charge.
 */

const DEADLINE_MS = 10_000;
/** So short that it dies within a test, and long enough that a busy machine gets to what the test is about before. */
const SHORT_LEASE_MS = 500;
/** One that dies within a test unless it is renewed, and that a busy machine still renews in time. */
const RENEWED_LEASE_MS = 20 * SHORT_MS;
const FULL = new StoreUnavailable('unchanged', 'the disk is full');

const ports = sharePorts();

async function newPayment(settings: Parameters<typeof compose>[1] = {}) {
  const process = compose(ports, settings);
  return { ...process, key: await process.payments.issueKey() };
}

/** One charge, and its transaction id is what the outcome and every repeat name. */
async function expectPaidOnce(key: string, { processor, another }: Pick<Composition, 'processor' | 'another'>) {
  const [{ transactionId } = { transactionId: '' }] = processor.charges;
  expect(transactionId).toMatch(/^TXN\d+$/);
  const { payments } = another();
  expect((await payments.outcome(key))?.outcome).toEqual({ state: 'COMPLETED', transactionId });
  expect(await payments.pay(key, MONEY)).toMatchObject({ state: 'replayed', final: { outcome: { transactionId } } });
  expect(processor.charges).toHaveLength(1);
}

describe('a store that fails', () => {
  test('and was full at the claim leaves no lock and no row, and the next payment is the first', async () => {
    const { payments, ledger, key, ...process } = await newPayment();
    ledger.failNext('claim', FULL);
    await expect(payments.pay(key, MONEY)).rejects.toBe(FULL);
    expect(await ports.keys.look(key)).toMatchObject({ state: 'generated' });
    expect(await ports.ledger.find(key)).toEqual({ state: 'absent' });
    expect(process.processor.charges).toEqual([]);
    expect(await payments.pay(key, MONEY)).toMatchObject({ state: 'processed' });
    await expectPaidOnce(key, process);
  });

  /**
   * Bug: a charge of unknown outcome was answered 503 "nothing was changed". Cause: the store failed in the look for another
   * attempt's outcome, and its fault was passed on. Fix: then the outcome is unknown, like before the look.
   */
  test('after a charge of unknown outcome leaves it unknown, never unchanged', async () => {
    const { payments, ledger, unknown, processor, key } = await newPayment();
    processor.plan({ outcome: 'succeeded', answerLost: true });
    for (const operation of ['find', 'abandon'] as const) ledger.failAll(operation, FULL);
    expect(await payments.pay(key, MONEY)).toEqual({ state: 'unknown' });
    expect(unknown).toMatchObject([{ key, cause: 'the answer was lost' }]);
  });

  test('to answer a claim charges nothing, and the row is taken over under its own id once its lease has died', async () => {
    const { payments, ledger, key, ...process } = await newPayment({ leaseMs: SHORT_LEASE_MS });
    ledger.loseNextAnswer('claim', LOST);
    await expect(payments.pay(key, MONEY)).rejects.toBe(LOST);
    expect(process.processor.charges).toEqual([]);
    await untilPast(SHORT_LEASE_MS);
    expect(await payments.pay(key, MONEY)).toMatchObject({ state: 'processed' });
    expect(process.processor.lookUps).toEqual([key]);
    await expectPaidOnce(key, process);
  });

  test('and was full at the settle is an error, leaves no lock, and the next repeat settles under the same id', async () => {
    const { payments, ledger, key, ...process } = await newPayment();
    ledger.failNext('settle', FULL);
    await expect(payments.pay(key, MONEY)).rejects.toMatchObject({ effect: 'unknown', cause: FULL });
    expect(await ports.keys.look(key)).toMatchObject({ state: 'generated' });
    expect(await ports.ledger.find(key)).toMatchObject({ state: 'abandoned' });
    expect(await payments.pay(key, MONEY)).toMatchObject({ state: 'processed' });
    expect(process.processor.lookUps).toEqual([key]);
    await expectPaidOnce(key, process);
  });

  test('to answer a settle is an error, and every repeat replays what it wrote', async () => {
    const { payments, ledger, key, ...process } = await newPayment();
    ledger.loseNextAnswer('settle', LOST);
    await expect(payments.pay(key, MONEY)).rejects.toMatchObject({ effect: 'unknown', cause: LOST });
    await expectPaidOnce(key, process);
  });

  test('at settle and abandon leaves a payment that is finished once its lease has died', async () => {
    const { payments, ledger, recovery, key, ...process } = await newPayment({ leaseMs: SHORT_LEASE_MS });
    for (const operation of ['settle', 'abandon', 'renew'] as const) ledger.failAll(operation, FULL);
    await expect(payments.pay(key, MONEY)).rejects.toMatchObject({ effect: 'unknown', cause: FULL });
    ledger.heal();
    await untilPast(SHORT_LEASE_MS);
    expect(await recovery.runOnce()).toBe(1);
    await expectPaidOnce(key, process);
  });

  test('at begin charges and claims nothing', async () => {
    const { payments, keys, processor, key } = await newPayment();
    keys.failNext('begin', FULL);
    await expect(payments.pay(key, MONEY)).rejects.toBe(FULL);
    expect(await ports.ledger.find(key)).toEqual({ state: 'absent' });
    expect(processor.charges).toEqual([]);
  });

  test('in the key store once the settle is known changes nothing: the answer is the outcome', async () => {
    const { payments, keys, key } = await newPayment();
    for (const operation of ['finish', 'release'] as const) keys.failAll(operation, FULL);
    const { final } = inState(await payments.pay(key, MONEY), 'processed');
    expect(await payments.outcome(key)).toEqual(final);
  });
});

describe('an owner', () => {
  test('renews its lease for as long as the processor works, so that nobody takes over', async () => {
    const { chargingPayment, another, processor } = compose(ports, { leaseMs: RENEWED_LEASE_MS });
    const { key, answer, finish } = await chargingPayment();
    const other = another({ leaseMs: RENEWED_LEASE_MS });
    for (let look = 0; look < 2; look += 1) {
      await untilPast(RENEWED_LEASE_MS);
      expect(await other.payments.pay(key, MONEY)).toMatchObject({ state: 'in progress' });
      expect(await other.recovery.runOnce()).toBe(0);
    }
    finish();
    expect(await answer).toMatchObject({ state: 'processed' });
    expect(processor.lookUps).toEqual([]);
    await expectPaidOnce(key, { processor, another });
  });

  /** Its charge is with the processor, its lease dies, and it hears nothing until `finish`. */
  async function givenFrozenWhileCharging() {
    const frozen = compose(ports, { leaseMs: SHORT_LEASE_MS });
    frozen.ledger.failAll('renew', FULL);
    const charging = await frozen.chargingPayment();
    const { key } = charging;
    await until('the lease to die', DEADLINE_MS, async () => (await ports.ledger.find(key)).state === 'abandoned');
    await until('the lock to end', DEADLINE_MS, async () => (await ports.keys.look(key)).state === 'generated');
    return { ...frozen, ...charging };
  }

  test('that lost its payment while it charged answers the outcome of the winner, with the same id', async () => {
    const { key, answer, finish, ...process } = await givenFrozenWhileCharging();
    // The processor has it on record already; only the answer to the first process is still on its way.
    process.processor.planLookUp(async () => ({ state: 'succeeded' }));
    const winner = await process.another().payments.pay(key, MONEY);
    expect(winner).toMatchObject({ state: 'processed' });
    finish();
    expect(await answer).toEqual({ ...winner, state: 'replayed' });
    await expectPaidOnce(key, process);
  });

  test('that lost its payment never answers its own outcome, not even where it differs', async () => {
    const { key, answer, finish, processor, another } = await givenFrozenWhileCharging();
    processor.planLookUp(async () => ({ state: 'declined', reason: 'insufficient funds' }));
    const winner = await another().payments.pay(key, MONEY);
    expect(winner).toMatchObject({ state: 'processed', final: { outcome: { state: 'DECLINED' } } });
    finish();
    expect(await answer).toEqual({ ...winner, state: 'replayed' });
  });

  test('that lost its payment answers unknown while the winner is at work, and leaves the lock of the winner', async () => {
    const { key, answer, finish, ...process } = await givenFrozenWhileCharging();
    const found = gate();
    process.processor.planLookUp(() => found.opened.then(() => ({ state: 'succeeded' })));
    const winner = process.another().payments.pay(key, MONEY);
    await until('the winner to look it up', DEADLINE_MS, () => process.processor.lookUps.length === 1);
    finish();
    expect(await answer).toEqual({ state: 'unknown' });
    expect(await ports.keys.look(key)).toMatchObject({ state: 'locked' });
    expect(await ports.ledger.find(key)).toMatchObject({ state: 'under way' });
    found.open();
    expect(await winner).toMatchObject({ state: 'processed' });
    await expectPaidOnce(key, process);
  });

  test('whose lease died settles what it charged when nobody took over', async () => {
    const { key, answer, finish, ...process } = await givenFrozenWhileCharging();
    finish();
    expect(await answer).toMatchObject({ state: 'processed' });
    await expectPaidOnce(key, process);
  });

  // The protocol, step 4: a fenced-off owner answers the outcome of the winner, also when it never sent anything.
  test('that lost its lease before the charge was sent sends nothing, and answers the outcome of the winner', async () => {
    const { payments, ledger, key, ...process } = await newPayment({ leaseMs: SHORT_LEASE_MS });
    let winner: PayAnswer | undefined;
    ledger.interruptNext('claim', async (proceed) => {
      const claimed = await proceed();
      await untilPast(SHORT_LEASE_MS);
      winner = await process.another().payments.pay(key, MONEY);
      return claimed;
    });
    const answer = await payments.pay(key, MONEY);
    expect(winner).toMatchObject({ state: 'processed' });
    expect(answer).toEqual({ ...winner, state: 'replayed' });
    await expectPaidOnce(key, process);
  });

  test('that claims after the lease of its begin is refused: no row, no charge, no lock, and the key lives on', async () => {
    const { payments, ledger, key, ...process } = await newPayment({ leaseMs: SHORT_LEASE_MS });
    ledger.interruptNext('claim', async (proceed) => {
      await untilPast(SHORT_LEASE_MS);
      return proceed();
    });
    await expect(payments.pay(key, MONEY)).rejects.toMatchObject({ effect: 'unchanged' });
    expect(process.processor.charges).toEqual([]);
    expect(await ports.ledger.find(key)).toEqual({ state: 'absent' });
    expect(await ports.keys.look(key)).toMatchObject({ state: 'generated' });
    expect(await payments.pay(key, MONEY)).toMatchObject({ state: 'processed' });
    await expectPaidOnce(key, process);
  });
});
