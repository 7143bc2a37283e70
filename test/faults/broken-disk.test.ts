import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { expectPromisesKept } from '../../testkit/checkers/expect-no-violations.js';
import { expectError } from '../../testkit/client/error-body.js';
import { type Answer, pay, paymentStatus } from '../../testkit/client/http-client.js';
import { Load } from '../../testkit/client/load.js';
import { givenPaid } from '../../testkit/client/payment-answers.js';
import { givenTransaction, listTransactions, readTransaction } from '../../testkit/client/transactions.js';
import { inParallel } from '../../testkit/concurrency.js';
import { embedded, type Stores } from '../../testkit/deployments/deployments.js';
import { History, type Target } from '../../testkit/history/history.js';
import type { KeyHistory } from '../../testkit/history/payments.js';
import { runToExit, type Service } from '../../testkit/processes/service.js';
import { corruptDatabase, emptyLog } from '../../testkit/protocol/corrupt-database.js';
import { type Random, seededRandom, seedFrom } from '../../testkit/random.js';
import { until } from '../../testkit/time/until.js';

const CLIENTS = { payments: 6, transactions: 2 };
/** A limit that every write to a file of the store exceeds: the smallest is a frame of the log, a page and its header. */
const FILE_SIZE_LIMIT_BYTES = 4096;
const WAITING_PAYMENTS = 8;
/** Long enough for the disk to fail while payments wait, shorter than any service waits before it ends with a broken one. */
const PROCESSOR_DELAY_MS = '600';
const DEADLINE_MS = 20_000;
/** Many pages of each kind. */
const PAYMENTS = 1_000;
const TRANSACTIONS = 500;
const WIDTH = 16;
const FAILED = { code: 1, signal: null };

describe('the embedded service', () => {
  let stores: Stores;
  let service: Service;
  let random: Random;

  beforeEach(async () => {
    stores = await embedded.open();
    service = await stores.start({ PROCESSOR_DELAY_MS });
    random = seededRandom(seedFrom('DISK_SEED'));
  });
  afterEach(() => stores.close());

  const folder = () => stores.environment.DATA_DIR as string;
  const database = () => join(folder(), 'idempay.sqlite');

  test('ends with 1 when its disk fails, answers what waits with 503, and loses nothing acknowledged', async () => {
    const target: Target = {
      name: 'service',
      get url() {
        return service.url;
      },
    };
    const history = new History([target]);
    const load = new Load(history, random);
    await load.during(CLIENTS, async () => {
      await until('there are payments', DEADLINE_MS, () => load.payments.finished.length > 30);
      const underWay = await inParallel(WAITING_PAYMENTS, WAITING_PAYMENTS, async () => {
        const key = (await load.payments.issue()) as KeyHistory;
        const both = [1, 2].map(() => load.payments.pay(key, target));
        expect((await Promise.race(both)).status, 'of the second at once').toBe(409);
        return { both };
      });
      const ends = ['disk', 'service'].map((of) => history.disturbances.begin(of));
      // Node ignores SIGXFSZ, so a write beyond the limit fails with EFBIG, which SQLite reports as an I/O error.
      await promisify(execFile)('prlimit', ['--pid', `${service.pid}`, `--fsize=${FILE_SIZE_LIMIT_BYTES}`]);
      for (const { both } of underWay) {
        const statuses = (await Promise.all(both)).map(({ status }) => status);
        expect(statuses.sort()).toEqual([409, 503]);
      }
      expect(await service.ended).toEqual(FAILED);
      service = await stores.start();
      for (const end of ends) end();
    });
    await expectPromisesKept(load, { charges: undefined, leaseMs: 30_000 });
    history.close();
  });

  describe('whose database file is corrupt', () => {
    interface Known {
      readonly ask: () => Promise<Answer>;
      readonly text: string;
    }
    let known: Record<'payments and transactions' | 'lists', Known[]>;

    beforeEach(async () => {
      await service.stop();
      service = await stores.start();
      const { url } = service;
      const keys = await inParallel(PAYMENTS, WIDTH, async () => (await givenPaid(url)).key);
      const ids = await inParallel(TRANSACTIONS, WIDTH, async () => (await givenTransaction(url)).transactionId);
      const asks = [
        ...keys.map((key) => () => pay(service.url, key)),
        ...keys.map((key) => () => paymentStatus(service.url, key)),
        ...ids.map((id) => () => readTransaction(service.url, id)),
      ];
      const learn = async (ask: Known['ask']) => ({ ask, text: (await ask()).text });
      known = {
        'payments and transactions': await inParallel(asks.length, WIDTH, (index) =>
          learn(asks[index] as Known['ask']),
        ),
        lists: [await learn(() => listTransactions(service.url))],
      };
      expect(await service.stop()).toEqual({ code: 0, signal: null });
      emptyLog(database());
    });

    /** Asks for what is known until the process ends: each answer is a 503 or what it was before. */
    async function expectNothingWrong(asked: keyof typeof known): Promise<void> {
      let refused = 0;
      for (;;) {
        const { ask, text } = random.pick(known[asked]);
        // Cut off by the end of the process.
        const answer = await ask().catch(() => undefined);
        if (!answer) break;
        if (answer.status !== 503) expect(answer.text).toBe(text);
        else {
          expectError(answer, 503);
          refused += 1;
        }
      }
      expect(refused, 'requests that hit a corrupt page').toBeGreaterThan(0);
      expect(await service.ended).toEqual(FAILED);
    }

    // The first page holds the schema; what was read from it once may be kept in memory, so both cases differ.
    test.each([
      ['payments and transactions', 1],
      ['payments and transactions', 2],
      ['lists', 1],
      ['lists', 2],
    ] as const)(
      'answers %s with nothing wrong, and ends with 1, when its pages from %i on are overwritten',
      async (asked, firstPage) => {
        service = await stores.start();
        expect(await corruptDatabase(database(), firstPage)).toBeGreaterThan(50);
        await expectNothingWrong(asked);
      },
    );

    test('refuses to start, or answers nothing wrong and ends with 1, when pages were overwritten before', async () => {
      await corruptDatabase(database(), 2);
      const refusal = await stores.start().then(
        (started) => {
          service = started;
        },
        (cause: Error) => cause.message,
      );
      if (refusal === undefined) await expectNothingWrong('payments and transactions');
      else expect(refusal).toContain(JSON.stringify(FAILED));
    });

    test('refuses to start on a file that is no database any more, and leaves it as it is', async () => {
      await corruptDatabase(database(), 1);
      const before = await readFile(database());
      const { code, output } = await runToExit(stores.environment);
      expect(code).toBe(1);
      expect(output).toContain(folder());
      expect((await readFile(database())).equals(before)).toBe(true);
    });
  });
});
