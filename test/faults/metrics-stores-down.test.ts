import { afterAll, expect, test } from 'vitest';
import { untilFullService } from '../../testkit/client/full-service.js';
import { ask, generateKey, pay } from '../../testkit/client/http-client.js';
import { scrape, sumOf } from '../../testkit/client/metrics.js';
import { givenTransaction, readTransaction } from '../../testkit/client/transactions.js';
import { openDistributedStores } from '../../testkit/deployments/distributed-stores.js';
import { runSql } from '../../testkit/servers/postgres.js';
import { patience } from '../../testkit/time/patience.js';
import { pause, until } from '../../testkit/time/until.js';

/** Far less than any time limit of a store, and far more than a scrape takes. */
const SCRAPE_MS = 500;
/** Longer than a served call would need to call the store back. */
const STAYS_MS = 3_000;
/** At once, so that several sessions are in use. */
const PAYERS = 8;
/** The default of `DATABASE_POOL_SIZE`. */
const POOL_SIZE = 10;
/** As `COMMAND_TIMEOUT_MS` of the service. */
const REDIS_TIMEOUT_MS = 900;
const PAID_DEADLINE_MS = 20_000;
const stores = await openDistributedStores();
afterAll(() => stores.close());
const { wires } = stores;
const both = [wires.redis, wires.postgres];
type Wire = (typeof both)[number];

test.each([
  ['refuse connections', (wire: Wire) => wire.cutOff()],
  ['take requests and answer none', (wire: Wire) => wire.blackhole('to client')],
])('metrics are shown at once while the stores %s, and say that they are down', async (_what, damage) => {
  const { url, stop } = await stores.serve(wires.environment);
  await pay(url, await generateKey(url));
  for (const wire of both) damage(wire);
  const asked = [ask(`${url}/api/server-generated/generate-key`), readTransaction(url, 100_000_000_000_001)];
  const scrapedIn: number[] = [];
  await expect
    .poll(async () => {
      const begun = performance.now();
      const samples = await scrape(url);
      scrapedIn.push(performance.now() - begun);
      return ['redis', 'postgresql'].map((store) => sumOf(samples, 'idempay_store_up', { store }));
    })
    .toEqual([0, 0]);
  // The median of many scrapes, because a busy machine may delay a few.
  expect(scrapedIn.toSorted((a, b) => a - b)[Math.floor(scrapedIn.length / 2)]).toBeLessThan(patience(SCRAPE_MS));
  for (const { status } of await Promise.all(asked)) expect(status).toBe(503);
  for (const wire of both) wire.heal();
  await untilFullService(url);
  await expect.poll(async () => sumOf(await scrape(url), 'idempay_store_up')).toBe(2);
  await stop();
});

const server = new URL('/postgres', stores.databaseUrl).href;
const database = new URL(stores.databaseUrl).pathname.slice(1);
/** For sessions that are opened from now on; those that are there keep what they have. */
const setReadOnly = (value: 'on' | 'off') =>
  runSql(server, `ALTER DATABASE "${database}" SET default_transaction_read_only = ${value}`);
const endSessions = () =>
  runSql(server, 'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1', [database]);

/**
 * Bug: a database that was read-only refused every payment, and metrics and log called it up. Cause: it answers, and a refused
 * statement was thought to be the statement's own fault. Fix: refusals that are about the server count as its being down.
 */
test('a PostgreSQL that takes no writes is down until it takes them again, although it answers', async () => {
  const { url, stop } = await stores.serve();
  const isUp = async () => sumOf(await scrape(url), 'idempay_store_up', { store: 'postgresql' });
  await pay(url, await generateKey(url));
  await setReadOnly('on');
  await endSessions();
  await expect.poll(isUp).toBe(0);
  await pause(STAYS_MS);
  expect(await isUp()).toBe(0);
  const payment = await pay(url, await generateKey(url));
  expect(payment.status).toBe(503);
  await setReadOnly('off');
  await endSessions();
  await expect.poll(isUp).toBe(1);
  await untilFullService(url);
  await stop();
});

/**
 * Bug: after a time in which PostgreSQL was read-only, sessions of that time refused half of the payments for as long as there was traffic,
 * and `/readyz` was 200 all along. Cause: a session whose statement was refused (25006) went back into the pool, and readiness asked
 * only whether the database answers. Fix: such a session is closed, and readiness asks whether a new one may write.
 */
test('sessions that became read-only are replaced when new ones may write, and readiness says until when they may not', async () => {
  const { url, stop } = await stores.serve();
  const readiness = async () => (await ask(`${url}/readyz`)).json<{ storeOfRecord?: string }>().storeOfRecord;
  const payAtOnce = async () => {
    const answers = Array.from({ length: PAYERS }, async () => (await pay(url, await generateKey(url))).status);
    return Promise.all(answers);
  };
  const { transactionId } = await givenTransaction(url);
  await payAtOnce();
  await setReadOnly('on');
  await endSessions();
  // No payment is needed to find it.
  // It is the only process, so none reaches PostgreSQL.
  await expect.poll(readiness).toBe('away');
  const before = await openedSessions();
  const begunAt = performance.now();
  while (performance.now() - begunAt < STAYS_MS) {
    expect(new Set(await payAtOnce())).toEqual(new Set([503]));
    expect(await readiness()).toBe('away');
    expect((await readTransaction(url, transactionId)).status, 'a read meanwhile').toBe(200);
  }
  const seconds = (performance.now() - begunAt) / 1_000;
  // The pool fills once, with sessions that read; the rest is a look each second.
  expect((await openedSessions()) - before).toBeLessThan(POOL_SIZE + 2 * seconds + 2);

  await setReadOnly('off');
  await expect.poll(readiness).toBe('up');
  await expect
    .poll(async () =>
      (await Promise.all(Array.from({ length: 10 }, payAtOnce))).flat().every((status) => status === 200),
    )
    .toBe(true);
  // A session that refuses does so at once; a 503 after a time-out is of a machine that paused.
  const payInTime = () =>
    until('payments without a time-out', PAID_DEADLINE_MS, async () => {
      const begunMs = performance.now();
      const statuses = await payAtOnce();
      const isInTime = performance.now() - begunMs < REDIS_TIMEOUT_MS;
      return (isInTime || statuses.every((status) => status === 200)) && statuses;
    });
  for (let round = 0; round < 20; round += 1) expect(new Set(await payInTime())).toEqual(new Set([200]));
  await stop();
});

/** How many sessions the database has had. */
async function openedSessions(): Promise<number> {
  const [row] = await runSql(server, 'SELECT sessions::integer AS count FROM pg_stat_database WHERE datname = $1', [
    database,
  ]);
  return (row as { count: number }).count;
}
