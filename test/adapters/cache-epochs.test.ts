import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { systemClock } from '#idempay/platform/clock.js';
import { DatabaseAddress } from '#idempay/stores/postgres/connection/address.js';
import { DatabaseClock } from '#idempay/stores/postgres/connection/database-clock.js';
import { createConfirmDurable } from '#idempay/stores/postgres/connection/durability.js';
import { Postgres } from '#idempay/stores/postgres/connection/postgres.js';
import { createPostgresCacheEpochs } from '#idempay/stores/postgres/transactions/cache-epochs.js';
import { createPostgresTransactionStore } from '#idempay/stores/postgres/transactions/transaction-store.js';
import type { TransactionStore } from '#idempay/transactions/ports/transaction-store.js';
import { openStartedStores } from '../../testkit/protocol/ports.js';
import { until } from '../../testkit/time/until.js';

const WAITING_DEADLINE_MS = 10_000;

/** `test/faults/redis-moves.test.ts` shows what a client reads while an address of Redis moves. */
describe('an epoch of the cache', () => {
  let stores: Awaited<ReturnType<typeof openStartedStores>>;
  let transactions: TransactionStore;
  let database: Postgres;
  let epochs: ReturnType<typeof createPostgresCacheEpochs>;

  beforeEach(async () => {
    // A process that ran on would begin epochs of its own.
    stores = await openStartedStores();
    database = new Postgres(new DatabaseAddress(stores.databaseUrl), 4, () => {});
    const clock = new DatabaseClock(database, systemClock);
    await clock.synchronize();
    transactions = createPostgresTransactionStore(database, clock, createConfirmDurable(database, systemClock), {
      maxSnapshots: 1,
    });
    epochs = createPostgresCacheEpochs(database);
  });
  afterEach(async () => {
    await database.close();
    await stores.close();
  });

  /** Statements that wait for a lock of another one. */
  async function waiting(): Promise<number> {
    const [row] = await database.read<{ count: number }>({
      name: 'waiting',
      text: `SELECT count(*)::integer AS count FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
    });
    return row?.count ?? 0;
  }

  const created = () => transactions.create({ fromAccount: 'a', toAccount: 'b', amount: '1', status: 'PENDING' });

  test('begins with each master that is not in the one before, also with one that comes back', async () => {
    const { epoch: before } = await epochs.latest();
    const found: number[] = [];
    for (const masters of [['a'], ['a'], ['b', 'c'], ['b'], ['a']])
      found.push((await epochs.of(masters)).epoch - before);
    expect(found).toEqual([1, 1, 2, 2, 3]);
    expect(await epochs.latest()).toEqual({ epoch: before + 3, masters: ['a'] });
    expect(await Promise.all(Array.from({ length: 4 }, () => epochs.of(['d'])))).toEqual(
      Array.from({ length: 4 }, () => ({ epoch: before + 4, masters: ['d'] })),
    );
  });

  test('permits changes and deletes whose mark is of it, and no others', async () => {
    const [{ epoch }, { id }] = [await epochs.latest(), await created()];
    for (const other of [epoch - 1, epoch + 1]) {
      await expect(transactions.changeStatus(id, 'FLAGGED', undefined, { epoch: other })).rejects.toMatchObject({
        effect: 'unchanged',
      });
      await expect(transactions.remove(id, undefined, { epoch: other })).rejects.toMatchObject({ effect: 'unchanged' });
    }
    expect(await transactions.get(id)).toMatchObject({ status: 'PENDING', version: 1 });
    expect(await transactions.changeStatus(id, 'FLAGGED', undefined, { epoch })).toMatchObject({ state: 'done' });
    expect(await transactions.remove(id, undefined, { epoch })).toBe('removed');
  });

  test('does not begin before the changes of the one before are committed', async () => {
    const [{ epoch }, { id }] = [await epochs.latest(), await created()];
    await stores.client.query('BEGIN');
    await stores.client.query('SELECT FROM idempay.transactions FOR UPDATE');
    const changing = transactions.changeStatus(id, 'FLAGGED', undefined, { epoch });
    await until('the change to wait', WAITING_DEADLINE_MS, async () => (await waiting()) === 1);
    let isNew = false;
    const beginning = epochs.of(['another']).then(() => {
      isNew = true;
    });
    await until('the epoch to wait too', WAITING_DEADLINE_MS, async () => isNew || (await waiting()) === 2);
    expect(isNew).toBe(false);
    await stores.client.query('ROLLBACK');
    expect(await changing).toMatchObject({ state: 'done' });
    await beginning;
    expect(await transactions.get(id)).toMatchObject({ status: 'FLAGGED' });
  });
});
