import { afterAll, beforeAll, expect, test } from 'vitest';
import { StoreUnavailable } from '#idempay/faults.js';
import { givenClaim, LONG_MS, newKey, newProcessorName } from '../../testkit/protocol/payment-attempts.js';
import { compose } from '../../testkit/protocol/payment-composition.js';
import { openEmbeddedPorts, type Ports } from '../../testkit/protocol/ports.js';
import { RecordingProcessor } from '../../testkit/protocol/recording-processor.js';
import { until } from '../../testkit/time/until.js';

/** Decisions P16: so many attempts of requests at once, and no more; what is turned away has changed nothing. */

const MONEY = { amount: '100.50', currency: 'USD' };
const LIMIT = 3;
const DEADLINE_MS = 10_000;

let ports: Ports;

beforeAll(async () => {
  ports = await openEmbeddedPorts();
});
afterAll(() => ports.close());

/** A process with as many payments under way as there may be. `end` lets them end. */
async function givenFull() {
  const processor = new RecordingProcessor(newProcessorName());
  const process = compose(ports, processor, { maxInFlight: LIMIT });
  let end = () => {};
  const after = new Promise<void>((resolve) => {
    end = resolve;
  });
  const paying = Array.from({ length: LIMIT }, async () => {
    processor.plan({ outcome: 'succeeded', after });
    return process.payments.pay(await process.payments.issueKey(), MONEY);
  });
  await until('the charges to be sent', DEADLINE_MS, () => processor.charges.length === LIMIT);
  return { ...process, processor, paying, end };
}

test('a payment beyond the limit is not begun: no row, no lock, and its key can be paid afterwards', async () => {
  const { payments, paying, end, processor } = await givenFull();
  const key = await payments.issueKey();
  for (let repeat = 0; repeat < 3; repeat += 1) {
    expect(await payments.pay(key, MONEY)).toEqual({ state: 'busy', retryAfterSeconds: expect.any(Number) });
  }
  expect(await ports.ledger.find(key)).toEqual({ state: 'absent' });
  expect(await ports.keys.look(key)).toMatchObject({ state: 'generated' });
  end();
  for (const paid of await Promise.all(paying)) expect(paid).toMatchObject({ state: 'processed' });
  expect(await payments.pay(key, MONEY)).toMatchObject({ state: 'processed' });
  expect(processor.charges).toHaveLength(LIMIT + 1);
});

test('many at once are never more under way than the limit, and those turned away can all be paid', async () => {
  const processor = new RecordingProcessor(newProcessorName());
  const { payments } = compose(ports, processor, { maxInFlight: LIMIT });
  const keys = await Promise.all(Array.from({ length: 40 }, () => payments.issueKey()));
  const answers = await Promise.all(keys.map((key) => payments.pay(key, MONEY)));
  const turnedAway = keys.filter((_, index) => answers[index]?.state === 'busy');
  expect(turnedAway.length).toBeGreaterThanOrEqual(keys.length - LIMIT - processor.charges.length);
  for (const key of turnedAway) expect(await payments.pay(key, MONEY)).toMatchObject({ state: 'processed' });
  expect(new Set(processor.charges.map(({ reference }) => reference)).size).toBe(keys.length);
  expect(processor.charges).toHaveLength(keys.length);
});

test('replays, conflicts, invalid keys and outcomes are told at the limit as ever', async () => {
  const { payments, paying, end, processor } = await givenFull();
  const other = compose(ports, processor);
  const paid = await other.payments.issueKey();
  await other.payments.pay(paid, MONEY);
  expect(await payments.pay(paid, MONEY)).toMatchObject({ state: 'replayed' });
  expect(await payments.outcome(paid)).toMatchObject({ outcome: { state: 'COMPLETED' } });
  const [underWay] = processor.charges;
  expect(await payments.pay(underWay?.reference ?? '', MONEY)).toMatchObject({ state: 'in progress' });
  expect(await payments.pay(newKey(), MONEY)).toEqual({ state: 'invalid key' });
  const bad = await payments.issueKey();
  expect(await payments.pay(bad, { problem: 'no amount' })).toMatchObject({ state: 'invalid content' });
  end();
  await Promise.all(paying);
});

test('an outcome that the key store was not told of is repeated at the limit, and told to it', async () => {
  const { payments, paying, end, processor } = await givenFull();
  const other = compose(ports, processor);
  const key = await other.payments.issueKey();
  other.keys.failAll('finish', new StoreUnavailable('unchanged', 'the key store is away'));
  const first = await other.payments.pay(key, MONEY);
  // Its lock as well as its record were not told; the lock has ended with time.
  await ports.keys.release(key, other.owners[0] ?? '');
  expect(await payments.pay(key, MONEY)).toEqual({ ...first, state: 'replayed' });
  expect(await ports.keys.look(key)).toMatchObject({ state: 'final' });
  end();
  await Promise.all(paying);
});

/**
 * Bug: a repeat of a payment that may have been charged was told that nothing had been begun. Cause: at the limit a taken lock
 * counted as a first payment. Fix: the row decides.
 */
test.each([
  ['unknown to the key store', false],
  ['that the key store still has as generated', true],
])('a repeat of an abandoned payment %s is in progress at the limit, and recovery finishes it', async (_, issued) => {
  const { payments, recovery, paying, end, processor } = await givenFull();
  const key = issued ? await payments.issueKey() : newKey();
  const claim = await givenClaim(ports.ledger, { key, processor: processor.name });
  await ports.ledger.abandon(claim, 0);
  expect(await payments.pay(key, MONEY)).toMatchObject({ state: 'in progress' });
  expect(await recovery.runOnce()).toBe(1);
  expect(await payments.pay(key, MONEY)).toMatchObject({ state: 'replayed' });
  end();
  await Promise.all(paying);
});

test('a row that cannot be asked at the limit is a fault, and the lock is given back', async () => {
  const { payments, ledger, paying, end } = await givenFull();
  const key = await payments.issueKey();
  ledger.failNext('find', new StoreUnavailable('unchanged', 'the database is away'));
  await expect(payments.pay(key, MONEY)).rejects.toThrow('the database is away');
  expect(await ports.keys.look(key)).toMatchObject({ state: 'generated' });
  end();
  await Promise.all(paying);
});

test('a payment that fails gives its place back', async () => {
  const processor = new RecordingProcessor(newProcessorName());
  const { payments, ledger } = compose(ports, processor, { maxInFlight: 1, leaseMs: LONG_MS });
  const key = await payments.issueKey();
  ledger.failNext('claim', new StoreUnavailable('unchanged', 'the disk is full'));
  await expect(payments.pay(key, MONEY)).rejects.toThrow('the disk is full');
  processor.plan({ outcome: 'not sent' });
  expect(await payments.pay(key, MONEY)).toEqual({ state: 'not sent' });
  expect(await payments.pay(key, MONEY)).toMatchObject({ state: 'processed' });
});
