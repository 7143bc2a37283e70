import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import { expect, onTestFinished, test } from 'vitest';
import { systemClock } from '#idempay/clock.js';
import { openEmbedded } from '#idempay/deployments/embedded/open.js';
import type { Claim } from '#idempay/payments/values/payment.js';
import {
  claimAttempt,
  completed,
  LONG_MS,
  newKey,
  newOwner,
  newTransactionId,
  SHORT_MS,
} from '../../testkit/protocol/payment-attempts.js';
import { openDistributedPortsOn, openSqlStores, type Ports } from '../../testkit/protocol/ports.js';
import { untilPast } from '../../testkit/time/until.js';

/** The schema before back-off, resolution and history came. */
const OLD_MIGRATIONS = ['0001_payments.sql', '0002_transactions.sql'];
const PROCESSOR = 'of-old';
const HOUR_MS = 3_600_000;
const TIMES = ['lease_until', 'claimed_at', 'settled_at', 'expires_at'];

/** As the version before writes it; times in milliseconds since the epoch. */
function oldRow(members: Record<string, unknown> = {}) {
  const [now, key] = [Date.now(), newKey()];
  const times = { lease_until: now - HOUR_MS, claimed_at: now - 2 * HOUR_MS, settled_at: null, expires_at: null };
  return { key, transaction_id: newTransactionId(), state: 'PROCESSING', epoch: 3, ...times, reason: null, ...members };
}

/** A row in every state. */
function oldRows() {
  const now = Date.now();
  const settled = { settled_at: now - HOUR_MS, expires_at: now + HOUR_MS };
  return {
    dead: oldRow(),
    alive: oldRow({ lease_until: now + LONG_MS, epoch: 1 }),
    paid: oldRow({ state: 'COMPLETED', ...settled }),
    declined: oldRow({ state: 'DECLINED', ...settled, reason: 'no funds' }),
    expired: oldRow({ state: 'COMPLETED', ...settled, expires_at: now - HOUR_MS / 2 }),
  };
}

/** Without the columns that the version before does not know. */
function insertion(table: string, row: object, place: (column: string, number: number) => string): string {
  const columns = Object.keys(row);
  const places = columns.map((column, index) => place(column, index + 1));
  return `INSERT INTO ${table} (${columns.join(', ')}, amount, currency, fingerprint, processor, owner)
    VALUES (${places.join(', ')}, '7.00', 'EUR', '7.00 EUR', '${PROCESSOR}', 'owner')`;
}

function migration(folder: string, name: string): Promise<string> {
  return readFile(new URL(`../../src/deployments/${folder}/migrations/${name}`, import.meta.url), 'utf8');
}

function takeOverAbandoned({ ledger }: Pick<Ports, 'ledger'>): Promise<readonly Claim[]> {
  return ledger.takeOverAbandoned({ owner: newOwner(), leaseMs: LONG_MS, processor: PROCESSOR, limit: 10 });
}

const keysOf = (payments: readonly { readonly key: string }[]) => payments.map(({ key }) => key).sort();

/** What has an end keeps it, and what is under way goes on. */
async function expectEveryPaymentKept(ports: Ports, rows: ReturnType<typeof oldRows>, due: (typeof rows.dead)[]) {
  const { ledger, paymentHistory } = ports;
  const { paid, declined, expired, dead } = rows;
  expect(await ledger.find(paid.key)).toMatchObject({ final: { outcome: { transactionId: paid.transaction_id } } });
  expect(await ledger.find(declined.key)).toMatchObject({ final: { outcome: { reason: 'no funds' } } });
  expect(await ledger.claim(claimAttempt({ key: expired.key }))).toEqual({ state: 'expired' });
  expect(await ledger.countAbandoned(HOUR_MS, HOUR_MS)).toBe(due.length);

  const everything = { state: undefined, createdFrom: undefined, createdTo: undefined, before: undefined, limit: 10 };
  expect(keysOf((await paymentHistory.newest(everything, 10)).payments)).toEqual(keysOf(Object.values(rows)));
  const settled = await paymentHistory.settled({ from: 0, to: Date.now(), after: undefined, limit: 10 });
  expect(keysOf(settled.payments)).toEqual(keysOf([paid, declined, expired]));
  const shown = { attempts: 3, reason: 'no funds', resolution: undefined };
  expect(await paymentHistory.find(declined.key)).toMatchObject(shown);

  const taken = await takeOverAbandoned(ports);
  expect(keysOf(taken)).toEqual(keysOf(due));
  const claim = taken.find(({ key }) => key === dead.key) as Claim;
  expect(claim).toMatchObject({ epoch: 4, transactionId: dead.transaction_id, amount: '7.00', currency: 'EUR' });
  expect(await ledger.settle(claim, completed(claim), LONG_MS)).toMatchObject({ state: 'settled' });
}

test('payments of the version before are kept in SQLite, and what was under way is due at once, as after any start', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'idempay-upgrade-'));
  onTestFinished(() => rm(dataDir, { recursive: true, force: true }));
  const rows = oldRows();
  const database = new DatabaseSync(join(dataDir, 'idempay.sqlite'));
  for (const name of OLD_MIGRATIONS) database.exec(await migration('embedded', name));
  database.exec(`PRAGMA user_version = ${OLD_MIGRATIONS.length}`);
  for (const row of Object.values(rows)) {
    database.prepare(insertion('payments', row, () => '?')).run(...Object.values(row));
  }
  database.close();

  const ports = await openEmbedded({ dataDir, transactionCacheTtlMs: LONG_MS, clock: systemClock });
  onTestFinished(() => ports.close());
  await expectEveryPaymentKept(ports, rows, [rows.dead, rows.alive]);
});

test('payments of the version before are kept in PostgreSQL, also those that it writes beside the new one', async () => {
  const stores = await openSqlStores();
  onTestFinished(() => stores.close());
  const { client } = stores;
  await client.query(`
    CREATE SCHEMA idempay;
    CREATE TABLE idempay.migrations (name text NOT NULL PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())`);
  for (const name of OLD_MIGRATIONS) {
    await client.query(await migration('distributed/postgres', name));
    await client.query('INSERT INTO idempay.migrations (name) VALUES ($1)', [name]);
  }
  const insert = (row: ReturnType<typeof oldRow>) => {
    const place = (column: string, number: number) =>
      TIMES.includes(column) ? `to_timestamp($${number}::float8 / 1000)` : `$${number}`;
    return client.query(insertion('idempay.payments', row, place), Object.values(row));
  };
  const rows = oldRows();
  for (const row of Object.values(rows)) await insert(row);

  const ports = await openDistributedPortsOn(stores);
  onTestFinished(() => ports.close());
  await expectEveryPaymentKept(ports, rows, [rows.dead]);
  expect(await ports.ledger.claim(claimAttempt({ key: rows.alive.key }))).toMatchObject({ state: 'under way' });

  const dying = oldRow({ lease_until: Date.now() + SHORT_MS });
  await insert(dying);
  await untilPast(SHORT_MS);
  expect(keysOf(await takeOverAbandoned(ports))).toEqual([dying.key]);
  const settled = "state = 'COMPLETED', settled_at = now(), expires_at = now() + interval '1 hour'";
  await client.query(`UPDATE idempay.payments SET ${settled} WHERE key = $1`, [rows.alive.key]);
  expect(await ports.ledger.find(rows.alive.key)).toMatchObject({ state: 'final' });
});
