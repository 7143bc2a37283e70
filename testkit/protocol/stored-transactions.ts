import { join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import pg from 'pg';

/** Accounts as long as they may be, of four bytes each: a row of more than half a kilobyte. */
export const LONG_ACCOUNT = '\u{1f4b3}'.repeat(64);
export const OTHER_LONG_ACCOUNT = '\u{1f4b0}'.repeat(64);

const FIRST_ID_BEFORE = 100_000_000_000_000;

/**
 * Puts so many transactions between the two long accounts into the stores with these settings, past all service processes.
 * No service may run on the embedded one; the schema must be there, and no transaction.
 */
export async function storeTransactions(environment: Record<string, string>, count: number): Promise<void> {
  if (environment.DATABASE_URL) await storeInPostgres(environment.DATABASE_URL, count);
  else storeInSqlite(join(environment.DATA_DIR ?? '', 'idempay.sqlite'), count);
}

async function storeInPostgres(databaseUrl: string, count: number): Promise<void> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    await client.query(
      `INSERT INTO idempay.transactions (id, from_account, to_account, amount, status, version, created_at)
       SELECT $1::bigint + n, $3, $4, 10000, 'PENDING', 1, now() FROM generate_series(1, $2::int) AS n`,
      [FIRST_ID_BEFORE, count, LONG_ACCOUNT, OTHER_LONG_ACCOUNT],
    );
    await client.query('UPDATE idempay.transaction_list SET last_id = last_id + $1, version = version + $1', [count]);
  } finally {
    await client.end();
  }
}

function storeInSqlite(path: string, count: number): void {
  const database = new DatabaseSync(path);
  try {
    database
      .prepare(
        `WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?2)
         INSERT INTO transactions (id, from_account, to_account, amount, status, version, created_at)
         SELECT ?1 + n, ?3, ?4, 10000, 'PENDING', 1, 0 FROM numbers`,
      )
      .run(FIRST_ID_BEFORE, count, LONG_ACCOUNT, OTHER_LONG_ACCOUNT);
    database.prepare('UPDATE transaction_list SET last_id = last_id + ?1, version = version + ?1').run(count);
  } finally {
    database.close();
  }
}
