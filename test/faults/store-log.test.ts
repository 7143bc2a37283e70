import { join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ask, generateKey } from '../../testkit/client/http-client.js';
import { givenPaid } from '../../testkit/client/payment-answers.js';
import { postTransaction } from '../../testkit/client/transactions.js';
import { embedded } from '../../testkit/deployments/deployments.js';
import { openStoppableStores } from '../../testkit/deployments/distributed-stores.js';
import { shareService } from '../../testkit/deployments/shared-service.js';
import type { LogLine } from '../../testkit/processes/service.js';
import type { ServiceInProcess } from '../../testkit/processes/service-in-process.js';
import { until } from '../../testkit/time/until.js';

/**
 * Bug: while a store was down each request wrote a stack of some twenty lines to the log, and so did each round of recovery.
 * Cause: every answer from 500 on was logged as an error, also the 503 that an operator is told to expect.
 * Fix: one line when a store goes, one when it is back, and counts between them; a stack only for what nobody expects.
 */

const DEADLINE_MS = 30_000;
const REQUESTS = 200;
const GENERATE = '/api/server-generated/generate-key';
const A_STACK = /\\n +at /;

describe('the log of an outage', () => {
  let stores: Awaited<ReturnType<typeof openStoppableStores>>;
  let service: ServiceInProcess;
  let paid: string;
  beforeAll(async () => {
    stores = await openStoppableStores(['--appendonly', 'yes']);
  });
  beforeEach(async () => {
    service = await stores.serve();
    paid = (await givenPaid(service.url)).key;
  });
  afterEach(() => service.stop());
  afterAll(() => stores.close());

  const generate = () => ask(`${service.url}${GENERATE}`);
  const create = () => postTransaction(service.url);
  const saying = (words: RegExp): LogLine[] => service.logs.filter(({ msg }) => words.test(msg ?? ''));
  const counts = () => saying(/could not serve what was asked/);
  const counted = () => counts().reduce((sum, { requests }) => sum + Number(requests), 0);

  test.each([
    ['PostgreSQL', create, () => stores.postgres.stopImmediately(), () => stores.postgres.start()],
    ['Redis', generate, () => stores.redis.kill(), () => stores.redis.start()],
  ] as const)(
    'of %s is a line when it goes, counts, and a line when it is back',
    async (store, request, take, give) => {
      /** On a busy machine a line about the other store may be among them. */
      const of = (words: RegExp) => saying(words).filter((line) => line.store === store);
      await take();
      for (let sent = 0; sent < REQUESTS; sent += 10) {
        const answers = await Promise.all(Array.from({ length: 10 }, request));
        for (const { status } of answers) expect(status).toBe(503);
      }
      await give();
      await until('the line that it is back, and all counts', DEADLINE_MS, () => {
        return of(/serves again/).length > 0 && counted() >= REQUESTS;
      });
      expect(of(/cannot serve;/)).toMatchObject([{ level: 40, reason: expect.stringMatching(/\S/) }]);
      expect(of(/serves again/)).toMatchObject([{ level: 30 }]);
      expect(counted()).toBe(REQUESTS);
      // Neither a stack, nor an error, nor a line for each request, nor a key.
      expect(service.logs.filter(({ level }) => level >= 50)).toEqual([]);
      expect(service.logs.length).toBeLessThan(REQUESTS / 4);
      expect(JSON.stringify(service.logs)).not.toMatch(A_STACK);
      expect(JSON.stringify(service.logs)).not.toContain(paid);
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
    for (const line of counts()) expect(line).toMatchObject({ level: 40, seconds: 10, reasons: expect.any(Object) });
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

describe('the log of requests', () => {
  const shared = shareService(embedded, { LOG_LEVEL: 'debug' });
  const line = (words: string) =>
    until(`the line "${words}"`, DEADLINE_MS, () => shared.service.logs.find(({ msg }) => msg === words));

  test('has one line for each at debug', async () => {
    await generateKey(shared.url);
    const request = { level: 20, method: 'GET', url: GENERATE, status: 200, requestId: expect.stringMatching(/\S/) };
    expect(await line('request')).toMatchObject(request);
  });

  test('has an exception that nobody expects at once, with its stack and the id of the request', async () => {
    const database = new DatabaseSync(join(shared.stores.environment.DATA_DIR as string, 'idempay.sqlite'));
    database.exec('ALTER TABLE transactions RENAME COLUMN amount TO amount_before');
    database.close();
    const answer = await postTransaction(shared.url);
    expect(answer.status).toBe(500);
    const { level, requestId, err } = await line('request failed');
    expect({ level, requestId }).toEqual({ level: 50, requestId: answer.headers['x-request-id'] });
    expect(JSON.stringify(err)).toMatch(A_STACK);
  });
});
