import { join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import pg from 'pg';
import type { Stores } from './deployments.js';

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
