import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { ask, generateKey, pay } from '../../testkit/client/http-client.js';
import { givenTransaction, postTransaction } from '../../testkit/client/transactions.js';
import { openStoppableStores } from '../../testkit/deployments/distributed-stores.js';
import { type LogLine, type Service, startService } from '../../testkit/processes/service.js';
import { mountSmallDisk, type SmallDisk } from '../../testkit/servers/small-disk.js';
import { until } from '../../testkit/time/until.js';

/**
 * Bug: while a store was away each request wrote a stack of some twenty lines to the log, and so did each round of recovery.
 * Cause: every answer from 500 on was logged as an error, also the 503 that an operator is told to expect.
 * Fix: one line when a store goes, one when it is back, and counts between them; a stack only for what nobody expects.
 */

const INFO = 30;
const WARN = 40;
const DEADLINE_MS = 30_000;
const REQUESTS = 200;
/** Holds the database, and is filled in an instant. */
const DISK_MEGABYTES = 32;
const GENERATE = '/api/server-generated/generate-key';

/** What the log says of stores from the given line on. */
function storeLines(logs: readonly LogLine[], from: number) {
  const lines = logs.slice(from);
  const saying = (level: number, words: RegExp) =>
    lines.filter((line) => line.level === level && words.test(line.msg ?? ''));
  return {
    gone: saying(WARN, /cannot serve;/),
    counted: saying(WARN, /could not serve what was asked/),
    back: saying(INFO, /serves again/),
    /** Neither a stack nor a line for each request. */
    expectQuiet() {
      expect(JSON.stringify(lines)).not.toMatch(/\\n +at /);
      expect(lines.filter(({ level }) => level >= 50)).toEqual([]);
      expect(lines.length).toBeLessThan(REQUESTS / 4);
    },
  };
}

function counted(lines: readonly LogLine[]): number {
  return lines.reduce((sum, line) => sum + (line.requests as number), 0);
}

describe('the log of an outage', { timeout: 120_000 }, () => {
  let stores: Awaited<ReturnType<typeof openStoppableStores>>;
  let service: Service;
  let from: number;
  beforeEach(async () => {
    stores = await openStoppableStores(['--appendonly', 'yes']);
    service = await stores.start();
    expect((await pay(service.url, await generateKey(service.url))).status).toBe(200);
    from = service.logs.length;
  });
  afterEach(() => stores.close());

  async function refuseAll(request: () => Promise<{ status: number }>): Promise<void> {
    for (let sent = 0; sent < REQUESTS; sent += 10) {
      const answers = await Promise.all(Array.from({ length: 10 }, request));
      expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 503));
    }
  }

  test('of PostgreSQL is a line when it goes, counts, and a line when it is back', async () => {
    await stores.postgres.stopImmediately();
    await refuseAll(() => postTransaction(service.url));
    await stores.postgres.start();
    await until('the line that it is back', DEADLINE_MS, () => storeLines(service.logs, from).back.length > 0);

    const { gone, counted: counts, back, expectQuiet } = storeLines(service.logs, from);
    expect(gone).toMatchObject([{ store: 'PostgreSQL', reason: expect.stringMatching(/\S/) }]);
    expect(counted(counts)).toBe(REQUESTS);
    expect(back).toMatchObject([{ store: 'PostgreSQL' }]);
    expectQuiet();
  });

  test('of Redis is a line when it goes, counts, and a line when it is back', async () => {
    await stores.redis.kill();
    await refuseAll(() => ask(`${service.url}${GENERATE}`));
    await stores.redis.start();
    await until('the line that it is back', DEADLINE_MS, () => storeLines(service.logs, from).back.length > 0);

    const { gone, counted: counts, back, expectQuiet } = storeLines(service.logs, from);
    expect(gone).toMatchObject([{ store: 'Redis', reason: expect.stringMatching(/\S/) }]);
    expect(counted(counts)).toBe(REQUESTS);
    expect(back).toMatchObject([{ store: 'Redis' }]);
    expectQuiet();
  });

  test('counts every ten seconds while it lasts', async () => {
    await stores.redis.kill();
    const begun = performance.now();
    await until('a second count', DEADLINE_MS, async () => {
      expect((await ask(`${service.url}${GENERATE}`)).status).toBe(503);
      return storeLines(service.logs, from).counted.length >= 2;
    });
    expect(performance.now() - begun).toBeGreaterThan(15_000);
    for (const line of storeLines(service.logs, from).counted) {
      expect(line).toMatchObject({ seconds: 10, reasons: expect.objectContaining({}) });
    }
  });

  test('names the SQLSTATE of statements that the server refuses', async () => {
    await stores.sql('ALTER TABLE idempay.transactions RENAME COLUMN amount TO amount_before');
    expect((await postTransaction(service.url)).status).toBe(503);
    await until('the count', DEADLINE_MS, () => storeLines(service.logs, from).counted.length > 0);
    expect(JSON.stringify(storeLines(service.logs, from).counted)).toMatch(/42703/);
  });
});

