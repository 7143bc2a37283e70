import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { expectPromisesKept } from '../../testkit/checkers/expect-no-violations.js';
import { expectError } from '../../testkit/client/error-body.js';
import { type Answer, ask, generateKey, pay, paymentStatus } from '../../testkit/client/http-client.js';
import { Load } from '../../testkit/client/load.js';
import { expectCompleted, expectFirst, expectReplay } from '../../testkit/client/payment-answers.js';
import {
  givenTransaction,
  idsOf,
  listTransactions,
  readTransaction,
  type Transaction,
} from '../../testkit/client/transactions.js';
import { inParallel } from '../../testkit/concurrency.js';
import { History, type Target } from '../../testkit/history/history.js';
import type { KeyHistory } from '../../testkit/history/payments.js';
import { type Exit, runToExit, type Service, startService } from '../../testkit/processes/service.js';
import { corruptDatabase, emptyLog } from '../../testkit/protocol/corrupt-database.js';
import { type Random, seededRandom, seedFrom } from '../../testkit/random.js';
import { until } from '../../testkit/time/until.js';

const run = promisify(execFile);
const CLIENTS = { payments: 6, transactions: 2 };
const LEASE_MS = 30_000;
/** A limit that every write to a file of the store exceeds: the smallest is a frame of the log, a page and its header. */
const FILE_SIZE_LIMIT_BYTES = 4096;
const WAITING_PAYMENTS = 8;
/** Long enough for the disk to fail while payments wait, shorter than any service waits before it ends with a broken one. */
const PROCESSOR_DELAY_MS = '600';
const DEADLINE_MS = 20_000;
const TEST_TIMEOUT_MS = 60_000;

let folder: string;
let service: Service;
let random: Random;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'idempay-broken-'));
  service = await startService({ DATA_DIR: folder });
  random = seededRandom(seedFrom('DISK_SEED'));
});
afterEach(async () => {
  await service.kill();
  await rm(folder, { recursive: true, force: true });
});

describe('the embedded service when writing to its disk fails', () => {
  let history: History;
  let load: Load;
  const target: Target = {
    name: 'service',
    get url() {
      return service.url;
    },
  };

  beforeEach(() => {
    history = new History([target]);
    load = new Load(history, random.fork());
  });
  afterEach(() => history.close());

  const untilPaid = () => until('there are payments', DEADLINE_MS, () => load.payments.finished.length > 300);

  /** Until the process that fails has ended, and another one serves. */
  async function throughFailure(fail: () => Promise<void>): Promise<void> {
    const ends = ['disk', 'service'].map((of) => history.disturbances.begin(of));
    await failWrites();
    await fail();
    expect(await exitOf(service)).toEqual({ code: 1, signal: null });
    service = await startService({ DATA_DIR: folder });
    for (const end of ends) end();
  }

  it(
    'answers what waits with 503 and ends with 1, and a new start has everything that was acknowledged',
    async () => {
      await load.during(CLIENTS, untilPaid);
      await service.stop();
      service = await startService({ DATA_DIR: folder, PROCESSOR_DELAY_MS });
      const underWay = await inParallel(WAITING_PAYMENTS, WAITING_PAYMENTS, async () => {
        const key = (await load.payments.issue()) as KeyHistory;
        const both = [1, 2].map(() => load.payments.pay(key, target));
        expect((await Promise.race(both)).status, 'of the second at once').toBe(409);
        return { both };
      });
      await throughFailure(async () => {
        // The first write that fails; the payments wait for their processor and will fail to settle.
        expectError(await ask(`${service.url}/api/server-generated/generate-key`), 503);
        for (const { both } of underWay) {
          const statuses = (await Promise.all(both)).map(({ status }) => status);
          expect(statuses.sort()).toEqual([409, 503]);
        }
      });
      await expectPromisesKept(load, { charges: undefined, leaseMs: LEASE_MS });
    },
    TEST_TIMEOUT_MS,
  );

  it(
    'loses nothing acknowledged when it happens under load',
    async () => {
      await load.during(CLIENTS, async () => {
        await untilPaid();
        await throughFailure(async () => {});
      });
      await expectPromisesKept(load, { charges: undefined, leaseMs: LEASE_MS });
    },
    TEST_TIMEOUT_MS,
  );

  /** Node ignores SIGXFSZ, so a write beyond the limit fails with EFBIG, which SQLite reports as an I/O error. */
  async function failWrites(): Promise<void> {
    await run('prlimit', ['--pid', `${service.pid}`, `--fsize=${FILE_SIZE_LIMIT_BYTES}`]);
  }
});

