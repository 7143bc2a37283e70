import { describe, expect, test } from 'vitest';
import type { PayAnswer } from '#idempay/payments/answers.js';
import { inState, LONG_MS, SHORT_MS } from '../../testkit/protocol/payment-attempts.js';
import {
  type Composition,
  DOWN,
  MONEY,
  NO_MONEY,
  OTHER_MONEY,
  readyToWait,
  type Settings,
  shareProtocol,
} from '../../testkit/protocol/payment-composition.js';
import { HandClock } from '../../testkit/time/hand-clock.js';
import { until, untilPast } from '../../testkit/time/until.js';

/**
 * The repeats that are answered 409 (rules P5, P17); `test/unit/answers.test.ts` has the promises of `Retry-After`.
 *
 * Bug: after a first answer of 200 every repeat got 409 until the lease ended. Cause: the key store lost or refused the end
 * of the lock, and a lock alone decided. Fix: the row is asked before every 409, and the end of the lock is repeated.
 */

const DEADLINE_MS = 10_000;
/** One that ends within a test; the row's is renewed every third of it, also if a busy machine stops for a second. */
const OUTLIVED_LEASE_MS = 2_000;
/** Long enough for a repeat that tries more than once a second to show itself. */
const WAITED_MS = 1_200;
/** Less than the time after which a waiting repeat looks at the lock again. */
const WAIT_MS = 300;

const { ports, compose, composeWithKey, statesOf } = await shareProtocol();

function keepLocks({ keys }: Composition): void {
  for (const operation of ['finish', 'release'] as const) keys.failAll(operation, DOWN);
}

/** The outcome was answered, and the lock is still there. */
async function givenLockLeft(settings: Settings = {}) {
  const { key, another } = await composeWithKey();
  const process = another(settings);
  keepLocks(process);
  const first = await process.payments.pay({ key }, MONEY);
  expect(first).toMatchObject({ state: 'processed' });
  expect((await statesOf(key))[0]).toBe('locked');
  return { key, first, another };
}

describe('a repeat that meets a lock', () => {
  test('left alongside an acknowledged outcome replays the outcome, in every process', async () => {
    const { key, first, another } = await givenLockLeft();
    const { payments } = another();
    const replayed = { ...first, state: 'replayed' };
    expect(await payments.pay({ key }, MONEY)).toEqual(replayed);
    expect(await payments.pay({ key }, MONEY, readyToWait())).toEqual(replayed);
    expect(await payments.pay({ key }, NO_MONEY)).toEqual(replayed);
    expect(replayed).toMatchObject({ final: await payments.outcome(key) });
    const { payments: strict } = another({ payloadMismatch: 'reject' });
    for (const content of [OTHER_MONEY, NO_MONEY])
      expect(await strict.pay({ key }, content)).toEqual({ state: 'mismatch' });
    expect(await strict.pay({ key }, MONEY)).toEqual(replayed);
    expect(await statesOf(key)).toEqual(['locked', 'final']);
  });

  test('left alongside an outcome that has expired has an invalid key', async () => {
    const { key, another } = await givenLockLeft({ idempotencyTtlMs: SHORT_MS, leaseMs: LONG_MS });
    await untilPast(SHORT_MS);
    for (const content of [MONEY, NO_MONEY])
      expect(await another().payments.pay({ key }, content)).toEqual({ state: 'invalid key' });
  });

  test('is a fault while the row cannot be asked', async () => {
    const { another, chargingPayment } = compose();
    const { key, answer, finish } = await chargingPayment();
    const { payments, ledger } = another();
    ledger.failAll('find', DOWN);
    for (const content of [MONEY, NO_MONEY]) await expect(payments.pay({ key }, content)).rejects.toBe(DOWN);
    ledger.heal();
    expect(await payments.pay({ key }, MONEY)).toMatchObject({ state: 'in progress' });
    finish();
    expect(await answer).toMatchObject({ state: 'processed' });
  });

  test('of an attempt that has not claimed yet is in progress, or a mismatch', async () => {
    const { payments, ledger, another, key } = await composeWithKey();
    const { payments: strict } = another({ payloadMismatch: 'reject' });
    const repeats: PayAnswer[] = [];
    ledger.interruptNext('claim', async (proceed) => {
      for (const money of [MONEY, OTHER_MONEY]) repeats.push(await strict.pay({ key }, money));
      return proceed();
    });
    expect(await payments.pay({ key }, MONEY)).toMatchObject({ state: 'processed' });
    expect(repeats).toMatchObject([{ state: 'in progress' }, { state: 'mismatch' }]);
  });
});

test('a repeat whose wait ends is answered with the outcome of meanwhile, although nothing announced it', async () => {
  const process = compose();
  const { key, answer, finish } = await process.chargingPayment();
  keepLocks(process);
  const clock = new HandClock();
  const waiting = process.another({ clock }).payments.pay({ key }, MONEY, readyToWait(WAIT_MS));
  await until('the repeat to wait', DEADLINE_MS, () => clock.pending > 0);
  finish();
  expect(await answer).toMatchObject({ state: 'processed' });
  clock.advance(WAIT_MS);
  expect(await waiting).toMatchObject({ state: 'replayed', waited: true });
});

// A lock is not renewed (decision 0015): the row is, and says that the payment is under way. A repeat's lock is given back.
test('a payment that outlives its lock is in progress, charged once, and waited for with one more try a second', async () => {
  const { payments, processor, another, chargingPayment } = compose({ leaseMs: OUTLIVED_LEASE_MS });
  const { key, answer, finish } = await chargingPayment();
  const expectInProgress = async () => {
    for (const content of [MONEY, NO_MONEY])
      expect(await payments.pay({ key }, content)).toEqual({ state: 'in progress', retryAfterSeconds: 1 });
    expect(await payments.outcome(key)).toBeUndefined();
  };
  await expectInProgress();
  await until('the lock to end', DEADLINE_MS, async () => (await ports.keys.look(key)).state === 'generated');
  await expectInProgress();
  expect(await statesOf(key)).toEqual(['generated', 'under way']);
  const other = another({ leaseMs: OUTLIVED_LEASE_MS });
  const waiting = other.payments.pay({ key }, MONEY, readyToWait(DEADLINE_MS));
  await untilPast(WAITED_MS);
  expect(await other.recovery.runOnce()).toBe(0);
  finish();
  const { final } = inState(await answer, 'processed');
  expect(await waiting).toEqual({ state: 'replayed', final, waited: true });
  expect(other.owners.length).toBeLessThan(12);
  expect([processor.charges.length, processor.lookUps]).toEqual([1, []]);
});

// The end of a lock wakes the waiting repeats: they must find the row free, or they would wait again.
test.each(['its charge is unknown', 'its outcome cannot be written'])(
  'an attempt that gives up because %s keeps the lock until the row is abandoned',
  async (reason) => {
    const { payments, ledger, keys, processor, key } = await composeWithKey();
    if (reason === 'its charge is unknown') processor.plan({ outcome: 'succeeded', answerLost: true });
    else ledger.failNext('settle', DOWN);
    let looked: unknown;
    ledger.interruptNext('abandon', async (proceed) => {
      looked = await keys.port.look(key);
      return proceed();
    });
    await Promise.resolve(payments.pay({ key }, MONEY)).catch(() => {});
    expect(looked).toMatchObject({ state: 'locked' });
    expect(await payments.pay({ key }, MONEY)).toMatchObject({ state: 'processed' });
  },
);
