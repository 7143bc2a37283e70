import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { systemClock } from '#idempay/clock.js';
import type { Deployment } from '#idempay/deployments/deployment.js';
import { openEmbedded } from '#idempay/deployments/embedded/open.js';
import { givenClaim, givenSettled, LONG_MS, newKey } from '../../testkit/protocol/payment-attempts.js';
import { until } from '../../testkit/time/until.js';

const KEYS = 200;
const SWEPT = 30;
const SWEPT_DEADLINE_MS = 5_000;

let dataDir: string;
let deployment: Deployment;

beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'idempay-key-count-'));
  await start();
});
afterEach(async () => {
  await deployment.close();
  await rm(dataDir, { recursive: true, force: true });
});

async function start(): Promise<void> {
  deployment = await openEmbedded({ dataDir, transactionCacheTtlMs: LONG_MS, clock: systemClock });
}

/** What is stored, past the deployment, as after a crash at this moment. */
function stored<Row>(sql: string): Row {
  const database = new DatabaseSync(join(dataDir, 'idempay.sqlite'));
  try {
    return database.prepare(sql).get() as Row;
  } finally {
    database.close();
  }
}

async function totalKeys(): Promise<number> {
  return (await deployment.keyValueStore.statistics()).totalKeys;
}

test('every commit keeps the number of key records, so that a crash at any moment leaves it right', async () => {
  const { keys, ledger } = deployment;
  const count = () =>
    stored<{ kept: number; counted: number }>(
      'SELECT (SELECT records FROM key_count) AS kept, (SELECT count(*) FROM idempotency_keys) AS counted',
    );
  const twice = newKey();
  await Promise.all([...Array.from({ length: KEYS }, newKey), twice, twice].map((key) => keys.issue(key, LONG_MS)));
  expect(count()).toEqual({ kept: KEYS + 1, counted: KEYS + 1 });

  // A payment whose key record is gone brings it back with its outcome.
  await givenSettled(ledger, await givenClaim(ledger));
  expect(count()).toEqual({ kept: KEYS + 2, counted: KEYS + 2 });

  await Promise.all(Array.from({ length: SWEPT }, () => keys.issue(newKey(), 1)));
  await until('the expired ones to be swept', SWEPT_DEADLINE_MS, async () => (await totalKeys()) === KEYS + 2);
  expect(count()).toEqual({ kept: KEYS + 2, counted: KEYS + 2 });
});

/** Bug: a start read the whole table of key records to count them, seconds for each ten million. */
test('a start reads the number of key records and does not count them', async () => {
  await deployment.keys.issue(newKey(), LONG_MS);
  await deployment.close();
  const database = new DatabaseSync(join(dataDir, 'idempay.sqlite'));
  database.exec('UPDATE key_count SET records = 1000');
  database.close();
  await start();
  expect(await totalKeys()).toBe(1_000);
  await deployment.keys.issue(newKey(), LONG_MS);
  expect(await totalKeys()).toBe(1_001);
});
