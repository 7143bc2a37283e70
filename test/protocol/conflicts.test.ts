import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { StoreUnavailable } from '#idempay/faults.js';
import type { PayAnswer } from '#idempay/payments/answers.js';
import { LONG_MS, newProcessorName, SHORT_MS } from '../../testkit/protocol/payment-attempts.js';
import { type Composition, compose } from '../../testkit/protocol/payment-composition.js';
import { openEmbeddedPorts, type Ports } from '../../testkit/protocol/ports.js';
import { RecordingProcessor } from '../../testkit/protocol/recording-processor.js';
import { until } from '../../testkit/time/until.js';
import { untilPast } from '../../testkit/time/until-past.js';

/**
 * Who is told 409, and what `Retry-After` promises (decisions P5, P17).
 *
 * Bug: after a first answer of 200 every repeat got 409 until the lease ended. Cause: the key store lost or refused the end
 * of the lock, and a lock alone decided. Fix: the row is asked before every 409, and the end of the lock is repeated.
 */

const MONEY = { amount: '100.50', currency: 'USD' };
const OTHER_MONEY = { amount: '9.00', currency: 'EUR' };
const NO_MONEY = { problem: "Member 'amount' is missing." };
const DEADLINE_MS = 10_000;
const PATIENCE_MS = 300;
const HOUR_MS = 3_600_000;
/** The lease as a whole number of seconds less a bit, so that a remainder that is rounded up is more than remains. */
const ODD_LEASE_MS = 1_900;

/** One that ends within a test; the row's is renewed, also on a busy machine. */
const OUTLIVED_LEASE_MS = 600;

const AWAY = new StoreUnavailable('unchanged', 'the store is away');

let ports: Ports;
let processor: RecordingProcessor;
let key: string;

beforeAll(async () => {
  ports = await openEmbeddedPorts();
});
afterAll(() => ports.close());

async function given(settings: Parameters<typeof compose>[2] = {}): Promise<Composition> {
  processor = new RecordingProcessor(newProcessorName());
  const composition = compose(ports, processor, settings);
  key = await composition.payments.issueKey();
  return composition;
}

/** The outcome was told, and the lock is still there. */
async function givenLockLeft(settings: Parameters<typeof compose>[2] = {}): Promise<PayAnswer> {
  const { payments, keys } = await given(settings);
  for (const operation of ['finish', 'release'] as const) keys.failAll(operation, AWAY);
  const first = await payments.pay(key, MONEY);
  expect(first).toMatchObject({ state: 'processed' });
  expect(await ports.keys.look(key)).toMatchObject({ state: 'locked' });
  return first;
}

/** The first process is at work on the payment until `finish`. */
async function givenUnderWay(settings: Parameters<typeof compose>[2] = {}) {
  const composition = await given(settings);
  let finish = () => {};
  const after = new Promise<void>((resolve) => {
    finish = resolve;
  });
  processor.plan({ outcome: 'succeeded', after });
  const first = composition.payments.pay(key, MONEY);
  await until('the charge to be sent', DEADLINE_MS, () => processor.charges.length === 1);
  return { ...composition, first, finish };
}

function patience() {
  return { ms: PATIENCE_MS, gone: new AbortController().signal };
}

describe('a repeat that meets a lock', () => {
  test('left beside an outcome that was told replays the outcome, in every process', async () => {
    const first = await givenLockLeft();
    const { payments } = compose(ports, processor);
    const replayed = { ...first, state: 'replayed' };
    expect(await payments.pay(key, MONEY)).toEqual(replayed);
    expect(await payments.pay(key, MONEY, patience())).toEqual(replayed);
    expect(await payments.pay(key, NO_MONEY)).toEqual(replayed);
    expect(await ports.keys.look(key)).toMatchObject({ state: 'locked' });
  });

  test('left beside an outcome is judged by the row where a mismatch is rejected', async () => {
    await givenLockLeft();
    const { payments } = compose(ports, processor, { payloadMismatch: 'reject' });
    expect(await payments.pay(key, OTHER_MONEY)).toEqual({ state: 'mismatch' });
    expect(await payments.pay(key, NO_MONEY)).toEqual({ state: 'mismatch' });
    expect(await payments.pay(key, MONEY)).toMatchObject({ state: 'replayed' });
  });

  test('left beside an outcome that has expired is told that the key is invalid', async () => {
    await givenLockLeft({ idempotencyTtlMs: SHORT_MS, leaseMs: LONG_MS });
    await untilPast(SHORT_MS);
    const { payments } = compose(ports, processor);
    expect(await payments.pay(key, MONEY)).toEqual({ state: 'invalid key' });
    expect(await payments.pay(key, NO_MONEY)).toEqual({ state: 'invalid key' });
  });

  test('is told nothing while the row cannot be asked', async () => {
    const { first, finish } = await givenUnderWay();
    const { payments, ledger } = compose(ports, processor);
    ledger.failAll('find', AWAY);
    await expect(payments.pay(key, MONEY)).rejects.toBe(AWAY);
    await expect(payments.pay(key, NO_MONEY)).rejects.toBe(AWAY);
    ledger.heal();
    expect(await payments.pay(key, MONEY)).toMatchObject({ state: 'in progress' });
    finish();
    expect(await first).toMatchObject({ state: 'processed' });
  });

  test('of an attempt that has not claimed yet is told that it is in progress, or of a mismatch', async () => {
    const { payments, ledger } = await given();
    const { payments: strict } = compose(ports, processor, { payloadMismatch: 'reject' });
    const repeats: PayAnswer[] = [];
    ledger.interruptNext('claim', async (proceed) => {
      for (const money of [MONEY, OTHER_MONEY]) repeats.push(await strict.pay(key, money));
      return proceed();
    });
    expect(await payments.pay(key, MONEY)).toMatchObject({ state: 'processed' });
    expect(repeats).toMatchObject([{ state: 'in progress' }, { state: 'mismatch' }]);
  });
});

