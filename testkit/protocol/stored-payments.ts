import { join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import pg from 'pg';
import { systemClock } from '#idempay/clock.js';
import { openEmbedded } from '#idempay/deployments/embedded/open.js';
import type { Stores } from '../deployments/deployments.js';
import { openDistributedPortsOn, type Ports } from './ports.js';

/** The adapters on the stores of a deployment, for what no request can bring about; no service may run on them meanwhile. */
export async function openPortsOn({ environment }: Stores): Promise<Ports> {
  const { DATA_DIR, REDIS_URL, DATABASE_URL } = environment;
  if (DATA_DIR !== undefined)
    return openEmbedded({ dataDir: DATA_DIR, transactionCacheTtlMs: 1_000, clock: systemClock });
  return openDistributedPortsOn({ redisUrl: REDIS_URL as string, databaseUrl: DATABASE_URL as string });
}

/** The same change for the one database and the other. Times are milliseconds there, and timestamps here. */
export interface StoredChange {
  readonly embedded: string;
  readonly distributed: string;
}

/** Changes what a deployment has stored, past all service processes: what only time, or a great many requests, would do. */
export async function changeStored({ environment }: Stores, change: StoredChange): Promise<void> {
  const { DATA_DIR, DATABASE_URL } = environment;
  if (DATA_DIR !== undefined) {
    const database = new DatabaseSync(join(DATA_DIR, 'idempay.sqlite'));
    database.exec(change.embedded);
    database.close();
    return;
  }
  const client = new pg.Client({ connectionString: DATABASE_URL });
  await client.connect();
  try {
    await client.query(change.distributed);
  } finally {
    await client.end();
  }
}

/** As if every claim that could have missed the last move of the horizon had ended by now. */
export const HORIZON_SEEN_BY_ALL: StoredChange = {
  embedded: '',
  distributed: "UPDATE idempay.payment_horizon SET seen_at = seen_at - interval '1 minute'",
};

/** Moves all the times of these payments and the ends of their keys' lives into the past; not the keys, which tell theirs. */
export function aged(keys: readonly string[], byMs: number): StoredChange {
  const list = keys.map((key) => `'${key}'`).join(', ');
  const by = `interval '1 millisecond' * ${byMs}`;
  return {
    embedded: `
      UPDATE payments SET claimed_at = claimed_at - ${byMs}, settled_at = settled_at - ${byMs},
        expires_at = expires_at - ${byMs}, lease_until = lease_until - ${byMs}, recover_at = recover_at - ${byMs}
      WHERE key IN (${list})`,
    distributed: `
      UPDATE idempay.payments SET claimed_at = claimed_at - ${by}, settled_at = settled_at - ${by},
        expires_at = expires_at - ${by}, lease_until = lease_until - ${by}, recover_at = recover_at - ${by}
      WHERE key IN (${list})`,
  };
}

/**
 * So many completed payments, numbered from 1, settled from `settledFrom` on (milliseconds since the epoch): two in each
 * second, and not in the order of their keys, so that all but the order of settling would show.
 */
export function settledPayments(count: number, settledFrom: number): StoredChange {
  const columns =
    'key, transaction_id, amount, currency, fingerprint, processor, state, epoch, owner, lease_until, recover_at, claimed_at, settled_at, expires_at';
  // 7919 is prime, so that every number comes once.
  const seconds = `((i * 7919) % ${count}) / 2`;
  const settledMs = `(${settledFrom} + ${seconds} * 1000)`;
  const settled = `('epoch'::timestamptz + ${settledMs} * interval '1 millisecond')`;
  return {
    embedded: `
      INSERT INTO payments (${columns})
      WITH RECURSIVE numbers(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM numbers WHERE i < ${count})
      SELECT printf('01000000-0000-7000-8000-%012d', i), printf('TXN%012d', i), '1.00', 'USD', '1.00 USD', 'simulated',
        'COMPLETED', 1, 'nobody', ${settledMs}, ${settledMs}, ${settledMs}, ${settledMs}, ${settledMs}
      FROM numbers`,
    distributed: `
      INSERT INTO idempay.payments (${columns})
      SELECT ('01000000-0000-7000-8000-' || lpad(i::text, 12, '0'))::uuid, 'TXN' || lpad(i::text, 12, '0'), 1.00, 'USD',
        '1.00 USD', 'simulated', 'COMPLETED', 1, 'nobody', ${settled}, ${settled}, ${settled}, ${settled}, ${settled}
      FROM generate_series(1, ${count}::bigint) AS i`,
  };
}
