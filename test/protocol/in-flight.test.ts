import { expect, test } from 'vitest';
import { newKey } from '../../testkit/protocol/payment-attempts.js';
import { AWAY, compose, MONEY } from '../../testkit/protocol/payment-composition.js';
import { paymentSteps } from '../../testkit/protocol/payment-steps.js';
import { sharePorts } from '../../testkit/protocol/ports.js';

/** Decision P16: so many attempts of requests at once, and no more; what is turned away has changed nothing. */

const LIMIT = 3;
const ports = sharePorts();
const { abandoned } = paymentSteps(ports);

/** A process with as many payments under way as there may be. `end` lets them end. */
async function givenFull() {
  const process = compose(ports, { maxInFlight: LIMIT });
  const charging = await Promise.all(Array.from({ length: LIMIT }, () => process.chargingPayment()));
  return {
    ...process,
    underWay: charging[0]?.key ?? '',
    async end() {
      for (const { finish } of charging) finish();
      for (const { answer } of charging) expect(await answer).toMatchObject({ state: 'processed' });
    },
  };
}

test('a payment beyond the limit is not begun: no row, no lock, and its key can be paid afterwards', async () => {
  const { payments, end, processor } = await givenFull();
  const key = await payments.issueKey();
  for (let repeat = 0; repeat < 3; repeat += 1)
    expect(await payments.pay(key, MONEY)).toEqual({ state: 'busy', retryAfterSeconds: expect.any(Number) });
  expect(await ports.ledger.find(key)).toEqual({ state: 'absent' });
  expect(await ports.keys.look(key)).toMatchObject({ state: 'generated' });
  await end();
  expect(await payments.pay(key, MONEY)).toMatchObject({ state: 'processed' });
  expect(processor.charges).toHaveLength(LIMIT + 1);
});

test('many at once are never more under way than the limit, and those turned away can all be paid', async () => {
  const { payments, processor } = compose(ports, { maxInFlight: LIMIT });
  const keys = await Promise.all(Array.from({ length: 40 }, () => payments.issueKey()));
  const answers = await Promise.all(keys.map((key) => payments.pay(key, MONEY)));
  const turnedAway = keys.filter((_, index) => answers[index]?.state === 'busy');
  expect(turnedAway.length).toBeGreaterThanOrEqual(keys.length - LIMIT - processor.charges.length);
  for (const key of turnedAway) expect(await payments.pay(key, MONEY)).toMatchObject({ state: 'processed' });
  expect(new Set(processor.charges.map(({ reference }) => reference)).size).toBe(keys.length);
  expect(processor.charges).toHaveLength(keys.length);
});

test('replays, conflicts, invalid keys and outcomes are answered at the limit as ever', async () => {
  const { payments, end, another, underWay } = await givenFull();
  const paid = await payments.issueKey();
  await another().payments.pay(paid, MONEY);
  expect(await payments.pay(paid, MONEY)).toMatchObject({ state: 'replayed' });
  expect(await payments.outcome(paid)).toMatchObject({ outcome: { state: 'COMPLETED' } });
  expect(await payments.pay(underWay, MONEY)).toMatchObject({ state: 'in progress' });
  expect(await payments.pay(newKey(), MONEY)).toEqual({ state: 'invalid key' });
  const bad = await payments.issueKey();
  expect(await payments.pay(bad, { problem: 'no amount' })).toMatchObject({ state: 'invalid content' });
  await end();
});

test('an outcome that the key store does not have is repeated at the limit, and given to it', async () => {
  const { payments, end, another } = await givenFull();
  const other = another();
  const key = await other.payments.issueKey();
  other.keys.failAll('finish', AWAY);
  const first = await other.payments.pay(key, MONEY);
  // Neither its lock nor its record has the end of the payment; the lock has ended with time.
  await ports.keys.release(key, other.owners[0] ?? '');
  expect(await payments.pay(key, MONEY)).toEqual({ ...first, state: 'replayed' });
  expect(await ports.keys.look(key)).toMatchObject({ state: 'final' });
  await end();
});

/**
 * Bug: a repeat of a payment that may have been charged was answered as if nothing had been begun. Cause: at the limit a
 * taken lock counted as a first payment. Fix: the row decides.
 */
test.each([
  ['unknown to the key store', false],
  ['that the key store still has as generated', true],
])('a repeat of an abandoned payment %s is in progress at the limit, and recovery finishes it', async (_, issued) => {
  const { payments, recovery, end, processor } = await givenFull();
  const key = issued ? await payments.issueKey() : newKey();
  await abandoned({ key, processor: processor.name });
  expect(await payments.pay(key, MONEY)).toMatchObject({ state: 'in progress' });
  expect(await recovery.runOnce()).toBe(1);
  expect(await payments.pay(key, MONEY)).toMatchObject({ state: 'replayed' });
  await end();
});

test('a row that cannot be asked at the limit is a fault, and the lock is given back', async () => {
  const { payments, ledger, end } = await givenFull();
  const key = await payments.issueKey();
  ledger.failNext('find', AWAY);
  await expect(payments.pay(key, MONEY)).rejects.toBe(AWAY);
  expect(await ports.keys.look(key)).toMatchObject({ state: 'generated' });
  await end();
});

test('a payment that fails gives its place back', async () => {
  const { payments, ledger, processor } = compose(ports, { maxInFlight: 1 });
  const key = await payments.issueKey();
  ledger.failNext('claim', AWAY);
  await expect(payments.pay(key, MONEY)).rejects.toBe(AWAY);
  processor.plan({ outcome: 'not sent' });
  expect(await payments.pay(key, MONEY)).toEqual({ state: 'not sent' });
  expect(await payments.pay(key, MONEY)).toMatchObject({ state: 'processed' });
});
