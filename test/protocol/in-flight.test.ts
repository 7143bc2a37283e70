import { expect, test } from 'vitest';
import { newKey } from '../../testkit/protocol/payment-attempts.js';
import { DOWN, MONEY, NO_MONEY, shareProtocol } from '../../testkit/protocol/payment-composition.js';

/** Rule P16: a limited number of attempts of requests at once; a refused request has changed nothing. */

const LIMIT = 3;
const { ports, composeWithKey, abandoned, statesOf } = await shareProtocol();

/** A process with as many payments under way as there may be, and a key that can be paid. `end` lets them end. */
async function givenFull() {
  const process = await composeWithKey({ maxInFlight: LIMIT });
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
  const { payments, end, processor, key } = await givenFull();
  expect(await payments.pay({ key }, MONEY)).toEqual({ state: 'busy', retryAfterSeconds: expect.any(Number) });
  expect(await statesOf(key)).toEqual(['generated', 'absent']);
  await end();
  expect(await payments.pay({ key }, MONEY)).toMatchObject({ state: 'processed' });
  expect(processor.charges).toHaveLength(LIMIT + 1);
});

test('replays, conflicts, invalid keys and outcomes are answered at the limit as ever', async () => {
  const { payments, end, another, underWay, key: paid } = await givenFull();
  await another().payments.pay({ key: paid }, MONEY);
  expect(await payments.pay({ key: paid }, MONEY)).toMatchObject({ state: 'replayed' });
  expect(await payments.outcome(paid)).toMatchObject({ outcome: { state: 'COMPLETED' } });
  expect(await payments.pay({ key: underWay }, MONEY)).toMatchObject({ state: 'in progress' });
  expect(await payments.pay({ key: newKey() }, MONEY)).toEqual({ state: 'invalid key' });
  expect(await payments.pay({ key: await payments.issueKey() }, NO_MONEY)).toMatchObject({ state: 'invalid content' });
  await end();
});

test('an outcome that the key store does not have is repeated at the limit, and given to it', async () => {
  const { payments, end, another, key } = await givenFull();
  const other = another();
  other.keys.failAll('finish', DOWN);
  const first = await other.payments.pay({ key }, MONEY);
  // Neither its lock nor its record has the end of the payment; the lock has ended with time.
  await ports.keys.release(key, other.owners[0] ?? '');
  expect(await payments.pay({ key }, MONEY)).toEqual({ ...first, state: 'replayed' });
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
  const { payments, recovery, end, processor, ...process } = await givenFull();
  const key = issued ? process.key : newKey();
  await abandoned({ key, processor: processor.traits.name });
  expect(await payments.pay({ key }, MONEY)).toMatchObject({ state: 'in progress' });
  expect(await recovery.runOnce()).toBe(1);
  expect(await payments.pay({ key }, MONEY)).toMatchObject({ state: 'replayed' });
  await end();
});

test('a row that cannot be asked at the limit is a fault, and the lock is given back', async () => {
  const { payments, ledger, end, key } = await givenFull();
  ledger.failNext('find', DOWN);
  await expect(payments.pay({ key }, MONEY)).rejects.toBe(DOWN);
  expect(await ports.keys.look(key)).toMatchObject({ state: 'generated' });
  await end();
});

test('a client that holds more than its share gets no further place while another client is refused', async () => {
  const { payments, chargingPayment } = await composeWithKey({ maxInFlight: LIMIT });
  const issue = async (client: string) => ({ key: await payments.issueKey(client), client });
  const charging = await Promise.all(Array.from({ length: LIMIT }, () => chargingPayment('succeeded', 'greedy')));
  const [greedy, payer] = await Promise.all([issue('greedy'), issue('payer')]);
  expect(await payments.pay(payer, MONEY)).toMatchObject({ state: 'busy' });
  charging[0]?.finish();
  expect(await charging[0]?.answer).toMatchObject({ state: 'processed' });
  expect(await payments.pay(greedy, MONEY)).toMatchObject({ state: 'busy' });
  expect(await statesOf(greedy.key)).toEqual(['generated', 'absent']);
  expect(await payments.pay(payer, MONEY)).toMatchObject({ state: 'processed' });
  for (const { finish } of charging) finish();
  for (const { answer } of charging) expect(await answer).toMatchObject({ state: 'processed' });
  expect(await payments.pay(greedy, MONEY)).toMatchObject({ state: 'processed' });
});

test('a payment that fails gives its place back', async () => {
  const { payments, ledger, processor, key } = await composeWithKey({ maxInFlight: 1 });
  ledger.failNext('claim', DOWN);
  await expect(payments.pay({ key }, MONEY)).rejects.toBe(DOWN);
  processor.plan({ outcome: 'not sent' });
  expect(await payments.pay({ key }, MONEY)).toEqual({ state: 'not sent' });
  expect(await payments.pay({ key }, MONEY)).toMatchObject({ state: 'processed' });
});
