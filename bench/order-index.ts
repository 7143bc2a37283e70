// `npm run bench -- order-index [COUNT]`: the cost of computed keys for PostgreSQL, because they are not in order of time. Rows are written
// in batches of 20 by statements alone, into a table that has this number of rows already, with generated keys and with keys of references.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { markdownTable } from '../testkit/markdown-table.js';
import type { Opened } from '../testkit/opened.js';
import { ROOT } from '../testkit/programs.js';
import { runSql } from '../testkit/servers/postgres.js';
import type { Options } from './options.js';
import { openPostgres } from './servers.js';

const COUNTS = [0, 1_000_000, 10_000_000];
const BATCH = 20;
const WRITTEN = 20_000;
const ROWS_IN_A_STATEMENT = 500_000;
const SCHEMA = join(ROOT, 'src', 'stores', 'postgres', 'migrations', '0001_schema.sql');

const KINDS = {
  'a generated key': {
    key: "(lpad(to_hex(1795000000000 + n), 12, '0') || '7abc8' || lpad(to_hex(n), 15, '0'))::uuid",
    reference: 'NULL',
    attempt: 'NULL::integer',
  },
  'a reference': {
    key: "('f' || substr(md5(n::text), 2, 11) || '8' || substr(md5(n::text), 14, 3) || '8' || substr(md5(n::text), 18, 15))::uuid",
    reference: "'order-' || n",
    attempt: '1',
  },
} as const;

export async function measureOrderIndex(
  _options: Options,
  opened: Opened,
  [countText]: readonly string[],
): Promise<void> {
  const counts = countText === undefined ? COUNTS : [Number(countText)];
  const { url } = await openPostgres(opened);
  await runSql(url, 'CREATE SCHEMA idempay');
  await runSql(url, await readFile(SCHEMA, 'utf8'));
  const rows: string[][] = [];
  for (const count of counts) {
    for (const [kind, columns] of Object.entries(KINDS)) {
      rows.push([`${count}`, kind, ...(await measureOne(url, count, columns))]);
      console.log(rows.at(-1)?.join(', '));
    }
  }
  const head = [
    'payments before',
    'with',
    'us a row',
    'bytes of log a row after a checkpoint',
    'later',
    'size of the indexes',
  ];
  console.log(`\n${markdownTable(head, rows)}\n`);
}

async function measureOne(url: string, count: number, columns: (typeof KINDS)[keyof typeof KINDS]): Promise<string[]> {
  await runSql(url, 'TRUNCATE idempay.payments');
  for (let from = 1; from <= count; from += ROWS_IN_A_STATEMENT) {
    await runSql(url, insertOf(columns), [from, Math.min(count, from + ROWS_IN_A_STATEMENT - 1)]);
  }
  await runSql(url, 'CHECKPOINT');
  const [size] = await runSql<{ size: string }>(
    url,
    "SELECT pg_size_pretty(pg_indexes_size('idempay.payments')) AS size",
  );
  const first = await writeRows(url, columns, 100_000_000);
  const later = await writeRows(url, columns, 200_000_000);
  return [later.us.toFixed(0), first.logBytes.toFixed(0), later.logBytes.toFixed(0), size?.size ?? ''];
}

/** In one transaction, so that no commit is measured. */
async function writeRows(url: string, columns: (typeof KINDS)[keyof typeof KINDS], from: number) {
  const insert = insertOf(columns)
    .replaceAll('$1', 'first')
    .replaceAll('$2', `first + ${BATCH - 1}`);
  const logAt = () => runSql<{ at: string }>(url, "SELECT pg_current_wal_insert_lsn() - '0/0' AS at");
  const [before] = await logAt();
  const beganAt = performance.now();
  await runSql(
    url,
    `DO $do$ DECLARE first bigint; BEGIN
      FOR batch IN 0..${WRITTEN / BATCH - 1} LOOP first := ${from} + batch * ${BATCH}; ${insert}; END LOOP;
    END $do$`,
  );
  const us = ((performance.now() - beganAt) * 1_000) / WRITTEN;
  const [after] = await logAt();
  return { us, logBytes: (Number(after?.at) - Number(before?.at)) / WRITTEN };
}

function insertOf({ key, reference, attempt }: (typeof KINDS)[keyof typeof KINDS]): string {
  return `
    INSERT INTO idempay.payments (key, transaction_id, amount, currency, fingerprint, processor, state, epoch, owner, lease_until, recover_at,
      claimed_at, settled_at, expires_at, generation, settled_hour, reference, attempt)
    SELECT ${key}, 'TXN' || 1795000000000000 + n * 1000 || '000000', 100.50, 'EUR', '100.50 EUR', 'simulated', 'COMPLETED', 1,
      '5f0c3f0e-63a3-4c5c-9f51-0c1f3a7b8d21:' || n, at, at, at, at, at + interval '1 day', 0, 1, ${reference}, ${attempt}
    FROM generate_series($1::bigint, $2::bigint) AS n, LATERAL (SELECT to_timestamp(1795000000 + n / 1000.0) AS at) AS made
    ON CONFLICT DO NOTHING`;
}
