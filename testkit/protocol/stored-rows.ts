import { join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import { systemClock } from '#idempay/platform/clock.js';
import { openEmbedded } from '#idempay/stores/embedded/open.js';
import type { Stores } from '../deployments/deployments.js';
import { runSql } from '../servers/postgres.js';
import { openDistributedPortsOn, type Ports } from './ports.js';

type Environment = Pick<Stores, 'environment'>;

/** The adapters on the stores of a deployment, for states that no request can create; no service may run on them meanwhile. */
export async function openPortsOn({ environment }: Environment): Promise<Ports> {
  const { DATA_DIR, REDIS_URL, DATABASE_URL } = environment;
  if (DATA_DIR !== undefined)
    return openEmbedded({ dataDir: DATA_DIR, transactionCacheTtlMs: 1_000, clock: systemClock });
  return openDistributedPortsOn({ redisUrl: REDIS_URL as string, databaseUrl: DATABASE_URL as string });
}

/** The same change for the one database and the other. Times are milliseconds there, and timestamps here. */
export type StoredChange = Readonly<Record<'embedded' | 'distributed', string>>;

/** Changes what a deployment has stored, past all service processes, as only time or very many requests would. */
export async function changeStored({ environment }: Environment, change: StoredChange): Promise<void> {
  const { DATA_DIR, DATABASE_URL } = environment;
  if (DATA_DIR !== undefined) {
    const database = new DatabaseSync(join(DATA_DIR, 'idempay.sqlite'));
    database.exec(change.embedded);
    database.close();
    return;
  }
  await runSql(DATABASE_URL as string, change.distributed);
}

/** As if every claim that could have missed the last move of the horizon had ended by now. */
export const HORIZON_SEEN_BY_ALL: StoredChange = {
  embedded: '',
  distributed: "UPDATE idempay.payment_horizon SET seen_at = seen_at - interval '1 minute'",
};

/** Moves all the times of these payments and the ends of their keys' lives into the past; not the keys, which tell theirs. */
export function aged(keys: readonly string[], byMs: number): StoredChange {
  const times = ['claimed_at', 'settled_at', 'expires_at', 'lease_until', 'recover_at'];
  const change = (table: string, by: string) =>
    `UPDATE ${table} SET ${times.map((time) => `${time} = ${time} - ${by}`)} WHERE key IN ('${keys.join("', '")}')`;
  return {
    embedded: change('payments', String(byMs)),
    distributed: change('idempay.payments', `interval '1 millisecond' * ${byMs}`),
  };
}

/**
 * This number of completed payments, numbered from 1, settled from `settledFrom` on (milliseconds since the epoch), two in each second.
 * They are not in the order of their keys, so that any order but the one of settling would show.
 */
export function settledPayments(count: number, settledFrom: number): StoredChange {
  // 7919 is prime, so that every number comes once.
  const settledMs = `(${settledFrom} + ((i * 7919) % ${count}) / 2 * 1000)`;
  const insert = (
    table: string,
    own: { column: string; value: string },
    settled: string,
    digits: string,
    key: string,
  ) => `
    INSERT INTO ${table} (key, transaction_id, amount, currency, fingerprint, processor, state, epoch, owner,
      lease_until, recover_at, claimed_at, settled_at, expires_at, ${own.column})
    SELECT ${key}, 'TXN' || ${digits}, '1.00', 'USD', '1.00 USD', 'simulated', 'COMPLETED', 1, 'nobody',
      ${settled}, ${settled}, ${settled}, ${settled}, ${settled}, ${own.value}`;
  const uuid = (digits: string) => `'01000000-0000-7000-8000-' || ${digits}`;
  const [printed, padded] = ["printf('%012d', i)", "lpad(i::text, 12, '0')"];
  const settledAt = `('epoch'::timestamptz + ${settledMs} * interval '1 millisecond')`;
  return {
    embedded: `WITH RECURSIVE numbers(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM numbers WHERE i < ${count})
      ${insert('payments', { column: 'claimed_at_wall', value: settledMs }, settledMs, printed, uuid(printed))} FROM numbers`,
    distributed: `${insert('idempay.payments', { column: 'generation', value: '1' }, settledAt, padded, `(${uuid(padded)})::uuid`)}
      FROM generate_series(1, ${count}::bigint) AS i`,
  };
}

/** Accounts as long as they may be, of four bytes each: a row of more than half a kilobyte. */
const FROM = '\u{1f4b3}'.repeat(64);
const TO = '\u{1f4b0}'.repeat(64);

/**
 * Puts this number of transactions between two long accounts into the stores with these settings, past all service processes. No service
 * may run on the embedded one; the schema must be there, and no transaction.
 */
export async function storeTransactions(stores: Environment, count: number): Promise<void> {
  const change = (schema: string, createdAt: string, numbers: string) => `
    INSERT INTO ${schema}transactions (id, from_account, to_account, amount, status, version, created_at)
      SELECT 100000000000000 + n, '${FROM}', '${TO}', 10000, 'PENDING', 1, ${createdAt} FROM ${numbers};
    UPDATE ${schema}transaction_list SET last_id = last_id + ${count}, version = version + ${count};`;
  const numbers = `(WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ${count})
    SELECT n FROM numbers)`;
  const distributed = change('idempay.', 'now()', `generate_series(1, ${count}) AS n`);
  await changeStored(stores, { embedded: change('', '0', numbers), distributed });
}
