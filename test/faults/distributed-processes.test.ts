import { expect, onTestFinished, test } from 'vitest';
import { expectPromisesKept } from '../../testkit/checkers/expect-no-violations.js';
import { Load } from '../../testkit/client/load.js';
import { openDistributedStores } from '../../testkit/deployments/distributed-stores.js';
import { History } from '../../testkit/history/history.js';
import { seededRandom, seedFrom } from '../../testkit/random.js';
import { until } from '../../testkit/time/until.js';

const PROCESSES = ['service 1', 'service 2', 'service 3'];
const CLIENTS = { payments: 32, transactions: 32 };
const KEYS = 3_000;
const WRITES = 1_000;
const LEASE_SECONDS = 10;
const DEADLINE_MS = 180_000;

test(`three processes answer as one: ${KEYS} keys have one id each, nothing is stale, and nothing is refused`, async () => {
  const stores = await openDistributedStores();
  onTestFinished(() => stores.close());
  const settings = { LOCK_TTL_SECONDS: `${LEASE_SECONDS}` };
  const history = new History(
    await Promise.all(PROCESSES.map(async (name) => ({ name, url: (await stores.start(settings)).url }))),
  );
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
