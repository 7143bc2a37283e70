import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { expectPromisesKept } from '../../testkit/checkers/expect-no-violations.js';
import { expectError } from '../../testkit/client/error-body.js';
import { ask } from '../../testkit/client/http-client.js';
import { Load } from '../../testkit/client/load.js';
import {
  changeStatus,
  deleteTransaction,
  givenTransaction,
  listTransactions,
  postTransaction,
  readTransaction,
} from '../../testkit/client/transactions.js';
import { inParallel } from '../../testkit/concurrency.js';
import { History, type Target } from '../../testkit/history/history.js';
import type { KeyHistory } from '../../testkit/history/payments.js';
import { type Service, startService } from '../../testkit/processes/service.js';
import { seededRandom, seedFrom } from '../../testkit/random.js';
import { mountSmallDisk, type SmallDisk } from '../../testkit/servers/small-disk.js';
import { until } from '../../testkit/time/until.js';

/** Holds the database and a write-ahead log several times over, and is filled in an instant. */
const DISK_MEGABYTES = 32;
const CLIENTS = { payments: 6, transactions: 2 };
/** Short, so that a payment that a full disk left between claim and settlement is soon taken over. */
const LEASE_MS = 2_000;
/** Payments that wait a moment, so that the disk also fills between claim and settlement. */
const PROCESSOR_DELAY_MS = '10';
const ENOUGH_PAYMENTS = 300;
/** Untouched keys and transactions for the probes, each of which uses up a key and two transactions. */
const RESERVE = 400;
const WIDTH = 8;
const DEADLINE_MS = 20_000;
const TEST_TIMEOUT_MS = 120_000;

describe('the embedded service on a full disk', () => {
  let disk: SmallDisk;
  let service: Service;
  let history: History;
  let load: Load;
  let keys: KeyHistory[];
  let transactions: number[];
  const target: Target = {
    name: 'service',
    get url() {
      return service.url;
    },
  };

  beforeEach(async () => {
    disk = await mountSmallDisk(DISK_MEGABYTES);
    service = await start();
    history = new History([target]);
    load = new Load(history, seededRandom(seedFrom('DISK_SEED')));
    keys = await inParallel(RESERVE, WIDTH, async () => (await load.payments.issue()) as KeyHistory);
    transactions = await inParallel(RESERVE, WIDTH, async () => (await givenTransaction(service.url)).transactionId);
  });
  afterEach(async () => {
    history?.close();
    await service?.kill();
    await disk.remove();
  });

  function start(): Promise<Service> {
    const environment = { DATA_DIR: disk.folder, LOCK_TTL_SECONDS: `${LEASE_MS / 1_000}`, PROCESSOR_DELAY_MS };
    return startService(environment, disk.launcher);
  }

  it(
    'refuses writes with 503, goes on reading and repeating, loses nothing, and writes again once there is space',
    async () => {
      const { payments } = load;
      let free = () => {};
      await load.during(CLIENTS, async () => {
        await until('there are payments', DEADLINE_MS, () => payments.finished.length > ENOUGH_PAYMENTS);
        free = history.disturbances.begin('disk');
        await fillUntilWritesAreRefused();
        // Nothing that only reads may suffer: repeats, payment-status, records, single transactions, the list.
        await payments.repeat(100);
        for (const id of transactions.slice(0, 100)) expect((await readTransaction(service.url, id)).status).toBe(200);
        expect((await listTransactions(service.url)).status).toBe(200);
        expect(history.violations).toEqual([]);
      });
      expect(await Promise.race([service.ended, 'up'])).toBe('up');
      const refused = payments.openKeys.filter(({ exchanges }) => exchanges.some(({ status }) => status === 503));
      expect(refused.length).toBeGreaterThan(0);

      await disk.free();
      await until('every kind of write works again', DEADLINE_MS, async () => {
        return (await oneOfEachWrite()).every((status) => status < 300);
      });
      free();
      const before = payments.finished.length;
      let up = () => {};
      await load.during(CLIENTS, async () => {
        await until('payments go on', DEADLINE_MS, () => payments.finished.length > before + 100);
        up = history.disturbances.begin('service');
        await service.kill();
      });
      service = await start();
      up();
      console.log(`${refused.length} of ${history.keys.length} payments refused by the full disk`);
      await expectPromisesKept(load, { charges: undefined, leaseMs: LEASE_MS });
    },
    TEST_TIMEOUT_MS,
  );

  it(
    'is called healthy: the store is there, whatever room it has',
    async () => {
      await load.during(CLIENTS, async () => {
        await fillUntilWritesAreRefused();
        // Asked often, because the question may travel together with writes that fail.
        for (let time = 0; time < 30; time += 1) {
          const health = await ask(`${service.url}/api/health/redis`);
          expect([health.status, health.json()]).toMatchObject([200, { status: 'UP' }]);
          expect((await ask(`${service.url}/api/health/redis/stats`)).status).toBe(200);
        }
      });
    },
    TEST_TIMEOUT_MS,
  );

  /** On return every kind of write has just been refused, and the load goes on. */
  async function fillUntilWritesAreRefused(): Promise<void> {
    await until('every kind of write is refused', DEADLINE_MS, async () => {
      await disk.fill();
      return (await oneOfEachWrite()).every((status) => status === 503);
    });
  }

  /** The statuses of five writes one after the other, with a key and transactions that nobody else touches. */
  async function oneOfEachWrite(): Promise<number[]> {
    const { url } = service;
    const [key, changed, deleted] = [keys.pop(), transactions.pop(), transactions.pop()];
    if (!key || !changed || !deleted) throw new Error('the reserve is used up');
    const answers = [
      await ask(`${url}/api/server-generated/generate-key`),
      await postTransaction(url),
      await changeStatus(url, changed, 'FLAGGED'),
      await deleteTransaction(url, deleted),
    ];
    for (const answer of answers) if (answer.status >= 300) expectError(answer, 503);
    return [...answers.map(({ status }) => status), (await load.payments.pay(key, target)).status];
  }
});