describe('the embedded service when its database file is corrupt', () => {
  /** The first page holds the schema; what was read from it once may be kept in memory, so both cases differ. */
  const FIRST_PAGE_OF_DATA = 2;
  /** Many pages of each kind. */
  const PAYMENTS = 1_000;
  const TRANSACTIONS = 500;
  const WIDTH = 16;

  let payments: { readonly key: string; readonly id: string }[];
  let transactions: Transaction[];

  beforeEach(async () => {
    const { url } = service;
    payments = await inParallel(PAYMENTS, WIDTH, async () => {
      const key = await generateKey(url);
      return { key, id: expectFirst(await pay(url, key)) };
    });
    await inParallel(TRANSACTIONS, WIDTH, () => givenTransaction(url));
    transactions = (await listTransactions(url)).json<Transaction[]>();
    expect(transactions.length).toBe(TRANSACTIONS);
    expect(await service.stop()).toEqual({ code: 0, signal: null });
    emptyLog(database());
  });

  const database = () => join(folder, 'idempay.sqlite');
  const corrupt = (firstPage: number) => corruptDatabase(database(), firstPage);

  it.each([
    ['all pages', 1],
    ['all pages but the first', FIRST_PAGE_OF_DATA],
  ])(
    'tells nothing wrong and ends with 1 when %s are overwritten while it runs',
    async (_pages, firstPage) => {
      service = await startService({ DATA_DIR: folder });
      expect(await corrupt(firstPage)).toBeGreaterThan(50);
      await useUntilItEnds();
      expect(await exitOf(service)).toEqual({ code: 1, signal: null });
    },
    TEST_TIMEOUT_MS,
  );

  it.each([
    ['all pages', 1],
    ['all pages but the first', FIRST_PAGE_OF_DATA],
  ])(
    'refuses a list with 503 and ends with 1 when %s are overwritten while it runs',
    async (_pages, firstPage) => {
      service = await startService({ DATA_DIR: folder });
      await corrupt(firstPage);
      await useUntilItEnds(['list']);
      expect(await exitOf(service)).toEqual({ code: 1, signal: null });
    },
    TEST_TIMEOUT_MS,
  );

  it(
    'refuses to start, or tells nothing wrong and ends with 1, when pages were overwritten while it was stopped',
    async () => {
      expect(await corrupt(FIRST_PAGE_OF_DATA)).toBeGreaterThan(50);
      const refusal = await startService({ DATA_DIR: folder }).then(
        (started) => {
          service = started;
          return undefined;
        },
        (cause: Error) => cause.message,
      );
      if (refusal !== undefined) return expect(refusal).toContain('{"code":1,"signal":null}');
      await useUntilItEnds();
      expect(await exitOf(service)).toEqual({ code: 1, signal: null });
    },
    TEST_TIMEOUT_MS,
  );

  it('refuses to start on a file that is no database any more, and leaves it as it is', async () => {
    await corrupt(1);
    const before = await readFile(database());
    const { code, output } = await runToExit({ DATA_DIR: folder });
    expect(code).toBe(1);
    expect(output).toContain(folder);
    expect((await readFile(database())).equals(before)).toBe(true);
  });

  /** Asks for what was acknowledged, at random, until the process ends: each answer is 503 or what it was before. */
  async function useUntilItEnds(asked: readonly (keyof Asks)[] = ['status', 'repeat', 'read', 'list', 'generate']) {
    let ended = false;
    void service.ended.then(() => {
      ended = true;
    });
    const refused: Answer[] = [];
    const asks = asksOf(service.url);

    await until('the service ends at the corrupt pages', DEADLINE_MS, async () => {
      const answers = await Promise.all(
        asked.map(async (name) => {
          const { answer, expectRight } = asks[name]();
          // A cut connection is no answer: the end of the process is waited for in any case.
          return { expectRight, answer: await answer.catch(() => undefined) };
        }),
      );
      for (const { answer, expectRight } of answers) {
        if (answer === undefined) continue;
        if (answer.status === 503) {
          refused.push(answer);
        } else {
          expect(answer.status, answer.text).toBe(200);
          expectRight(answer);
        }
      }
      return ended;
    });
    for (const answer of refused) expectError(answer, 503);
    expect(refused.length, 'requests that hit a corrupt page').toBeGreaterThan(0);
  }

  function asksOf(url: string) {
    const ids = transactions.map(({ transactionId }) => transactionId);
    return {
      status: () => {
        const { key, id } = random.pick(payments);
        return { answer: paymentStatus(url, key), expectRight: (answer: Answer) => void expectCompleted(answer, id) };
      },
      repeat: () => {
        const { key, id } = random.pick(payments);
        return { answer: pay(url, key), expectRight: (answer: Answer) => void expectReplay(answer, id) };
      },
      read: () => {
        const seen = random.pick(transactions);
        return {
          answer: readTransaction(url, seen.transactionId),
          expectRight: (answer: Answer) => expect(answer.json()).toEqual(seen),
        };
      },
      list: () => ({
        answer: listTransactions(url),
        expectRight: (answer: Answer) => expect(idsOf(answer)).toEqual(ids),
      }),
      // Written to the log, not to the overwritten file, so it may well succeed.
      generate: () => ({ answer: ask(`${url}/api/server-generated/generate-key`), expectRight: () => {} }),
    };
  }
  type Asks = ReturnType<typeof asksOf>;
});

/** The exit of a process that ends by itself; throws when it does not. */
async function exitOf(ending: Service): Promise<Exit> {
  let exit: Exit | undefined;
  void ending.ended.then((value) => {
    exit = value;
  });
  return until('the process ends by itself', DEADLINE_MS, () => exit);
}
