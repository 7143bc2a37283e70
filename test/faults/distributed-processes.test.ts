import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { expectPromisesKept } from '../../testkit/checkers/expect-no-violations.js';
import { Load } from '../../testkit/client/load.js';
import { givenTransaction, readTransaction } from '../../testkit/client/transactions.js';
import { inParallel } from '../../testkit/concurrency.js';
import {
  type DistributedStores,
  executionOf,
  openDistributedStores,
  openWires,
} from '../../testkit/deployments/distributed-stores.js';
import { History } from '../../testkit/history/history.js';
import type { Service } from '../../testkit/processes/service.js';
import { seededRandom, seedFrom } from '../../testkit/random.js';
import { until } from '../../testkit/time/until.js';

const PROCESSES = [1, 2, 3];
const CLIENTS = { payments: 48, transactions: 16 };
const KEYS = 4_000;
const WRITES = 2_000;
const LEASE_SECONDS = 10;
const DEADLINE_MS = 180_000;
/** Sum of the waits of a reader for the one loader; a round that was over sooner had no reader that gave up. */
const PATIENCE_MS = 60;
const QUICK_ROUNDS = 20;
const READERS_PER_ROUND = 12;

describe('three processes on one Redis and one PostgreSQL', () => {
  let stores: DistributedStores;
  let wires: Awaited<ReturnType<typeof openWires>>;

  beforeAll(async () => {
    stores = await openDistributedStores();
    wires = await openWires(stores);
  });
  afterAll(async () => {
    await stores?.close();
    await wires?.close();
  });

  const start = (environment: Record<string, string>): Promise<Service[]> =>
    Promise.all(PROCESSES.map(() => stores.start({ LOCK_TTL_SECONDS: `${LEASE_SECONDS}`, ...environment })));

  it(`answer as one: ${KEYS} keys have one id each, no read and no list is stale, and nothing is ever refused`, async () => {
    const services = await start({});
    const history = new History(services.map(({ url }, index) => ({ name: `service ${index + 1}`, url })));
    const load = new Load(history, seededRandom(seedFrom('PROCESSES_SEED')));
    await load.during(CLIENTS, () =>
      until('enough keys and writes', DEADLINE_MS, () => history.keys.length >= KEYS && history.writes >= WRITES),
    );
    await expectPromisesKept(load, { charges: undefined, leaseMs: LEASE_SECONDS * 1_000 });
    history.close();

    const rows = await stores.sql<{ count: number; epochs: number }>(
      'SELECT count(*)::int, max(epoch)::int AS epochs FROM idempay.payments',
    );
    expect(rows).toEqual([{ count: history.keys.length, epochs: 1 }]);
    // Else the reads never met the cache, and the test has shown nothing.
    expect(history.cacheHits).toBeGreaterThan(WRITES);
  }, 300_000);

  it('load a row once for all readers of all processes that miss it together', async () => {
    const services = await start(wires.environment);
    const loads = wires.postgres.count(executionOf('find_transaction'));
    let quick = 0;
    for (let round = 0; quick < QUICK_ROUNDS; round += 1) {
      expect(round, `only ${quick} rounds were quick enough to count`).toBeLessThan(QUICK_ROUNDS * 50);
      const { transactionId: id } = await givenTransaction((services[0] as Service).url);
      const before = loads();
      const begun = performance.now();
      const answers = await inParallel(READERS_PER_ROUND, READERS_PER_ROUND, (reader) =>
        readTransaction((services[reader % PROCESSES.length] as Service).url, id),
      );
      const tookMs = performance.now() - begun;
      expect(answers.map(({ status }) => status)).toEqual(Array(READERS_PER_ROUND).fill(200));
      if (tookMs >= PATIENCE_MS) continue;
      quick += 1;
      expect(loads() - before, `loads in a round of ${tookMs} ms`).toBe(1);
    }
  }, 60_000);
});
