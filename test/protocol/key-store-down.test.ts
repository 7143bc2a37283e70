import { describe, expect, test } from 'vitest';
import { gate } from '../../testkit/concurrency.js';
import { newKey, SHORT_MS } from '../../testkit/protocol/payment-attempts.js';
import { DOWN, LOST, MONEY, NO_MONEY, readyToWait, shareProtocol } from '../../testkit/protocol/payment-composition.js';
import { sharePorts } from '../../testkit/protocol/ports.js';
import { until, untilPast } from '../../testkit/time/until.js';

const DEADLINE_MS = 10_000;
const BUG = new Error('a bug');
const COMPLETED = { outcome: { state: 'COMPLETED' } };

const { ports, compose, composeWithKey } = await shareProtocol();
/** A key store that has never heard of any key, as after all of it was lost. */
const { keys: emptyKeys } = await sharePorts();

describe('a key store that is down', () => {
  test('leaves no lock when the answer of a begin is lost', async () => {
    const { key, payments, keys } = await composeWithKey();
    keys.loseNextAnswer('begin', LOST);
    await expect(payments.pay({ key }, MONEY)).rejects.toBe(LOST);
    await until('the lock to be released', DEADLINE_MS, async () => (await ports.keys.look(key)).state === 'generated');
  });

  test('lets outcomes be answered from the row, and begins nothing; a bug in it is thrown', async () => {
    const { key, payments, keys, processor } = await composeWithKey();
    await payments.pay({ key }, MONEY);
    const other = await payments.issueKey();
    for (const operation of ['begin', 'look'] as const) keys.failAll(operation, DOWN);
    for (const request of [MONEY, NO_MONEY]) {
      expect(await payments.pay({ key }, request)).toMatchObject({ state: 'replayed', final: COMPLETED });
      await expect(payments.pay({ key: other }, request)).rejects.toBe(DOWN);
    }
    expect(await payments.outcome(key)).toMatchObject(COMPLETED);
    expect(await payments.outcome(other)).toBeUndefined();
    expect(processor.charges).toHaveLength(1);
    for (const operation of ['begin', 'look'] as const) keys.failAll(operation, BUG);
    for (const request of [MONEY, NO_MONEY]) await expect(payments.pay({ key }, request)).rejects.toBe(BUG);
    await expect(payments.outcome(key)).rejects.toBe(BUG);
  });
});

/**
 * Bug: a key store that had lost an outcome did not get it from a look at the payment, so the key stayed "KEY GENERATED" next to a payment that
 * is COMPLETED, and each look read the row. Fix: a look writes it, as a repeat does.
 */
test('a key store that has lost an outcome gets it by a look at the payment', async () => {
  const { key, payments, another } = await composeWithKey();
  expect(await payments.pay({ key }, MONEY)).toMatchObject({ state: 'processed' });
  expect(await emptyKeys.look(key)).toEqual({ state: 'absent' });
  expect(await another({}, emptyKeys).payments.outcome(key)).toMatchObject(COMPLETED);
  expect(await emptyKeys.look(key)).toMatchObject({ state: 'final' });
});

test('a request whose content cannot be paid is answered by the state of its key first', async () => {
  const { key, payments, another } = await composeWithKey();
  expect(await payments.pay({ key }, NO_MONEY)).toEqual({ state: 'invalid content', ...NO_MONEY });
  expect(await payments.pay({ key: newKey() }, NO_MONEY)).toEqual({ state: 'invalid key' });
  await payments.pay({ key }, MONEY);
  expect(await payments.pay({ key }, NO_MONEY)).toMatchObject({ state: 'replayed' });
  const short = another({ idempotencyTtlMs: SHORT_MS });
  const expired = await payments.issueKey();
  expect(await short.payments.pay({ key: expired }, MONEY)).toMatchObject({ state: 'processed' });
  await untilPast(SHORT_MS);
  expect(await short.payments.pay({ key: expired }, NO_MONEY)).toEqual({ state: 'invalid key' });
});

describe('a request that waits for another attempt', () => {
  /** Another one is charging; this one has met it and waits. */
  async function givenWaiter(ms?: number) {
    const owner = compose();
    const { key, ...charging } = await owner.chargingPayment();
    const waiter = owner.another();
    const met = gate();
    waiter.ledger.interruptNext('find', (proceed) => proceed().finally(met.open));
    const waited = waiter.payments.pay({ key }, MONEY, readyToWait(ms));
    await met.opened;
    return { waiter, waited, ...charging };
  }

  test('waits through a fault of the store, and reports one that lasts', async () => {
    const through = await givenWaiter();
    through.waiter.keys.failNext('begin', DOWN);
    through.waiter.ledger.failNext('find', DOWN);
    through.finish();
    expect(await through.waited).toMatchObject({ state: 'replayed', waited: true });

    const lasting = await givenWaiter(20 * SHORT_MS);
    lasting.waiter.keys.failAll('begin', DOWN);
    lasting.waiter.ledger.failAll('find', DOWN);
    lasting.finish();
    await expect(lasting.waited).rejects.toBe(DOWN);
  });

  test('does not wait through a bug', async () => {
    const { waiter, waited, finish } = await givenWaiter();
    waiter.keys.failAll('begin', BUG);
    finish();
    await expect(waited).rejects.toBe(BUG);
  });
});
