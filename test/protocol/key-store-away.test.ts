import { describe, expect, test } from 'vitest';
import type { PayAnswer } from '#idempay/payments/answers.js';
import { inState, LONG_MS, newKey, SHORT_MS } from '../../testkit/protocol/payment-attempts.js';
import { AWAY, compose, LOST, MONEY } from '../../testkit/protocol/payment-composition.js';
import { sharePorts } from '../../testkit/protocol/ports.js';
import { until } from '../../testkit/time/until.js';
import { untilPast } from '../../testkit/time/until-past.js';

const DEADLINE_MS = 10_000;
const BUG = new Error('a bug');
const PROBLEM = { problem: 'the amount is no number' };
const COMPLETED = { outcome: { state: 'COMPLETED' } };

const ports = sharePorts();

async function newPayment(settings: Parameters<typeof compose>[1] = {}) {
  const process = compose(ports, settings);
  return { ...process, key: await process.payments.issueKey() };
}

describe('a key store that is away', () => {
  test('leaves no lock when the answer of a begin is lost', async () => {
    const { key, payments, keys } = await newPayment();
    keys.loseNextAnswer('begin', LOST);
    await expect(payments.pay(key, MONEY)).rejects.toBe(LOST);
    await until('the lock to be released', DEADLINE_MS, async () => (await ports.keys.look(key)).state === 'generated');
  });

  test('lets outcomes be answered from the row, and begins nothing', async () => {
    const { key, payments, keys, processor } = await newPayment();
    await payments.pay(key, MONEY);
    const other = await payments.issueKey();
    for (const operation of ['begin', 'look'] as const) keys.failAll(operation, AWAY);
    expect(await payments.pay(key, MONEY)).toMatchObject({ state: 'replayed', final: COMPLETED });
    expect(await payments.pay(key, PROBLEM)).toMatchObject({ state: 'replayed', final: COMPLETED });
    expect(await payments.outcome(key)).toMatchObject(COMPLETED);
    for (const request of [MONEY, PROBLEM]) await expect(payments.pay(other, request)).rejects.toBe(AWAY);
    expect(await payments.outcome(other)).toBeUndefined();
    expect(processor.charges).toHaveLength(1);
  });

  test('is not what a bug in it is taken for', async () => {
    const { key, payments, keys } = await newPayment();
    await payments.pay(key, MONEY);
    for (const operation of ['begin', 'look'] as const) keys.failAll(operation, BUG);
    for (const request of [MONEY, PROBLEM]) await expect(payments.pay(key, request)).rejects.toBe(BUG);
    await expect(payments.outcome(key)).rejects.toBe(BUG);
  });
});

describe('a request whose content cannot be paid', () => {
  test('is answered by the state of its key first', async () => {
    const { key, payments, another } = await newPayment();
    expect(await payments.pay(key, PROBLEM)).toEqual({ state: 'invalid content', ...PROBLEM });
    expect(await payments.pay(newKey(), PROBLEM)).toEqual({ state: 'invalid key' });
    await payments.pay(key, MONEY);
    expect(await payments.pay(key, PROBLEM)).toMatchObject({ state: 'replayed' });
    const short = another({ idempotencyTtlMs: SHORT_MS });
    const expired = await short.payments.issueKey();
    await short.payments.pay(expired, MONEY);
    await untilPast(SHORT_MS);
    expect(await short.payments.pay(expired, PROBLEM)).toEqual({ state: 'invalid key' });
  });

  test('is in progress while its payment is, also when the lock was lost', async () => {
    const owner = compose(ports);
    const { key, answer, finish } = await owner.chargingPayment();
    const expected = { state: 'in progress', retryAfterSeconds: 1 };
    expect(await owner.payments.pay(key, PROBLEM)).toEqual(expected);
    await ports.keys.release(key, owner.owners[0] ?? '');
    for (const request of [PROBLEM, MONEY]) expect(await owner.payments.pay(key, request)).toEqual(expected);
    finish();
    expect(await answer).toMatchObject({ state: 'processed' });
  });
});

describe('a request that waits for another attempt', () => {
  const patience = (ms = LONG_MS) => ({ ms, gone: new AbortController().signal });

  /** Another one is charging; this one has met it and waits. */
  async function givenWaiter(ms?: number) {
    const owner = compose(ports);
    const { key, answer, finish } = await owner.chargingPayment();
    const waiter = owner.another();
    let hasMet = false;
    waiter.ledger.interruptNext('find', (proceed) =>
      proceed().finally(() => {
        hasMet = true;
      }),
    );
    const waited: Promise<PayAnswer> = waiter.payments.pay(key, MONEY, patience(ms));
    await until('the wait to begin', DEADLINE_MS, () => hasMet);
    return { owner, waiter, waited, answer, finish, key };
  }

  test('is answered with the outcome when that is known', async () => {
    const { waited, answer, finish } = await givenWaiter();
    finish();
    const { final } = inState(await answer, 'processed');
    expect(await waited).toEqual({ state: 'replayed', final, waited: true });
  });

  test('waits through a fault of the store, and reports one that lasts', async () => {
    const through = await givenWaiter();
    through.waiter.keys.failNext('begin', AWAY);
    through.waiter.ledger.failNext('find', AWAY);
    through.finish();
    expect(await through.waited).toMatchObject({ state: 'replayed', waited: true });

    const lasting = await givenWaiter(20 * SHORT_MS);
    lasting.waiter.keys.failAll('begin', AWAY);
    lasting.waiter.ledger.failAll('find', AWAY);
    lasting.finish();
    await expect(lasting.waited).rejects.toBe(AWAY);
  });

  test('does not wait through a bug', async () => {
    const { waiter, waited, finish } = await givenWaiter();
    waiter.keys.failAll('begin', BUG);
    finish();
    await expect(waited).rejects.toBe(BUG);
  });
});
