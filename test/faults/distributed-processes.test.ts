import { afterEach, beforeEach, expect, test } from 'vitest';
import { expectPromisesKept } from '../../testkit/checkers/expect-no-violations.js';
import { Load } from '../../testkit/client/load.js';
import { givenTransaction, readTransaction } from '../../testkit/client/transactions.js';
import {
  type DistributedStores,
  executionOf,
  openDistributedStores,
} from '../../testkit/deployments/distributed-stores.js';
import { History } from '../../testkit/history/history.js';
import { seededRandom, seedFrom } from '../../testkit/random.js';
import { until } from '../../testkit/time/until.js';

const PROCESSES = ['service 1', 'service 2', 'service 3'];
const CLIENTS = { payments: 48, transactions: 16 };
const KEYS = 4_000;
const WRITES = 2_000;
const LEASE_SECONDS = 10;
const DEADLINE_MS = 180_000;
/** Sum of the waits of a reader for the one loader; a round that was over sooner had no reader that gave up. */
const PATIENCE_MS = 60;
const QUICK_ROUNDS = 20;
const READERS = 12;

let stores: DistributedStores;
beforeEach(async () => {
  stores = await openDistributedStores();
});
afterEach(() => stores.close());

/** Three processes on one Redis and one PostgreSQL. */
function start(environment: Record<string, string> = {}) {
  const settings = { LOCK_TTL_SECONDS: `${LEASE_SECONDS}`, ...environment };
  return Promise.all(PROCESSES.map(async (name) => ({ name, url: (await stores.start(settings)).url })));
}

test(`three processes answer as one: ${KEYS} keys have one id each, nothing is stale, and nothing is refused`, async () => {
  const history = new History(await start());
  const load = new Load(history, seededRandom(seedFrom('PROCESSES_SEED')));
  await load.during(CLIENTS, () =>
    until('enough keys and writes', DEADLINE_MS, () => history.keys.length >= KEYS && history.writes >= WRITES),
  );
  await expectPromisesKept(load, { charges: undefined, leaseMs: LEASE_SECONDS * 1_000 });
  history.close();

  const rows = await stores.sql('SELECT count(*)::int, max(epoch)::int AS epochs FROM idempay.payments');
  expect(rows).toEqual([{ count: history.keys.length, epochs: 1 }]);
  // Else the reads never met the cache, and the test has shown nothing.
  expect(history.cacheHits).toBeGreaterThan(WRITES);
}, 300_000);

test('three processes load a row once for all readers that miss it together', async () => {
  const { wires } = stores;
  const urls = (await start(wires.environment)).map(({ url }) => url);
  const loads = wires.postgres.count(executionOf('find_transaction'));
  let quick = 0;
  for (let round = 0; quick < QUICK_ROUNDS; round += 1) {
    expect(round, `only ${quick} rounds were quick enough to count`).toBeLessThan(QUICK_ROUNDS * 50);
    const { transactionId: id } = await givenTransaction(urls[0] as string);
    const before = loads();
    const begun = performance.now();
    const readers = Array.from({ length: READERS }, (_, reader) => urls[reader % urls.length] as string);
    const answers = await Promise.all(readers.map((url) => readTransaction(url, id)));
    const tookMs = performance.now() - begun;
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    if (tookMs >= PATIENCE_MS) continue;
    quick += 1;
    expect(loads() - before, `loads in a round of ${tookMs} ms`).toBe(1);
  }
}, 60_000);
