import { afterAll, beforeAll, expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { ask, generateKey, pay, paymentStatus } from '../../testkit/client/http-client.js';
import {
  expectFirst,
  expectInProgress,
  expectKeyValue,
  expectReplay,
  INVALID_KEY,
  KEY_GENERATED,
  NO_PAYMENT,
} from '../../testkit/client/payment-answers.js';
import { exportDay, listPayments, readPayment, shownIn } from '../../testkit/client/payment-records.js';
import { describeDeployments, type Stores } from '../../testkit/deployments/deployments.js';
import type { ServiceInProcess } from '../../testkit/processes/service-in-process.js';
import { givenClaim, givenSettled, newKeyOf } from '../../testkit/protocol/payment-attempts.js';
import { aged, changeStored, HORIZON_SEEN_BY_ALL, openPortsOn } from '../../testkit/protocol/stored-payments.js';
import { passHours } from '../../testkit/time/retention-time.js';
import { until } from '../../testkit/time/until.js';

const DAY_MS = 86_400_000;
const RETENTION = { PAYMENT_RETENTION_DAYS: '1' };
const OLD_MS = 3 * DAY_MS;
/** By which a day is over for what was settled before. */
const RETENTION_HOURS = 26;
/** A deployment of several processes removes nothing before it is sure that all of them know: in the third round. */
const MOST_ROUNDS = 10;
/** How long the round at the start of a process is waited for before the next process is started. */
const ROUND_MS = 500;

/** All keys are three days old, but for the young one. */
interface Given {
  /** Its record, beside the row, is as from a copy that was made before it was paid. */
  readonly completed: string;
  /** Its record is gone, as it is by then. */
  readonly declined: string;
  /** Nobody is at work on it, and its processor is not this service's. */
  readonly processing: string;
  /** Settled only now, as an operator does it. */
  readonly settledLately: string;
  /** Settled long ago, and repeated for a week. */
  readonly repeated: string;
  readonly unpaid: string;
  readonly young: string;
}

/** Each test goes on where the one before ended. */
describeDeployments('PAYMENT_RETENTION_DAYS', (deployment) => {
  let stores: Stores;
  let service: ServiceInProcess;
  let given: Given;
  /** What was shown before anything was removed, by key. */
  const shownBefore = new Map<string, string>();

  beforeAll(async () => {
    stores = await deployment.open();
    given = await givenOldPayments(stores);
    service = await stores.serve();
  });
  afterAll(() => stores?.close());

  it('unset keeps every payment', async () => {
    for (const key of Object.values(given)) {
      const answer = await readPayment(service.url, key);
      shownIn(answer);
      shownBefore.set(key, answer.text);
    }
    const { payments } = await listPayments(service.url);
    expect(payments).toHaveLength(Object.keys(given).length - 1);
    await service.stop();
  });

  it('removes what was settled longer ago and is repeated no more', async () => {
    for (let round = 1; ; round += 1) {
      service = await stores.serve(RETENTION);
      if (await isRemoved(given.declined)) break;
      expect(round, 'rounds without a removal').toBeLessThan(MOST_ROUNDS);
      await service.stop();
      await changeStored(stores, HORIZON_SEEN_BY_ALL);
    }
    expectError(await readPayment(service.url, given.declined), 404, NO_PAYMENT);
    const listed = (await listPayments(service.url)).payments.map(({ idempotencyKey }) => idempotencyKey);
    expect(listed.sort()).toEqual([given.processing, given.settledLately, given.repeated, given.young].sort());
    const day = new Date(Date.now() - OLD_MS).toISOString().slice(0, 10);
    const exported = await exportDay(service.url, day);
    expect(exported.map(({ idempotencyKey }) => idempotencyKey)).not.toContain(given.completed);
  });

  it('refuses a removed key, also one whose record says that it was never paid', async () => {
    for (const key of [given.completed, given.unpaid]) await expectKeyValue(service.url, key, KEY_GENERATED);
    for (const key of [given.completed, given.declined, given.unpaid]) {
      for (let attempt = 0; attempt < 2; attempt += 1) expectError(await pay(service.url, key), 400, INVALID_KEY);
      expectError(await paymentStatus(service.url, key), 404, NO_PAYMENT);
    }
  });

  it('keeps what is younger, still repeated, or PROCESSING, whatever its age', async () => {
    for (const key of [given.young, given.settledLately, given.repeated, given.processing]) {
      expect((await readPayment(service.url, key)).text).toBe(shownBefore.get(key));
    }
    for (const key of [given.young, given.settledLately, given.repeated]) expectReplay(await pay(service.url, key));
    expectInProgress(await pay(service.url, given.processing));
  });

  it('lets new keys be paid', async () => {
    const key = await generateKey(service.url);
    const transactionId = expectFirst(await pay(service.url, key));
    expectReplay(await pay(service.url, key), transactionId);
  });

  it('unset again, after a removal, refuses a removed key all the same', async () => {
    await service.stop();
    service = await stores.serve();
    expectError(await pay(service.url, given.completed), 400, INVALID_KEY);
    expectReplay(await pay(service.url, given.young));
    expect((await ask(`${service.url}/api/health/redis`)).status).toBe(200);
  });

  async function isRemoved(key: string): Promise<boolean> {
    const removed = until('the removal', ROUND_MS, async () => (await readPayment(service.url, key)).status === 404);
    return removed.catch(() => false);
  }
});

/** What only days could bring about, by the adapters that a service would use, and then moved into the past. */
async function givenOldPayments(stores: Stores): Promise<Given> {
  const ports = await openPortsOn(stores);
  const { keys, ledger } = ports;
  const [completed, declined, processing, settledLately, repeated, unpaid] = Array.from({ length: 6 }, () =>
    newKeyOf(Date.now() - OLD_MS),
  ) as [string, string, string, string, string, string];
  const given = { completed, declined, processing, settledLately, repeated, unpaid, young: newKeyOf(Date.now()) };
  try {
    for (const key of Object.values(given)) if (key !== declined) await keys.issue(key, DAY_MS);
    const claim = (key: string) => givenClaim(ledger, { key, processor: 'another' });
    await givenSettled(ledger, await claim(completed), { ttlMs: DAY_MS });
    const decline = { state: 'DECLINED', reason: 'no funds' } as const;
    await givenSettled(ledger, await claim(declined), { outcome: decline, ttlMs: DAY_MS });
    await givenSettled(ledger, await claim(repeated), { ttlMs: 10 * DAY_MS });
    await ledger.abandon(await claim(processing), 0);
    await passHours(ledger, RETENTION_HOURS);
    for (const key of [settledLately, given.young]) {
      await givenSettled(ledger, await claim(key), { ttlMs: DAY_MS });
    }
  } finally {
    await ports.close();
  }
  await changeStored(stores, aged([completed, declined, processing, repeated], OLD_MS));
  await changeStored(stores, {
    // The other deployment's records are written by the key store alone, which was not told of the outcomes.
    embedded: `
      UPDATE idempotency_keys SET value = '${KEY_GENERATED}', fingerprint = NULL WHERE key = '${completed}';
      DELETE FROM idempotency_keys WHERE key = '${declined}'`,
    distributed: '',
  });
  return given;
}
