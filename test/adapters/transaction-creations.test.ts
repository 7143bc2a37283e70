import { randomUUID } from 'node:crypto';
import { DatabaseSync } from '@photostructure/sqlite';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { migrate } from '#idempay/stores/embedded/migrate.js';
import { createTransactionCreations } from '#idempay/stores/embedded/transactions/transaction-creations.js';
import {
  CREATE_ONCE,
  FIND_CREATION,
  SWEEP_CREATION_KEYS,
} from '#idempay/stores/postgres/transactions/transaction-statements.js';
import { asCreated, type CreationKey, fingerprintOf } from '#idempay/transactions/creation.js';
import type { NewTransaction } from '#idempay/transactions/transaction.js';
import {
  openDistributedPorts,
  openDistributedPortsOn,
  openEmbeddedPorts,
  openSqlStores,
  openStartedStores,
  sharePorts,
} from '../../testkit/protocol/ports.js';
import { planOf } from '../../testkit/protocol/postgres-plan.js';
import { untilPast } from '../../testkit/time/until.js';

const LONG_MS = 600_000;

function rowsOf(count: number): NewTransaction[] {
  const fromAccount = randomUUID();
  return Array.from({ length: count }, (_, index) => {
    return { fromAccount, toAccount: 'to', amount: String(index + 1), status: 'PENDING' };
  });
}

function keyFor(rows: readonly NewTransaction[], idempotencyTtlMs = LONG_MS): CreationKey {
  return { client: '', endpoint: 'batch', key: randomUUID(), fingerprint: fingerprintOf(rows), idempotencyTtlMs };
}

describe.each([
  ['SQLite', openEmbeddedPorts],
  ['PostgreSQL', openDistributedPorts],
])('a create that %s refuses', async (_store, open) => {
  const { transactions: store } = await sharePorts(open);
  const refused = (rows: readonly NewTransaction[]) =>
    rows.map((row, index) => (index === 1 ? sameAccounts(row) : row));
  const sameAccounts = (row: NewTransaction) => ({ ...row, toAccount: row.fromAccount });

  test('creates none of its rows and leaves its key unused', async () => {
    const rows = rowsOf(3);
    const key = keyFor(rows);
    const version = await store.listVersion();
    await expect(store.createAll(refused(rows), key)).rejects.toThrow();
    await expect(store.createAll(refused(rows))).rejects.toThrow();
    expect(await store.listVersion()).toBe(version);
    expect(await store.findCreation(key)).toBeUndefined();
    const created = await store.createAll(rows, key);
    if (created.state !== 'created') throw new Error(created.state);
    expect(await store.get(created.firstId + 2)).toEqual(asCreated(rows, created)[2]);
  });

  test('does not fail the others of its statement or commit', async () => {
    const creates = Array.from({ length: 10 }, (_, index) => {
      const rows = rowsOf(1);
      return { rows: index === 4 ? rows.map(sameAccounts) : rows, key: keyFor(rows) };
    });
    const results = await Promise.allSettled(creates.map(({ rows, key }) => store.createAll(rows, key)));
    for (const [index, result] of results.entries()) {
      if (index === 4) expect(result.status).toBe('rejected');
      else expect(result).toMatchObject({ value: { state: 'created' } });
    }
  });
});

describe('expired keys of creates', () => {
  test('are removed from SQLite, the oldest first, by the clock that also judges them', () => {
    const database = new DatabaseSync(':memory:');
    onTestFinished(() => database.close());
    migrate(database);
    let [wallMs, heldMs] = [1_000, 1_000];
    const { createTransactions, findCreation, sweepCreationKeys } = createTransactionCreations(
      database,
      () => wallMs,
      () => heldMs,
    );
    const rows = rowsOf(1);
    const keys = [300, 100, 200].map((ttlMs) => keyFor(rows, ttlMs));
    for (const key of keys) createTransactions({ transactions: rows, key });
    // A wall clock alone that jumps ahead ends nothing.
    wallMs += 1_000_000;
    expect(keys.map((key) => findCreation(key)?.state)).toEqual(['replayed', 'replayed', 'replayed']);
    expect(sweepCreationKeys({ limit: 10 })).toBe(0);
    heldMs = 1_200;
    expect(keys.map((key) => findCreation(key)?.state)).toEqual(['replayed', undefined, undefined]);
    expect([1, 1, 1].map((limit) => sweepCreationKeys({ limit }))).toEqual([1, 1, 0]);
    expect(findCreation(keys[0] as CreationKey)).toMatchObject({ state: 'replayed' });
  });

  test('are removed from PostgreSQL by several processes at once, and no other is', async () => {
    const stores = await openSqlStores();
    const ports = await openDistributedPortsOn(stores);
    onTestFinished(async () => {
      await ports.close();
      await stores.close();
    });
    const creates = Array.from({ length: 60 }, (_, index) => {
      const rows = rowsOf(1);
      return { rows, key: keyFor(rows, index % 2 === 0 ? 1 : LONG_MS) };
    });
    await Promise.all(creates.map(({ rows, key }) => ports.transactions.createAll(rows, key)));
    await untilPast(1);
    const sweep = async () => (await stores.client.query(SWEEP_CREATION_KEYS.text, [10])).rowCount ?? 0;
    const removed = [await sweep(), await sweep(), await sweep(), await sweep()];
    expect(removed).toEqual([10, 10, 10, 0]);
    for (const { rows, key } of creates.filter(({ key }) => key.idempotencyTtlMs === LONG_MS)) {
      expect(await ports.transactions.createAll(rows, key)).toMatchObject({ state: 'replayed' });
    }
  });
});

describe('the plan in PostgreSQL, with many keys', () => {
  let stores: Awaited<ReturnType<typeof openStartedStores>>;
  beforeAll(async () => {
    stores = await openStartedStores();
    await stores.client.query(`
      INSERT INTO idempay.creation_keys
      SELECT 'key:' || n % 7, 'one', 'key ' || n, 'fingerprint', n, now(), now() + n * interval '1 second'
      FROM generate_series(-1000, 50000) AS n`);
    await stores.client.query('SET enable_seqscan = off');
  });
  afterAll(() => stores?.close());

  test.each([false, true])('of a look and of a sweep goes by an index (analyzed: %s)', async (analyzed) => {
    if (analyzed) await stores.client.query('VACUUM ANALYZE idempay.creation_keys');
    const find = await planOf(stores.client, FIND_CREATION, 'force_generic_plan', ['key:1', 'one', 'key 1']);
    expect(find).toMatchObject({ indexes: ['creation_keys_pkey'], tables: [] });
    const sweep = await planOf(stores.client, SWEEP_CREATION_KEYS, 'force_generic_plan', [10]);
    expect(sweep.tables).toEqual([]);
    expect([...new Set(sweep.indexes)].sort()).toEqual(['creation_keys_by_end', 'creation_keys_pkey']);
  });

  test('of a create touches no key but its own', async () => {
    const columns = [['key:1'], ['one'], [randomUUID()], ['fingerprint'], [LONG_MS], [0]];
    const rows = [['A'], ['B'], ['10000'], ['PENDING'], [0]];
    await stores.client.query('UPDATE idempay.deployment SET timeline = idempay.timeline()');
    const { tables, blocks } = await planOf(stores.client, CREATE_ONCE, 'force_generic_plan', [...columns, ...rows], {
      executed: true,
    });
    expect(tables.filter((table) => table !== 'transaction_list' && table !== 'deployment')).toEqual([]);
    expect(blocks).toBeLessThan(100);
  });
});