describe('the log of a full disk', { timeout: 120_000 }, () => {
  let disk: SmallDisk;
  let service: Service | undefined;
  beforeEach(async () => {
    disk = await mountSmallDisk(DISK_MEGABYTES);
  });
  afterEach(async () => {
    await service?.kill();
    await disk.remove();
  });

  test('is a line when it is full, counts, and a line when there is room again', async () => {
    service = await startService({ DATA_DIR: disk.folder }, disk.launcher);
    const { url, logs } = service;
    await givenTransaction(url);
    const from = logs.length;
    await until('a write is refused', DEADLINE_MS, async () => {
      await disk.fill();
      return (await postTransaction(url)).status === 503;
    });
    for (let sent = 0; sent < REQUESTS; sent += 1) await postTransaction(url);
    await disk.free();
    await until('the line that there is room', DEADLINE_MS, async () => {
      await postTransaction(url);
      return storeLines(logs, from).back.length > 0;
    });
    const { gone, counted: counts, expectQuiet } = storeLines(logs, from);
    expect(gone[0]).toMatchObject({ store: 'The database file', reason: expect.stringContaining('the disk is full') });
    expect(counted(counts)).toBeGreaterThanOrEqual(REQUESTS / 2);
    expectQuiet();
  });
});

describe('an exception that nobody expects', { timeout: 60_000 }, () => {
  test('is logged at once, with its stack and the id of the request', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'idempay-log-'));
    const service = await startService({ DATA_DIR: folder });
    try {
      const database = new DatabaseSync(join(folder, 'idempay.sqlite'));
      database.exec('ALTER TABLE transactions RENAME COLUMN amount TO amount_before');
      database.close();
      const answer = await postTransaction(service.url);
      expect(answer.status).toBe(500);
      const line = await until('the line', DEADLINE_MS, () => service.logs.find(({ msg }) => msg === 'request failed'));
      expect(line).toMatchObject({ level: 50, requestId: answer.headers['x-request-id'] });
      expect((line.err as { stack: string }).stack).toMatch(/\n +at /);
    } finally {
      await service.kill();
      await rm(folder, { recursive: true, force: true });
    }
  });
});

describe('requests in the log', { timeout: 60_000 }, () => {
  test('are one line each at debug, and none above it; a key is shown at debug only', async () => {
    const stores = await openStoppableStores();
    try {
      const [quiet, talkative] = [await stores.start(), await stores.start({ LOG_LEVEL: 'debug' })];
      const shown = [];
      for (const { url, logs } of [quiet, talkative]) {
        const key = await generateKey(url);
        await ask(`${url}/api/payments/${key}`);
        shown.push({ key, logs });
      }
      await until('the lines', DEADLINE_MS, () => talkative.logs.filter(({ msg }) => msg === 'request').length >= 2);
      expect(JSON.stringify(shown[0]?.logs)).not.toContain(shown[0]?.key);
      expect(quiet.logs.filter(({ msg }) => msg === 'request')).toEqual([]);
      expect(talkative.logs.find(({ msg }) => msg === 'request')).toMatchObject({
        level: 20,
        method: 'GET',
        url: GENERATE,
        status: 200,
        requestId: expect.stringMatching(/\S/),
      });
    } finally {
      await stores.close();
    }
  });
});
