import { afterAll, expect, test } from 'vitest';
import { untilFullService } from '../../testkit/client/full-service.js';
import { ask, generateKey, pay } from '../../testkit/client/http-client.js';
import { scrape, sumOf } from '../../testkit/client/metrics.js';
import { readTransaction } from '../../testkit/client/transactions.js';
import { openDistributedStores } from '../../testkit/deployments/distributed-stores.js';
import { runSql } from '../../testkit/servers/postgres.js';
import { pause } from '../../testkit/time/until.js';

/** Far less than any time limit of a store, and far more than a scrape takes. */
const SCRAPE_MS = 500;
const SEEN_DEADLINE_MS = 15_000;
/** Longer than a served call would need to call the store back. */
const STAYS_MS = 3_000;
const stores = await openDistributedStores();
afterAll(() => stores.close());
const { wires } = stores;
const both = [wires.redis, wires.postgres];
type Wire = (typeof both)[number];

test.each([
  ['refuse connections', (wire: Wire) => wire.cutOff()],
  ['take requests and answer none', (wire: Wire) => wire.blackhole('to client')],
])(
  'metrics are shown at once while the stores %s, and say that they are down',
  { timeout: 60_000 },
  async (_what, damage) => {
    const { url, stop } = await stores.serve(wires.environment);
    await pay(url, await generateKey(url));
    for (const wire of both) damage(wire);
    const asked = [ask(`${url}/api/server-generated/generate-key`), readTransaction(url, 100_000_000_000_001)];
    const scrapedIn: number[] = [];
    await expect
      .poll(
        async () => {
          const begun = performance.now();
          const samples = await scrape(url);
          scrapedIn.push(performance.now() - begun);
          return ['redis', 'postgresql'].map((store) => sumOf(samples, 'idempay_store_up', { store }));
        },
        { timeout: SEEN_DEADLINE_MS },
      )
      .toEqual([0, 0]);
    // The median of many scrapes, because a busy machine may delay a few.
    expect(scrapedIn.toSorted((a, b) => a - b)[Math.floor(scrapedIn.length / 2)]).toBeLessThan(SCRAPE_MS);
    for (const { status } of await Promise.all(asked)) expect(status).toBe(503);
    for (const wire of both) wire.heal();
    await untilFullService(url);
    await expect.poll(async () => sumOf(await scrape(url), 'idempay_store_up'), { timeout: SEEN_DEADLINE_MS }).toBe(2);
    await stop();
  },
);

/**
 * Bug: a database that was read-only refused every payment, and metrics and log called it up. Cause: it answers, and a refused
 * statement was thought to be the statement's own fault. Fix: refusals that are about the server count as its being down.
 */
test('a PostgreSQL that takes no writes is down until it takes them again, although it answers', async () => {
  const { pathname } = new URL(stores.databaseUrl);
  const server = new URL('/postgres', stores.databaseUrl).href;
  const setReadOnly = async (value: string) => {
    await runSql(server, `ALTER DATABASE "${pathname.slice(1)}" SET default_transaction_read_only = ${value}`);
    await runSql(server, 'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1', [
      pathname.slice(1),
    ]);
  };
  const { url, stop } = await stores.serve();
  const isUp = async () => sumOf(await scrape(url), 'idempay_store_up', { store: 'postgresql' });
  await pay(url, await generateKey(url));
  await setReadOnly('on');
  await expect.poll(isUp, { timeout: SEEN_DEADLINE_MS }).toBe(0);
  await pause(STAYS_MS);
  expect(await isUp()).toBe(0);
  const payment = await pay(url, await generateKey(url));
  expect(payment.status).toBe(503);
  await setReadOnly('off');
  await expect.poll(isUp, { timeout: SEEN_DEADLINE_MS }).toBe(1);
  await untilFullService(url);
  await stop();
});
