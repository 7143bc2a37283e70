import { copyFile, mkdir, symlink } from 'node:fs/promises';
import { Agent } from 'node:http';
import { join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { type Answer, generateKey, pay, paymentStatus } from '../../testkit/client/http-client.js';
import { expectCompleted, expectFirst, expectReplay, givenPaid } from '../../testkit/client/payment-answers.js';
import {
  changeStatus,
  givenTransaction,
  readTransaction,
  type Transaction,
} from '../../testkit/client/transactions.js';
import { inParallel } from '../../testkit/concurrency.js';
import { embedded } from '../../testkit/deployments/deployments.js';
import { openProcessedService, type ProcessedService } from '../../testkit/deployments/processed-service.js';
import { runToExit } from '../../testkit/processes/service.js';
import { withSlack } from '../../testkit/time/patience.js';
import { pause, until } from '../../testkit/time/until.js';

const WAVES = 8;
const REQUESTS_PER_WAVE = 40;
const WAVE_PAUSE_MS = 500;
/** Longer than SQLite waits for the lock of a file (5 s), so that commits fail, and more than once. */
const LOCKED_MS = 12_000;
/** 3 s in the queue, and 6 s until a batch that was handed over is unknown. */
const WRITE_LIMIT_MS = 9_000;
/** A payment ends its lease after its settlement has failed: that is a second write. */
const SETTLE_LIMIT_MS = 2 * WRITE_LIMIT_MS;
const BACK_LIMIT_MS = 20_000;
/** Longer than a batch that was handed over is waited for, by far: the speed of the machine is only estimated. */
const SLOW_COMMIT_MS = 12_000;
const COUNT_PROBE = 2_000_000;
const SLOW_COMMIT_LIMIT_MS = 60_000;

let opened: ProcessedService;
let url: string;
let agent: Agent;

beforeEach(async () => {
  agent = new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY });
  opened = await openProcessedService(embedded, {}, { LOCK_TTL_SECONDS: '20' });
  url = opened.url;
});
afterEach(async () => {
  agent.destroy();
  await opened?.close();
});

const data = () => opened.stores.environment.DATA_DIR as string;

