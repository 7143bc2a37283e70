import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { verifyJournal } from '../../testkit/checkers/verify-journal.js';
import { expectError } from '../../testkit/client/error-body.js';
import { type Answer, ask, pay, paymentStatus } from '../../testkit/client/http-client.js';
import { LoadClients, PAYMENT } from '../../testkit/client/load-clients.js';
import { beginPayment, expectCompleted, expectReplay } from '../../testkit/client/payment-answers.js';
import { idsOf, listTransactions, readTransaction } from '../../testkit/client/transactions.js';
import { LoadJournal } from '../../testkit/history/load-journal.js';
import { type Exit, runToExit, type Service, startService } from '../../testkit/processes/service.js';
import { corruptDatabase, emptyLog } from '../../testkit/protocol/corrupt-database.js';
import { type Random, seededRandom, seedFrom } from '../../testkit/random.js';
import { until } from '../../testkit/time/until.js';

const run = promisify(execFile);
const CLIENTS = 8;
/** A limit that every write to a file of the store exceeds: the smallest is a frame of the log, a page and its header. */
const FILE_SIZE_LIMIT_BYTES = 4096;
const WAITING_PAYMENTS = 8;
/** Long enough for the disk to fail while payments wait, shorter than any service waits before it ends with a broken one. */
const PROCESSOR_DELAY_MS = '600';
const DEADLINE_MS = 20_000;
const TEST_TIMEOUT_MS = 60_000;

let folder: string;
let service: Service;
let journal: LoadJournal;
let random: Random;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'idempay-broken-'));
  service = await startService({ DATA_DIR: folder });
  journal = new LoadJournal();
  random = seededRandom(seedFrom('DISK_SEED'));
});
afterEach(async () => {
  await service.kill();
  await rm(folder, { recursive: true, force: true });
});

describe('the embedded service when writing to its disk fails', () => {
  it(
    'answers what waits with 503 and ends with 1, and a new start has everything that was acknowledged',
    async () => {
      await loadUntil(() => journal.payments.finished().length > 300);
      await service.stop();
      service = await startService({ DATA_DIR: folder, PROCESSOR_DELAY_MS });
      const { url } = service;
      const underWay = await Promise.all(
        journal.payments
          .unused()
          .slice(0, WAITING_PAYMENTS)
          .map(async (entry) => {
            const { finished } = await beginPayment(url, entry.key, PAYMENT);
            return { entry, finished };
          }),
      );
      expect(underWay.length).toBe(WAITING_PAYMENTS);

      await failWrites();
      journal.mayBeUnavailable = true;
      // The first write that fails; the payments wait for their processor and will fail to settle.
      expectError(await ask(`${url}/api/server-generated/generate-key`), 503);
      const answers = await Promise.all(
        underWay.map(({ entry, finished }) => journal.payments.attempt(entry, () => finished)),
      );
      for (const answer of answers) expectError(answer, 503);
      expect(await exitOf(service)).toEqual({ code: 1, signal: null });
      journal.mayBeUnavailable = false;

      service = await startService({ DATA_DIR: folder });
      await verifyJournal(service.url, { journal, random, sample: Number.POSITIVE_INFINITY });
      journal.expectNoViolations();
    },
    TEST_TIMEOUT_MS,
  );

  it(
    'loses nothing acknowledged when it happens under load',
    async () => {
      const stop = new AbortController();
      const load = new LoadClients(CLIENTS, journal, random.fork()).run(service.url, stop.signal);
      await until('there are payments', DEADLINE_MS, () => journal.payments.finished().length > 300);
      journal.mayBeUnavailable = true;
      await failWrites();
      expect(await exitOf(service)).toEqual({ code: 1, signal: null });
      stop.abort();
      await load;
      journal.mayBeUnavailable = false;

      service = await startService({ DATA_DIR: folder });
      await verifyJournal(service.url, { journal, random, sample: Number.POSITIVE_INFINITY });
      journal.expectNoViolations();
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

  beforeEach(async () => {
    await loadUntil(() => journal.payments.finished().length > 1000 && journal.transactions.live().length > 500);
    expect(await service.stop()).toEqual({ code: 0, signal: null });
    emptyLog(database());
    journal.expectNoViolations();
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
      journal.expectNoViolations();
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
      journal.expectNoViolations();
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
    const payments = journal.payments.finished();
    const transactions = journal.transactions.live().map(({ seen }) => seen);
    const ids = transactions.map(({ transactionId }) => transactionId);
    return {
      status: () => {
        const { key, id } = random.pick(payments);
        return { answer: paymentStatus(url, key), expectRight: (answer: Answer) => void expectCompleted(answer, id) };
      },
      repeat: () => {
        const { key, id } = random.pick(payments);
        return { answer: pay(url, key, PAYMENT), expectRight: (answer: Answer) => void expectReplay(answer, id) };
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

async function loadUntil(enough: () => boolean): Promise<void> {
  const stop = new AbortController();
  const load = new LoadClients(CLIENTS, journal, random.fork()).run(service.url, stop.signal);
  await until('there is enough to lose', DEADLINE_MS, enough);
  stop.abort();
  await load;
}

/** The exit of a process that ends by itself; throws when it does not. */
async function exitOf(ending: Service): Promise<Exit> {
  let exit: Exit | undefined;
  void ending.ended.then((value) => {
    exit = value;
  });
  return until('the process ends by itself', DEADLINE_MS, () => exit);
}
