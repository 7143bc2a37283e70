import { describe, expect, onTestFinished, test } from 'vitest';
import { isPostgresFault } from '#idempay/stores/postgres/connection/start.js';
import { changeStopped } from '#idempay/stores/postgres/connection/stopped-database.js';
import { migrate } from '#idempay/stores/postgres/migrate.js';
import { openTransferTarget } from '#idempay/stores/postgres/transfer-target.js';
import { LONG_TABLES, type TransferredRow, type TransferredTable } from '#idempay/stores/shared/transferred-tables.js';
import { nextMigrations } from '../../testkit/protocol/next-migration.js';
import { runSql } from '../../testkit/servers/postgres.js';
import { createSharedDatabase } from '../../testkit/servers/shared-database.js';

const NAME = 'a'.repeat(32);
/** In milliseconds, except the keepalives: seconds, and their number. */
const LIMITS = {
  statement_timeout: '0',
  lock_timeout: '0',
  idle_in_transaction_session_timeout: '60000',
  tcp_keepalives_idle: '5',
  tcp_keepalives_interval: '2',
  tcp_keepalives_count: '3',
  tcp_user_timeout: '11000',
};
const [PAYMENTS, TRANSACTIONS] = LONG_TABLES as [TransferredTable, TransferredTable];

/** A target that rows may be copied into, until the end of the test. `clauses`: of the creation of its database. */
async function openTarget(clauses?: string) {
  const { url, drop } = await createSharedDatabase(clauses);
  onTestFinished(drop);
  await migrate(url, undefined, undefined, NAME);
  const target = await openTransferTarget(url);
  onTestFinished(() => target.close());
  return { target, url };
}

function payment(key: string, index: number): TransferredRow {
  const none = Object.fromEntries(Object.keys(PAYMENTS.columns).map((column) => [column, null]));
  return {
    ...none,
    key,
    transaction_id: `TXN${index}`,
    amount: '1.00',
    currency: 'EUR',
    fingerprint: 'f',
    processor: 'p',
    state: 'PROCESSING',
    epoch: 1,
    owner: 'o',
    lease_until: 0,
    claimed_at: 0,
    recover_at: 0,
  };
}

/**
 * Bug: on a database with a Danish or Norwegian collation a transfer that was killed could not be resumed: it copied rows that were there.
 * Cause: `SELECT key::text ... ORDER BY key` sorts by the text that is put out, and there 'aa' comes after 'z'. Fix: the column of the
 * table is named.
 */
test('a transfer goes on behind the last key, whatever the collation of the database is', async () => {
  const { target } = await openTarget("TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'da'");
  const keys = ['01900000-0000-7aa0-8000-000000000000', '01900000-0000-7bb0-8000-000000000000'];
  await target.copy(NAME, PAYMENTS, keys.map(payment));
  expect(await target.last(PAYMENTS)).toEqual([keys[1]]);
});

/**
 * Bug: a transfer ended early at a database whose role or database sets a short `statement_timeout`. Cause: the last key and the ids were read
 * outside the transactions that have no limit. Fix: these reads are in such a transaction.
 */
test('no read of a target has the time limit of its database', async () => {
  const { url, drop } = await createSharedDatabase();
  onTestFinished(drop);
  await migrate(url, undefined, undefined, NAME);
  await runSql(
    url,
    `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET statement_timeout = 100', current_database()); END $$`,
  );
  // The table takes longer to read than the limit is.
  await runSql(
    url,
    `CREATE FUNCTION idempay.slow(key uuid) RETURNS uuid LANGUAGE sql AS 'SELECT key FROM pg_sleep(0.3)';
    ALTER TABLE idempay.payments RENAME TO slow_payments;
    CREATE VIEW idempay.payments AS SELECT idempay.slow('00000000-0000-0000-0000-000000000000') AS key;
    ALTER TABLE idempay.transactions RENAME TO slow_transactions;
    CREATE VIEW idempay.transactions AS SELECT 1 AS id FROM pg_sleep(0.3)`,
  );
  const target = await openTransferTarget(url);
  onTestFinished(() => target.close());
  expect(await target.last(PAYMENTS)).toHaveLength(1);
  for await (const ids of target.transactionIds()) expect(ids).toEqual([1]);
  expect(await target.count(TRANSACTIONS)).toBe(1);
});

/**
 * Bug: after the death of the machine on which a command ran, its locks stayed for up to two hours. Cause: its sessions had no keepalives, and
 * turned the limit for idle transactions off. Fix: each of its transactions has those of the service's sessions.
 */
describe('a transaction of a command has no time limit, and ends with its machine', () => {
  const limits = Object.keys(LIMITS)
    .map((name) => `(SELECT setting FROM pg_settings WHERE name = '${name}') AS ${name}`)
    .join(', ');

  test('in a transfer', async () => {
    const { target, url } = await openTarget();
    await runSql(url, `CREATE VIEW idempay.limits AS SELECT ${limits}`);
    const found = await target.last({ name: 'limits', key: Object.keys(LIMITS), columns: {}, comparedBy: [] });
    expect(found).toEqual(Object.values(LIMITS));
  });

  test('in a change of a stopped database', async () => {
    const { url, drop } = await createSharedDatabase();
    onTestFinished(drop);
    await migrate(url);
    const { rows } = await changeStopped(url, 'idempay-test', (client) => client.query(`SELECT ${limits}`));
    expect(rows).toEqual([LIMITS]);
  });

  test('in a migration', async () => {
    const { url, drop } = await createSharedDatabase();
    onTestFinished(drop);
    await migrate(
      url,
      undefined,
      await nextMigrations({}, 'Full stop', `CREATE TABLE idempay.seen AS SELECT ${limits}`),
    );
    const { statement_timeout, tcp_keepalives_idle, tcp_user_timeout } = LIMITS;
    const [seen] = await runSql(url, 'SELECT * FROM idempay.seen');
    expect(seen).toMatchObject({ statement_timeout, tcp_keepalives_idle, tcp_user_timeout });
  });
});

test('a session that the server has ended is a fault of the way to it', async () => {
  const { target, url } = await openTarget();
  const end =
    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'idempay-transfer' AND datname = current_database()";
  expect(await runSql(url, end)).toHaveLength(1);
  const faults = [];
  for (let reads = 0; reads < 2; reads += 1) faults.push(await target.count(PAYMENTS).catch((error: unknown) => error));
  expect(faults.map(isPostgresFault)).toEqual([true, true]);
});
