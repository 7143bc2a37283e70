import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { expectPromisesKept } from '../../testkit/checkers/expect-no-violations.js';
import { expectError } from '../../testkit/client/error-body.js';
import { ask, generateKey, pay } from '../../testkit/client/http-client.js';
import { Load } from '../../testkit/client/load.js';
import { expectFirst, expectReplay, givenPaid } from '../../testkit/client/payment-answers.js';
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
/** More than the database has room for without growing, and less than what makes the log be moved into it. */
const PAYMENTS = 300;
/** Untouched keys and transactions for the probes, each of which uses up a key and two transactions. */
const RESERVE = 400;
const WIDTH = 16;
const DEADLINE_MS = 20_000;
const ENDED = { code: 0, signal: null };

describe('the embedded service on a full disk', () => {
  let disk: SmallDisk;
  let service: Service;
  const target: Target = {
    name: 'service',
    get url() {
      return service.url;
    },
  };

  beforeEach(async () => {
    disk = await mountSmallDisk(DISK_MEGABYTES);
    service = await start();
  });
  afterEach(async () => {
    await service?.kill();
    await disk.remove();
  });

  const start = () =>
    startService({ DATA_DIR: disk.folder, LOCK_TTL_SECONDS: `${LEASE_MS / 1_000}`, PROCESSOR_DELAY_MS }, disk.launcher);

  test('refuses writes with 503, goes on reading and repeating, loses nothing, and writes again once there is space', async () => {
    const history = new History([target]);
    const load = new Load(history, seededRandom(seedFrom('DISK_SEED')));
    const { payments } = load;
    const keys = await inParallel(RESERVE, WIDTH, async () => (await payments.issue()) as KeyHistory);
    const ids = await inParallel(RESERVE, WIDTH, async () => (await givenTransaction(service.url)).transactionId);

    /** The statuses of five writes one after the other, with a key and transactions that nobody else touches. */
    async function oneOfEachWrite(): Promise<number[]> {
      const { url } = service;
      const [key, changed, deleted] = [keys.pop(), ids.pop(), ids.pop()];
      if (!key || !changed || !deleted) throw new Error('the reserve is used up');
      const answers = [
        await ask(`${url}/api/server-generated/generate-key`),
        await postTransaction(url),
        await changeStatus(url, changed, 'FLAGGED'),
        await deleteTransaction(url, deleted),
      ];
      for (const answer of answers) if (answer.status >= 300) expectError(answer, 503);
      return [...answers.map(({ status }) => status), (await payments.pay(key, target)).status];
    }

    let end = () => {};
    await load.during(CLIENTS, async () => {
      await until('there are payments', DEADLINE_MS, () => payments.finished.length > PAYMENTS);
      end = history.disturbances.begin('disk');
      await until('every kind of write is refused', DEADLINE_MS, async () => {
        await disk.fill();
        return (await oneOfEachWrite()).every((status) => status === 503);
      });
      // Nothing that only reads may suffer: repeats, payment-status, records, single transactions, the list.
      await payments.repeat(100);
      for (const id of ids.slice(0, 100)) expect((await readTransaction(service.url, id)).status).toBe(200);
      expect((await listTransactions(service.url)).status).toBe(200);
      // The store is there, whatever room it has. Asked often: the question may travel together with writes that fail.
      for (let time = 0; time < 30; time += 1) {
        expect((await ask(`${service.url}/api/health/redis`)).json()).toMatchObject({ status: 'UP' });
        expect((await ask(`${service.url}/api/health/redis/stats`)).status).toBe(200);
      }
      expect(history.violations).toEqual([]);
    });
    const refused = payments.openKeys.filter(({ exchanges }) => exchanges.some(({ status }) => status === 503));
    expect(refused.length).toBeGreaterThan(0);

    await disk.free();
    await until('every kind of write works again', DEADLINE_MS, async () => {
      return (await oneOfEachWrite()).every((status) => status < 300);
    });
    end();
    const before = payments.finished.length;
    await load.during(CLIENTS, async () => {
      await until('payments go on', DEADLINE_MS, () => payments.finished.length > before + 100);
      end = history.disturbances.begin('service');
      await service.kill();
    });
    service = await start();
    end();
    await expectPromisesKept(load, { charges: undefined, leaseMs: LEASE_MS });
    history.close();
  });

  /**
   * Bug: a service that was told to end while its disk was full ended with exit code 1, as if it had crashed. Cause: the log
   * could not be moved into the database file, and that fault broke the writer thread. Fix: the log stays, and the next
   * start reads both.
   */
  test('is said in a line of its log, and so is space; SIGTERM ends it with exit code 0, and loses nothing', async () => {
    const { url, logs } = service;
    const paid = await inParallel(PAYMENTS, WIDTH, () => givenPaid(url));
    const generate = () => ask(`${url}/api/server-generated/generate-key`);
    const untilRefused = () =>
      until('a write to be refused', DEADLINE_MS, async () => {
        await disk.fill();
        return (await inParallel(WIDTH, WIDTH, generate)).some(({ status }) => status === 503);
      });
    const saying = (words: RegExp) => logs.filter(({ msg }) => words.test(msg ?? ''));

    const readiness = async () => (await ask(`${url}/readyz`)).status;
    expect(await readiness()).toBe(200);
    await until('the process not to be ready', DEADLINE_MS, async () => {
      await untilRefused();
      return (await readiness()) === 503;
    });
    expect(await readiness()).toBe(503);
    await disk.free();
    // By this question alone: no request may come before it is ready.
    await until('the process to be ready', DEADLINE_MS, async () => (await readiness()) === 200);
    await until('the line that there is space', DEADLINE_MS, async () => {
      await generate();
      return saying(/serves again/).length > 0;
    });
    const gone = { level: 40, store: 'The database file', reason: expect.stringContaining('the disk is full') };
    expect(saying(/cannot serve;/)).toMatchObject([gone]);
    expect(saying(/could not serve what was asked/)[0]).toMatchObject({ requests: expect.any(Number) });
    expect(JSON.stringify(logs)).not.toMatch(/\\n +at /);

    await untilRefused();
    await disk.fill();
    expect(await service.stop()).toEqual(ENDED);
    await disk.free();
    service = await start();
    for (const { key, transactionId } of paid) expectReplay(await pay(service.url, key), transactionId);
    expectFirst(await pay(service.url, await generateKey(service.url)));
    expect(await service.stop()).toEqual(ENDED);
  });
});