test('a repeat whose wait ends is told an outcome that was told meanwhile, although nobody announced it', async () => {
  const { first, finish, keys } = await givenUnderWay();
  for (const operation of ['finish', 'release'] as const) keys.failAll(operation, AWAY);
  const waiting = compose(ports, processor).payments.pay(key, MONEY, patience());
  finish();
  expect(await first).toMatchObject({ state: 'processed' });
  expect(await waiting).toMatchObject({ state: 'replayed', waited: true });
});

// A lock is not renewed (ADR 16): the row says that the payment is under way, and a repeat's lock is given back.
describe('a payment that outlives its lock', () => {
  test('is in progress to every repeat, is charged once, and leaves no lock', async () => {
    const { first, finish, payments } = await givenUnderWay({ leaseMs: OUTLIVED_LEASE_MS });
    await until('the lock to end', DEADLINE_MS, async () => (await ports.keys.look(key)).state === 'generated');
    for (const money of [MONEY, NO_MONEY])
      expect(await payments.pay(key, money)).toMatchObject({ state: 'in progress' });
    expect(await ports.keys.look(key)).toEqual({ state: 'generated' });
    finish();
    expect(await first).toMatchObject({ state: 'processed' });
    expect(await payments.pay(key, MONEY)).toMatchObject({ state: 'replayed' });
    expect(processor.charges).toHaveLength(1);
  });

  test('is waited for all the same, with at most one more try a second', async () => {
    const { first, finish } = await givenUnderWay({ leaseMs: OUTLIVED_LEASE_MS });
    const { payments, owners } = compose(ports, processor, { leaseMs: OUTLIVED_LEASE_MS });
    const waiting = payments.pay(key, MONEY, { ms: DEADLINE_MS, gone: new AbortController().signal });
    await untilPast(3 * OUTLIVED_LEASE_MS);
    finish();
    expect(await waiting).toMatchObject({ state: 'replayed', waited: true });
    expect(await first).toMatchObject({ state: 'processed' });
    expect(owners.length).toBeLessThan(12);
  });
});

test('a repeat that comes too late to take an abandoned payment over is told the outcome of whoever did', async () => {
  const { payments } = await given();
  processor.plan({ outcome: 'succeeded', answerLost: true });
  expect(await payments.pay(key, MONEY)).toEqual({ state: 'unknown' });
  const forgetful = await openEmbeddedPorts();
  try {
    const late = compose({ ...ports, keys: forgetful.keys }, processor);
    late.ledger.interruptNext('takeOver', async (proceed) => {
      expect(await payments.pay(key, MONEY)).toMatchObject({ state: 'processed' });
      return proceed();
    });
    expect(await late.payments.pay(key, MONEY)).toMatchObject({ state: 'replayed' });
  } finally {
    await forgetful.close();
  }
  expect(processor.charges).toHaveLength(1);
});

test('Retry-After is never more than what remains of the lease', async () => {
  const { first, finish } = await givenUnderWay({ leaseMs: ODD_LEASE_MS });
  // Payments of this processor take an hour, so it is the lease that bounds the answer.
  const slow = Object.assign(new RecordingProcessor(processor.name), { typicalMs: HOUR_MS });
  const { payments } = compose(ports, slow, { leaseMs: ODD_LEASE_MS });
  for (let repeat = 0; repeat < 3; repeat += 1) {
    const answer = await payments.pay(key, MONEY);
    expect(answer).toEqual({ state: 'in progress', retryAfterSeconds: 1 });
  }
  finish();
  expect(await first).toMatchObject({ state: 'processed' });
});

describe('an attempt that gives up', () => {
  /** What a repeat would find in the key store at the moment before the row is free. */
  async function lockBeforeAbandon({ keys, ledger, payments }: Composition, pay: () => Promise<unknown>) {
    let looked: unknown;
    ledger.interruptNext('abandon', async (proceed) => {
      looked = await keys.port.look(key);
      return proceed();
    });
    await pay();
    expect(await payments.pay(key, MONEY)).toMatchObject({ state: 'processed' });
    return looked;
  }

  // Its end wakes whoever waits: they must find the row free, or they would wait again.
  test('keeps the lock until the row is abandoned, when its charge is unknown', async () => {
    const composition = await given();
    processor.plan({ outcome: 'succeeded', answerLost: true });
    const looked = await lockBeforeAbandon(composition, () => composition.payments.pay(key, MONEY));
    expect(looked).toMatchObject({ state: 'locked' });
  });

  test('keeps the lock until the row is abandoned, when its outcome cannot be written', async () => {
    const composition = await given();
    composition.ledger.failNext('settle', AWAY);
    const looked = await lockBeforeAbandon(composition, () => composition.payments.pay(key, MONEY).catch(() => {}));
    expect(looked).toMatchObject({ state: 'locked' });
  });
});
