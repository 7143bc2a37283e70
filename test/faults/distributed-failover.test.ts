import { expect, test } from 'vitest';
import { PaymentClients } from '../../testkit/client/payment-clients.js';
import { postTransaction, type Transaction } from '../../testkit/client/transactions.js';
import { alongside, inParallel } from '../../testkit/concurrency.js';
import { openPostgresFailover } from '../../testkit/deployments/postgres-failover.js';
import { History, type Target } from '../../testkit/history/history.js';
import type { KeyHistory } from '../../testkit/history/payments.js';
import type { ChargeLine } from '../../testkit/processes/reference-processor.js';
import type { Service } from '../../testkit/processes/service.js';
import { seededRandom, seedFrom } from '../../testkit/random.js';
import { pause, until } from '../../testkit/time/until.js';

const CLIENTS = 24;
const WRITERS = 4;
/** The longest part of a payment, so that the end of the primary finds most of them in it. */
const CHARGE_MS = 500;
/** Charges take this long when the primary is stopped, so that nearly all payments that are under way then are at the processor. */
const LONG_CHARGE_MS = 3 * CHARGE_MS;
/** So many are paid while the standby receives everything, and as many while it lags. */
const PAYMENTS = 40;
const DEADLINE_MS = 60_000;
const targetOf = ({ url }: Service): Target => ({ name: url, url });

/**
 * A real primary and a standby that follows it asynchronously, is cut off from it under load, and is promoted. The charge
 * log of the reference processor says what was charged. Without deduplication it charges whatever arrives, and the service knows.
 */
test.each([false, true])('a failover that loses rows charges no key twice, deduplication %s', async (deduplicate) => {
  const failover = await openPostgresFailover({ latencyMs: CHARGE_MS, deduplicate });
  const [killed, left] = failover.services;

  const history = new History([killed, left].map(targetOf));
  const payments = new PaymentClients(history, seededRandom(seedFrom('FAILOVER_SEED')));
  const stop = new AbortController();
  const paying = payments.run(CLIENTS, stop.signal);
  const created: number[] = [];
  const create = async (loop: number) => {
    const answer = await postTransaction((loop % 2 ? killed : left).url).catch(() => undefined);
    if (answer?.status === 201) created.push(answer.json<Transaction>().transactionId);
    else await pause(50);
  };
  await alongside(WRITERS, create, async () => {
    const untilPaid = (count: number) =>
      until(`${count} payments`, DEADLINE_MS, () => payments.finished.length >= count);
    await untilPaid(PAYMENTS);
    failover.cutOffStandby();
    // Only keys that were issued after the cut-off count, because the rows of all others may be on the standby already.
    const before = history.keys.length;
    const paidSince = () =>
      history.keys.slice(before).filter(({ exchanges }) => exchanges.some(({ outcome }) => outcome !== undefined))
        .length;
    await until(`${PAYMENTS} payments since the cut-off`, DEADLINE_MS, () => paidSince() >= PAYMENTS);
    await failover.behave({ latencyMs: LONG_CHARGE_MS });
    await pause(2 * CHARGE_MS);
    await failover.stopPrimary();
    const createdBefore = created.length;
    await failover.promoteStandby();
    // In the middle of what it does: its charges go on, and nobody settles them.
    await killed.kill();
    await failover.behave({ latencyMs: CHARGE_MS });
    await until('creates after the failover', DEADLINE_MS, () => created.length > createdBefore + WRITERS);
  });
  stop.abort();
  await paying;
  expect(new Set(created).size, 'transaction ids').toBe(created.length);

  history.targets = [left, await failover.start()].map(targetOf);
  // Those that only an operator can decide go on being unknown.
  const isLeftToOperator = !deduplicate;
  await inParallel(history.keys.length, CLIENTS, async (index) => {
    const key = history.keys[index] as KeyHistory;
    await until(`an outcome of ${key.key}`, DEADLINE_MS, async () => {
      const { outcome, status } = await payments.pay(key, history.targets[index % 2] as Target);
      return outcome !== undefined || (isLeftToOperator && status === 504);
    });
  });
  // A charge may be in the log only after its request was answered with 504.
  const charged = new Set((await failover.charges()).map(({ reference }) => reference));
  const unanswered = history.keys.filter(
    ({ key, exchanges }) => charged.has(key) && !exchanges.some(({ outcome }) => outcome !== undefined),
  );
  await inParallel(unanswered.length, CLIENTS, async (index) => {
    const key = unanswered[index] as KeyHistory;
    await until(`the outcome of ${key.key}, which was charged`, DEADLINE_MS, async () => {
      const { outcome } = await payments.pay(key, history.targets[0] as Target);
      return outcome !== undefined;
    });
  });
  history.close();
  expectChargedOnce(history.keys, await failover.charges(), isLeftToOperator);
});

/** A key has one outcome if it was charged, once, and none otherwise. */
function expectChargedOnce(keys: readonly KeyHistory[], charges: readonly ChargeLine[], isLeftToOperator: boolean) {
  const chargedAs = new Map(charges.map(({ reference, transactionId }) => [reference, transactionId]));
  expect(chargedAs.size, 'charges of different keys').toBe(charges.length);
  let found = 0;
  let unpaid = 0;
  for (const { key, exchanges } of keys) {
    const outcomes = [...new Set(exchanges.flatMap(({ outcome }) => outcome ?? []))];
    expect(outcomes, `outcomes of ${key}`).toHaveLength(chargedAs.has(key) ? 1 : 0);
    if (outcomes.length === 0) unpaid += 1;
    else if (outcomes[0] !== chargedAs.get(key)) found += 1;
  }
  console.log(`${keys.length} keys, ${found} found again, ${unpaid} left to an operator`);
  if (!isLeftToOperator) expect(unpaid).toBe(0);
  // Otherwise no row was lost whose charge was found again, and the test shows nothing.
  expect(found, 'charges whose row was lost and that were found again').toBeGreaterThan(0);
}
