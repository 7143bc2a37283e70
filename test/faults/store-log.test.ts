import { join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ask, generateKey } from '../../testkit/client/http-client.js';
import { givenPaid } from '../../testkit/client/payment-answers.js';
import { postTransaction } from '../../testkit/client/transactions.js';
import { embedded } from '../../testkit/deployments/deployments.js';
import { openStoppableStores } from '../../testkit/deployments/distributed-stores.js';
import { type LogLine, startService } from '../../testkit/processes/service.js';
import type { ServiceInProcess } from '../../testkit/processes/service-in-process.js';
import { mountSmallDisk } from '../../testkit/servers/small-disk.js';
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

function requestsIn(counts: readonly LogLine[]): number {
  return counts.reduce((sum, line) => sum + (line.requests as number), 0);
}

/** Neither a stack nor a line for each request. */
function expectQuiet(lines: readonly LogLine[]): void {
  expect(JSON.stringify(lines)).not.toMatch(/\\n +at /);
  expect(lines.filter(({ level }) => level >= 50)).toEqual([]);
  expect(lines.length).toBeLessThan(REQUESTS / 4);
}

describe('the log of an outage', { timeout: 120_000 }, () => {
  let stores: Awaited<ReturnType<typeof openStoppableStores>>;
  let service: ServiceInProcess;
  let from: number;
  beforeAll(async () => {
    stores = await openStoppableStores(['--appendonly', 'yes']);
  }, 60_000);
  beforeEach(async () => {
    service = await stores.serve();
    await givenPaid(service.url);
    from = service.logs.length;
  });
  afterEach(() => service.stop());
  afterAll(() => stores.close());

  const generate = () => ask(`${service.url}${GENERATE}`);
  const create = () => postTransaction(service.url);
  const saying = (level: number, words: RegExp): LogLine[] =>
    service.logs.slice(from).filter((line) => line.level === level && words.test(line.msg ?? ''));
  const counts = () => saying(WARN, /could not serve what was asked/);
  /** On a busy machine a line about the other store may be among them. */
  const of = (store: string, lines: readonly LogLine[]) => lines.filter((line) => line.store === store);

  test.each([
    ['PostgreSQL', create, () => stores.postgres.stopImmediately(), () => stores.postgres.start()],
    ['Redis', generate, () => stores.redis.kill(), () => stores.redis.start()],
  ] as const)(
    'of %s is a line when it goes, counts, and a line when it is back',
    async (store, request, take, give) => {
      await take();
      for (let sent = 0; sent < REQUESTS; sent += 10) {
        const answers = await Promise.all(Array.from({ length: 10 }, request));
        expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 503));
      }
      await give();
      await until('the line that it is back, and all counts', DEADLINE_MS, () => {
        return of(store, saying(INFO, /serves again/)).length > 0 && requestsIn(counts()) >= REQUESTS;
      });

      expect(of(store, saying(WARN, /cannot serve;/))).toMatchObject([{ reason: expect.stringMatching(/\S/) }]);
      expect(requestsIn(counts())).toBe(REQUESTS);
      expect(of(store, saying(INFO, /serves again/))).toHaveLength(1);
      expectQuiet(service.logs.slice(from));
    },
  );

  test('counts every ten seconds while it lasts', async () => {
    await stores.redis.kill();
    const begun = performance.now();
    await until('a second count', DEADLINE_MS, async () => {
      expect((await generate()).status).toBe(503);
      return counts().length >= 2;
    });
    expect(performance.now() - begun).toBeGreaterThan(15_000);
    const count = { seconds: 10, reasons: expect.objectContaining({}) };
    for (const line of counts()) expect(line).toMatchObject(count);
    await stores.redis.start();
  });

  test('names the SQLSTATE of statements that the server refuses', async () => {
    await stores.sql('ALTER TABLE idempay.transactions RENAME COLUMN amount TO amount_before');
    expect((await create()).status).toBe(503);
    await until('the count', DEADLINE_MS, () => counts().length > 0);
    expect(JSON.stringify(counts())).toMatch(/42703/);
    await stores.sql('ALTER TABLE idempay.transactions RENAME COLUMN amount_before TO amount');
  });
});

test('the log of a full disk is a line when it is full, counts, and a line when there is room again', async () => {
  const disk = await mountSmallDisk(DISK_MEGABYTES);
  const { url, logs, kill } = await startService({ DATA_DIR: disk.folder }, disk.launcher);
  try {
    const create = () => postTransaction(url);
    expect((await create()).status).toBe(201);
    const from = logs.length;
    await until('a write is refused', DEADLINE_MS, async () => {
      await disk.fill();
      return (await create()).status === 503;
    });
    for (let sent = 0; sent < REQUESTS; sent += 1) await create();
    await disk.free();
    const saying = (words: RegExp) => logs.slice(from).filter(({ msg }) => words.test(msg ?? ''));
    await until('the line that there is room', DEADLINE_MS, async () => {
      await create();
      return saying(/serves again/).length > 0;
    });
    const gone = { level: WARN, store: 'The database file', reason: expect.stringContaining('the disk is full') };
    expect(saying(/cannot serve;/)[0]).toMatchObject(gone);
    expect(requestsIn(saying(/could not serve what was asked/))).toBeGreaterThanOrEqual(REQUESTS / 2);
    expectQuiet(logs.slice(from));
  } finally {
    await kill();
    await disk.remove();
  }
}, 120_000);

test('an exception that nobody expects is logged at once, with its stack and the id of the request', async () => {
  const stores = await embedded.open();
  try {
    const { url, logs } = await stores.serve();
    const database = new DatabaseSync(join(stores.environment.DATA_DIR as string, 'idempay.sqlite'));
    database.exec('ALTER TABLE transactions RENAME COLUMN amount TO amount_before');
    database.close();
    const answer = await postTransaction(url);
    expect(answer.status).toBe(500);
    const line = await until('the line', DEADLINE_MS, () => logs.find(({ msg }) => msg === 'request failed'));
    expect(line).toMatchObject({ level: 50, requestId: answer.headers['x-request-id'] });
    expect((line.err as { stack: string }).stack).toMatch(/\n +at /);
  } finally {
    await stores.close();
  }
});

test('requests are one line each at debug, and none above it; a key is shown at debug only', async () => {
  const stores = await embedded.open();
  try {
    const quiet = await stores.serve();
    const key = await generateKey(quiet.url);
    await ask(`${quiet.url}/api/payments/${key}`);
    expect(JSON.stringify(quiet.logs)).not.toContain(key);
    expect(quiet.logs.filter(({ msg }) => msg === 'request')).toEqual([]);
    await quiet.stop();

    const { url, logs } = await stores.serve({ LOG_LEVEL: 'debug' });
    await generateKey(url);
    const line = await until('the line', DEADLINE_MS, () => logs.find(({ msg }) => msg === 'request'));
    const request = { level: 20, method: 'GET', url: GENERATE, status: 200, requestId: expect.stringMatching(/\S/) };
    expect(line).toMatchObject(request);
  } finally {
    await stores.close();
  }
});
