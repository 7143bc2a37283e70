import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { systemClock } from '#idempay/clock.js';
import { openEmbedded } from '#idempay/deployments/embedded/open.js';
import type { Claim } from '#idempay/payments/values/payment.js';
import {
  claimAttempt,
  completed,
  LONG_MS,
  newKey,
  newOwner,
  SHORT_MS,
} from '../../testkit/protocol/payment-attempts.js';
import { openDistributedPortsOn, openSqlStores, type Ports } from '../../testkit/protocol/ports.js';
import { untilPast } from '../../testkit/time/until-past.js';

/** The schema before back-off, resolution and history came. */
const OLD_MIGRATIONS = ['0001_payments.sql', '0002_transactions.sql'];
const MIGRATIONS = { embedded: 'embedded/migrations', distributed: 'distributed/postgres/migrations' } as const;
const PROCESSOR = 'of-old';
const HOUR_MS = 3_600_000;

/** The columns of the old schema that differ between rows, in their order; times in milliseconds since the epoch. */
type OldRow = Record<'key' | 'transaction_id' | 'state', string> &
  Record<'epoch' | 'lease_until' | 'claimed_at', number> &
  Record<'settled_at' | 'expires_at', number | null> & { reason: string | null };

const COLUMNS = `key, transaction_id, state, epoch, lease_until, claimed_at, settled_at, expires_at, reason,
  amount, currency, fingerprint, processor, owner`;
const SAME = `'7.00', 'EUR', '7.00 EUR', '${PROCESSOR}', 'owner'`;

let number = 0;

function oldRow(members: Partial<OldRow>): OldRow {
  const now = Date.now();
  number += 1;
  return {
    ...{ key: newKey(), transaction_id: `TXN${number}`, state: 'PROCESSING', epoch: 3 },
    ...{ lease_until: now - HOUR_MS, claimed_at: now - 2 * HOUR_MS, settled_at: null, expires_at: null, reason: null },
    ...members,
  };
}

/** A row in every state. */
function oldRows() {
  const now = Date.now();
  const settled = { settled_at: now - HOUR_MS, expires_at: now + HOUR_MS };
  return {
    dead: oldRow({}),
    alive: oldRow({ lease_until: now + LONG_MS, epoch: 1 }),
    completed: oldRow({ state: 'COMPLETED', ...settled }),
    declined: oldRow({ state: 'DECLINED', ...settled, reason: 'no funds' }),
    expired: oldRow({ state: 'COMPLETED', ...settled, expires_at: now - HOUR_MS / 2 }),
  };
}

function migration(deployment: keyof typeof MIGRATIONS, name: string): Promise<string> {
  return readFile(new URL(`../../src/deployments/${MIGRATIONS[deployment]}/${name}`, import.meta.url), 'utf8');
}

function takeOverAbandoned({ ledger }: Pick<Ports, 'ledger'>): Promise<readonly Claim[]> {
  return ledger.takeOverAbandoned({ owner: newOwner(), leaseMs: LONG_MS, processor: PROCESSOR, limit: 10 });
}

function valuesOf(row: OldRow) {
  const { key, transaction_id, state, epoch, lease_until, claimed_at, settled_at, expires_at, reason } = row;
  return [key, transaction_id, state, epoch, lease_until, claimed_at, settled_at, expires_at, reason];
}

const keysOf = (payments: readonly { readonly key: string }[]) => payments.map(({ key }) => key);

/** What has an end keeps it, and what is under way goes on. */
async function expectEveryPaymentKept(ports: Ports, rows: ReturnType<typeof oldRows>, due: OldRow[]): Promise<void> {
  const { ledger, paymentHistory } = ports;
  const { completed: paid, declined, expired, dead } = rows;
  expect(await ledger.find(paid.key)).toMatchObject({ final: { outcome: { transactionId: paid.transaction_id } } });
  expect(await ledger.find(declined.key)).toMatchObject({ final: { outcome: { reason: 'no funds' } } });
  expect(await ledger.claim(claimAttempt({ key: expired.key }))).toEqual({ state: 'expired' });
  expect(await ledger.countAbandoned(HOUR_MS, HOUR_MS)).toBe(due.length);

  const everything = { state: undefined, createdFrom: undefined, createdTo: undefined, before: undefined, limit: 10 };
  expect(keysOf(await paymentHistory.newest(everything)).sort()).toEqual(keysOf(Object.values(rows)).sort());
  const settled = await paymentHistory.settled({ from: 0, to: Date.now(), after: undefined, limit: 10 });
  expect(keysOf(settled.payments).sort()).toEqual(keysOf([paid, declined, expired]).sort());
  expect(await paymentHistory.find(declined.key)).toMatchObject({
    attempts: 3,
    reason: 'no funds',
    resolution: undefined,
  });

  const taken = await takeOverAbandoned(ports);
  expect(keysOf(taken).sort()).toEqual(keysOf(due).sort());
  const claim = taken.find(({ key }) => key === dead.key) as Claim;
  expect(claim).toMatchObject({ epoch: 4, transactionId: dead.transaction_id, amount: '7.00', currency: 'EUR' });
  expect(await ledger.settle(claim, completed(claim), LONG_MS)).toMatchObject({ state: 'settled' });
}

