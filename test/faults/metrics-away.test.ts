import { afterAll, expect, test } from 'vitest';
import { untilFullService } from '../../testkit/client/full-service.js';
import { ask, generateKey, pay } from '../../testkit/client/http-client.js';
import { scrape, sumOf } from '../../testkit/client/metrics.js';
import { readTransaction } from '../../testkit/client/transactions.js';
import { openDistributedStores } from '../../testkit/deployments/distributed-stores.js';

/** Far less than any time limit of a store, and far more than a scrape takes. */
const SCRAPE_MS = 500;
const SEEN_DEADLINE_MS = 15_000;
const stores = await openDistributedStores();
afterAll(() => stores.close());
const { wires } = stores;
const both = [wires.redis, wires.postgres];
type Wire = (typeof both)[number];

test.each([
  ['refuse connections', (wire: Wire) => wire.cutOff()],
  ['take requests and answer none', (wire: Wire) => wire.blackhole('to client')],
])(
  'metrics are shown at once while the stores %s, and say that they are away',
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
    // Of many scrapes: a busy machine may delay a few.
    expect(scrapedIn.toSorted((a, b) => a - b)[Math.floor(scrapedIn.length / 2)]).toBeLessThan(SCRAPE_MS);
    for (const { status } of await Promise.all(asked)) expect(status).toBe(503);
    for (const wire of both) wire.heal();
    await untilFullService(url);
    await expect.poll(async () => sumOf(await scrape(url), 'idempay_store_up'), { timeout: SEEN_DEADLINE_MS }).toBe(2);
    await stop();
  },
);