describe('a database file', () => {
  /** The file, past the service. */
  function openFile(): InstanceType<typeof DatabaseSync> {
    return new DatabaseSync(join(data(), 'idempay.sqlite'), { timeout: 5_000 });
  }

  async function payOnce(key: string): Promise<{ answer: Answer; tookMs: number }> {
    const askedAt = performance.now();
    const answer = await pay(url, key, undefined, { agent });
    return { answer, tookMs: performance.now() - askedAt };
  }

  /** Repeats until there is an outcome. */
  function untilPaid(key: string, limitMs = BACK_LIMIT_MS): Promise<Answer> {
    return until(`an outcome of ${key}`, limitMs, async () => {
      const answer = await pay(url, key);
      if (answer.status !== 200) expect([409, 503, 504]).toContain(answer.status);
      return answer.status === 200 && answer;
    });
  }

  async function expectChargedOnceEach(...keys: string[]): Promise<void> {
    expect((await opened.processor.charges()).map(({ reference }) => reference).toSorted()).toEqual(keys.toSorted());
  }

  /**
   * Bug: writes behind a commit that did not end waited without limit, and a file that another program had locked for five
   * seconds ended the process. Cause: no deadline, and SQLITE_BUSY was taken for a broken file, although nothing was written.
   * Fix: a queue with a length and a deadline, and 503 for what was surely not written.
   */
  test('that another program locks costs each write a bounded time and a 503, and nothing else', async () => {
    const { key: paid, transactionId } = await givenPaid(url);
    const keys = await Promise.all(Array.from({ length: WAVES * REQUESTS_PER_WAVE }, () => generateKey(url)));
    const file = openFile();
    file.exec('BEGIN IMMEDIATE');
    const unlockAt = performance.now() + LOCKED_MS;
    const asked = [];
    for (let wave = 0; wave < WAVES; wave += 1) {
      asked.push(...keys.slice(wave * REQUESTS_PER_WAVE, (wave + 1) * REQUESTS_PER_WAVE).map(payOnce));
      await pause(WAVE_PAUSE_MS);
      // Repeats need no write.
      expectReplay(await pay(url, paid), transactionId);
      expectCompleted(await paymentStatus(url, paid), transactionId);
    }
    for (const { answer, tookMs } of await Promise.all(asked)) {
      expectError(answer, 503);
      expect(tookMs).toBeLessThan(withSlack(WRITE_LIMIT_MS));
    }
    await pause(unlockAt - performance.now());
    file.exec('ROLLBACK');
    file.close();
    for (const key of keys) await untilPaid(key);
    await expectChargedOnceEach(paid, ...keys);
  });

  function countTo(count: number): string {
    const counted = `SELECT 1 UNION ALL SELECT n + 1 FROM counted LIMIT ${count}`;
    return `SELECT count(*) FROM (WITH RECURSIVE counted (n) AS (${counted}) SELECT n FROM counted)`;
  }

  /** A write that matches `event` is committed, but it first takes about `SLOW_COMMIT_MS` of the writer thread's time. */
  function slowDown(event: string): void {
    const file = openFile();
    const begunAt = performance.now();
    file.prepare(countTo(COUNT_PROBE)).get();
    const count = Math.round((COUNT_PROBE * SLOW_COMMIT_MS) / (performance.now() - begunAt));
    file.exec(`CREATE TRIGGER slow AFTER ${event} BEGIN ${countTo(count)}; END`);
    file.close();
  }

  /** Waits for the writer thread, and makes commits quick again. */
  async function speedUp(): Promise<void> {
    await until('the slow commit to end', SLOW_COMMIT_LIMIT_MS, () => generateKey(url).catch(() => undefined));
    const file = openFile();
    file.exec('DROP TRIGGER slow');
    file.close();
  }

  test.each([
    ['claim', 'INSERT ON payments', WRITE_LIMIT_MS],
    ['settlement', 'UPDATE OF state ON payments', SETTLE_LIMIT_MS],
  ])(
    'that takes a %s too late leaves it unknown, and the next repeat gets the outcome of one charge',
    async (_what, event, limitMs) => {
      const [key, other] = [await generateKey(url), await generateKey(url)];
      slowDown(event);
      const paying = payOnce(key);
      await pause(WAVE_PAUSE_MS);
      const queued = await payOnce(other);
      expectError(queued.answer, 503, /changed nothing/);
      expect(queued.tookMs).toBeLessThan(withSlack(WRITE_LIMIT_MS));
      const { answer, tookMs } = await paying;
      expectError(answer, 503, /outcome is not known/);
      expect(tookMs).toBeLessThan(withSlack(limitMs));
      await speedUp();
      // Sooner than the lease of a late claim would have ended.
      await untilPaid(key, withSlack(WRITE_LIMIT_MS));
      await untilPaid(other);
      await expectChargedOnceEach(key, other);
    },
  );

  test('that takes a status change too late is never read with the old status afterwards', async () => {
    const { transactionId } = await givenTransaction(url);
    const read = () => readTransaction(url, transactionId);
    await read();
    slowDown('UPDATE ON transactions');
    expectError(await changeStatus(url, transactionId, 'FLAGGED'), 503);
    await until('the new status', SLOW_COMMIT_LIMIT_MS, async () => {
      return (await read()).json<Transaction>().status === 'FLAGGED';
    });
    await speedUp();
    // Its mark is lifted once the write has ended: the entry is filled again, and hit.
    await until('a hit', BACK_LIMIT_MS, async () => {
      const answer = await read();
      expect(answer.json<Transaction>().status).toBe('FLAGGED');
      return String(answer.headers['cache-status']).includes('hit');
    });
  });
});

/** The folder of the embedded deployment belongs to one process at a time, and to nobody once that has ended. */
describe('a data folder', () => {
  test('is refused to a second process, each time and under another name too; the first one goes on', async () => {
    const key = await generateKey(url);
    const link = join(data(), 'link');
    await symlink(data(), link);
    // A refusal does not free the folder.
    for (const name of [data(), link, data()]) {
      const { code, output } = await runToExit({ DATA_DIR: name });
      expect(code).toBe(1);
      expect(output).toMatch(/in use by another Idempay process/);
      expect(output, 'a stack trace').not.toMatch(/\bat \S.*:\d+:\d+/);
    }
    expectFirst(await pay(url, key));
  });

  test('goes to exactly one of several processes that start on it at once', async () => {
    const start = () => opened.stores.start({ DATA_DIR: join(data(), 'made by the first one') });
    const starts = await Promise.allSettled([start(), start(), start()]);
    expect(starts.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
  });

  test('has everything in its one file after a clean end, so that a copy of the file is a backup', async () => {
    const paid = await inParallel(200, 8, async () => ({
      ...(await givenPaid(url)),
      transaction: await givenTransaction(url),
    }));
    await opened.service.stop();

    const copy = join(data(), 'copy');
    await mkdir(copy);
    await copyFile(join(data(), 'idempay.sqlite'), join(copy, 'idempay.sqlite'));
    const settings = { DATA_DIR: copy, PROCESSOR_URL: opened.processor.url };
    const { url: restored } = await opened.stores.serve(settings);
    for (const { key, transactionId, transaction } of paid) {
      expectReplay(await pay(restored, key), transactionId);
      expect((await readTransaction(restored, transaction.transactionId)).json()).toEqual(transaction);
    }
  });
});