describe('payments of the version before (embedded)', () => {
  let dataDir: string;

  beforeEach(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'idempay-upgrade-'));
  });
  afterEach(() => rm(dataDir, { recursive: true, force: true }));

  async function givenOldFile(rows: readonly OldRow[]): Promise<void> {
    const database = new DatabaseSync(join(dataDir, 'idempay.sqlite'));
    for (const name of OLD_MIGRATIONS) database.exec(await migration('embedded', name));
    database.exec(`PRAGMA user_version = ${OLD_MIGRATIONS.length}`);
    const insert = database.prepare(`INSERT INTO payments (${COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ${SAME})`);
    for (const row of rows) insert.run(...valuesOf(row));
    database.close();
  }

  test('are kept, and what was under way is due at once, as after any start', async () => {
    const rows = oldRows();
    await givenOldFile(Object.values(rows));
    const ports = await openEmbedded({ dataDir, transactionCacheTtlMs: LONG_MS, clock: systemClock });
    await expectEveryPaymentKept(ports, rows, [rows.dead, rows.alive]);
    await ports.close();
  });
});

describe('payments of the version before (distributed)', () => {
  let stores: Awaited<ReturnType<typeof openSqlStores>>;
  let ports: Ports | undefined;

  beforeEach(async () => {
    stores = await openSqlStores();
    await stores.client.query(`
      CREATE SCHEMA idempay;
      CREATE TABLE idempay.migrations (name text NOT NULL PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())`);
    for (const name of OLD_MIGRATIONS) {
      await stores.client.query(await migration('distributed', name));
      await stores.client.query('INSERT INTO idempay.migrations (name) VALUES ($1)', [name]);
    }
  });
  afterEach(async () => {
    await ports?.close();
    await stores.close();
  });

  /** As the version before writes it: without the columns that it does not know. */
  async function insertOld(row: OldRow): Promise<void> {
    const times = [5, 6, 7, 8].map((n) => `to_timestamp($${n}::float8 / 1000)`).join(', ');
    const values = `$1, $2, $3, $4, ${times}, $9, ${SAME}`;
    await stores.client.query(`INSERT INTO idempay.payments (${COLUMNS}) VALUES (${values})`, valuesOf(row));
  }

  test('are kept, and what was abandoned is due at once', async () => {
    const rows = oldRows();
    for (const row of Object.values(rows)) await insertOld(row);
    ports = await openDistributedPortsOn(stores);
    await expectEveryPaymentKept(ports, rows, [rows.dead]);
    expect(await ports.ledger.claim(claimAttempt({ key: rows.alive.key }))).toMatchObject({ state: 'under way' });
  });

  test('of a process that still runs beside the new one: its claims are recovered, and settled by it', async () => {
    ports = await openDistributedPortsOn(stores);
    const dying = oldRow({ lease_until: Date.now() + SHORT_MS });
    const alive = oldRow({ lease_until: Date.now() + LONG_MS });
    for (const row of [dying, alive]) await insertOld(row);
    await untilPast(SHORT_MS);
    expect(keysOf(await takeOverAbandoned(ports))).toEqual([dying.key]);

    await stores.client.query(
      `UPDATE idempay.payments SET state = 'COMPLETED', settled_at = now(), expires_at = now() + interval '1 hour'
       WHERE key = $1`,
      [alive.key],
    );
    expect(await ports.ledger.find(alive.key)).toMatchObject({ state: 'final' });
  });
});
