import { DatabaseSync } from '@photostructure/sqlite';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { FORGET_UNSENT } from '#idempay/stores/embedded/file/adoption.js';
import { migrate } from '#idempay/stores/embedded/migrate.js';
import { BACKLOG, COUNT_ABANDONED, PENDING_BACKLOG } from '#idempay/stores/embedded/payments/ledger.js';
import {
  DUE_PENDING,
  END_ALL_LEASES,
  END_PENDING_LEASES,
  TAKE_OVER_DUE,
} from '#idempay/stores/embedded/payments/ledger-statements.js';
import {
  COUNT_KEYS,
  COUNT_SETTLED,
  COUNT_SETTLED_REFUNDS,
  NEWEST,
  NEWEST_ATTEMPT,
  NTH_ID,
  NTH_REFUND_ID_OF_REFERENCE,
  OF_KEYS,
  OF_REFERENCE,
  OF_REFERENCE_WITH_REFUNDS,
  REFUNDS_OF,
  SETTLED,
  SETTLED_REFUNDS,
} from '#idempay/stores/embedded/payments/payment-history-statements.js';
import {
  HAS_KEPT_ATTEMPT,
  HAS_KEPT_REFUND,
  OLD_PAYMENTS,
  REMOVE_REFUNDS,
  REMOVE_REFUNDS_OF_REFERENCE,
} from '#idempay/stores/embedded/payments/retention.js';
import {
  LIST_IDS,
  LIST_ROWS,
  NEWEST_EXTENT,
  NEWEST_ROWS,
  ROWS_WITH_STATUS,
} from '#idempay/stores/embedded/transactions/transaction-statements.js';
import type { ListSelection } from '#idempay/stores/shared/transaction-rows.js';

const ID_RANGE = '(transaction_id>? AND transaction_id<?)';
/** The index of the UNIQUE constraint. */
const IDS = `sqlite_autoindex_payments_2 ${ID_RANGE}`;
const OF_CLIENT = '(client=? AND transaction_id>? AND transaction_id<?)';

let database: InstanceType<typeof DatabaseSync>;

beforeAll(() => {
  database = new DatabaseSync(':memory:');
  migrate(database);
});
afterAll(() => database.close());

function planOf(sql: string): string[] {
  const steps = database.prepare(`EXPLAIN QUERY PLAN ${sql}`).all() as { detail: string }[];
  return steps.map(({ detail }) => detail);
}

/** Work alongside live payments, on the main thread or in the writer, must not grow with the table. */
describe('the plan in SQLite', () => {
  test.each([
    ['newest payments', NEWEST.any, `INDEX ${IDS}`],
    ['newest declined payments', NEWEST.DECLINED, `INDEX payments_declined ${ID_RANGE}`],
    ['newest pending payments', NEWEST.PENDING, `INDEX payments_pending ${ID_RANGE}`],
    ["a client's newest payments", NEWEST.ofClient, `INDEX payments_by_client ${OF_CLIENT}`],
    ['newest refunds', NEWEST.refunds, `INDEX payments_refunds ${ID_RANGE}`],
    ['ids of refunds that it may read', NTH_ID.refunds, `INDEX payments_refunds ${ID_RANGE}`],
    ['ids that it may read', NTH_ID.any, `COVERING INDEX ${IDS}`],
    ['declined ids that it may read', NTH_ID.DECLINED, `COVERING INDEX payments_declined ${ID_RANGE}`],
    ['pending ids that it may read', NTH_ID.PENDING, `INDEX payments_pending ${ID_RANGE}`],
    ["a client's ids that it may read", NTH_ID.ofClient, `COVERING INDEX payments_by_client ${OF_CLIENT}`],
    ['the newest attempt', NEWEST_ATTEMPT, 'INDEX payments_by_reference (reference=? AND client=?)'],
    ['refunds of a payment', REFUNDS_OF, 'INDEX payments_by_refunded (refund_of=?)'],
    ['settled payments', SETTLED, 'INDEX payments_settled ((settled_at,key)>(?,?) AND settled_at<?)'],
    ['settled refunds', SETTLED_REFUNDS, 'INDEX payments_refunds_settled ((settled_at,key)>(?,?) AND settled_at<?)'],
  ])('of a page of %s is one range, in the order it has', (_what, sql, range) => {
    expect(planOf(sql)).toEqual([`SEARCH payments USING ${range}`]);
  });

  test.each([
    ['newest unfinished payments', NEWEST.PROCESSING],
    ['unfinished ids that it may read', NTH_ID.PROCESSING],
  ])('of a page of %s merges two ranges, and sorts nothing', (_what, sql) => {
    expect(planOf(sql)).toEqual([
      ...['MERGE (UNION ALL)', 'LEFT', `SEARCH payments USING INDEX payments_under_way ${ID_RANGE}`],
      ...['RIGHT', `SEARCH payments USING INDEX payments_pending ${ID_RANGE}`],
    ]);
  });

  test.each([
    ['payments', COUNT_SETTLED, 'payments_settled'],
    ['refunds', COUNT_SETTLED_REFUNDS, 'payments_refunds_settled'],
  ])('of counting settled %s is one range of their index, and sorts no more than its page', (_what, sql, index) => {
    const plan = planOf(sql);
    expect(plan).toContain(`SEARCH payments USING INDEX ${index} ((settled_at,key)>(?,?) AND settled_at<?)`);
    expect(plan.filter((step) => step.includes('payments '))).toHaveLength(1);
    expect(plan).not.toContain('SCAN payments');
  });

  test.each([
    [COUNT_ABANDONED, 'payments_under_way'],
    [BACKLOG, 'payments_under_way'],
    [PENDING_BACKLOG, 'payments_pending'],
  ])('of counting what is under way reads its index, oldest first', (counting, index) => {
    expect(planOf(counting)).toContain(`SCAN payments USING INDEX ${index}`);
    expect(planOf(counting).filter((step) => /TEMP B-TREE/.test(step))).toEqual([]);
  });

  test.each([
    ['keys that begin alike', OF_KEYS, 'PRIMARY KEY (key>? AND key<?)'],
    ['a reference', OF_REFERENCE, 'INDEX payments_by_reference (reference=?)'],
  ])('of payments of %s reads their range, and sorts what it found', (_what, sql, range) => {
    expect(planOf(sql)).toContain(`SEARCH payments USING ${range}`);
    expect(planOf(sql)).toContain('USE TEMP B-TREE FOR ORDER BY');
    expect(planOf(sql).filter((step) => step.includes('payments'))).toHaveLength(1);
  });

  test.each([
    ['a page', OF_REFERENCE_WITH_REFUNDS, 2],
    ['ids that it may read', NTH_REFUND_ID_OF_REFERENCE, 1],
  ])('of %s of refunds of a reference reads one range for each of its payments', (_what, sql, ofReference) => {
    const reads = planOf(sql).filter((step) => step.includes('payments'));
    const byReference = reads.filter((step) => step.endsWith('INDEX payments_by_reference (reference=?)'));
    const rest = reads.filter((step) => !byReference.includes(step));
    expect(byReference).toHaveLength(ofReference);
    expect(rest).toEqual([expect.stringContaining('INDEX payments_by_refunded (refund_of=? AND transaction_id>?')]);
  });

  test('of counting keys that begin alike is their range', () => {
    expect(planOf(COUNT_KEYS)).toContain('SEARCH payments USING PRIMARY KEY (key>? AND key<?)');
  });

  test.each([
    [
      'taking over what is longest due',
      TAKE_OVER_DUE['longest due'],
      'INDEX payments_due (processor=? AND recover_at<?)',
    ],
    [
      'taking over what is latest due',
      TAKE_OVER_DUE['latest due'],
      'INDEX payments_due (processor=? AND recover_at<?)',
    ],
    ['asking about pending payments', DUE_PENDING, 'INDEX payments_pending_due (processor=? AND recover_at<?)'],
    ['looking at old payments', OLD_PAYMENTS, 'INDEX payments_settled ((settled_at,key)>(?,?) AND settled_at<?)'],
  ])('of %s finds the rows by index, and sorts none', (_what, sql, range) => {
    const plan = planOf(sql);
    expect(plan).toContain(`SEARCH payments USING ${range}`);
    expect(plan.filter((step) => /SCAN payments|TEMP B-TREE/.test(step))).toEqual([]);
  });
});

/** Retention runs in the writer: it may look at the rows that it removes, and at no others. */
test.each([
  ['what keeps a payment with refunds', HAS_KEPT_REFUND],
  ['what keeps an order', HAS_KEPT_ATTEMPT],
  ['removing the refunds of a payment', REMOVE_REFUNDS],
  ['removing the refunds of an order', REMOVE_REFUNDS_OF_REFERENCE],
])('the plan in SQLite of %s finds the rows by index', (_what, sql) => {
  const plan = planOf(sql).filter((step) => /^(SCAN|SEARCH)/.test(step));
  expect(plan.length).toBeGreaterThan(0);
  for (const step of plan) {
    expect(step).toMatch(
      /USING (COVERING )?INDEX (payments_by_refunded \(refund_of=\?\)|payments_by_reference \(reference=\? AND client=\?\))|^SCAN CONSTANT ROW/,
    );
  }
});

/** A start must not look at all payments that wait at the processor. */
test('the plans in SQLite of what a start writes read what is under way, and of the pending ones what has a lease', () => {
  expect(planOf(END_ALL_LEASES)).toEqual([
    expect.stringMatching(/^SCAN payments USING INDEX payments_(under_way|due)$/),
  ]);
  expect(planOf(FORGET_UNSENT)).toEqual([
    expect.stringMatching(/^SCAN payments USING INDEX payments_(under_way|due)$/),
  ]);
  expect(planOf(END_PENDING_LEASES)).toEqual([
    expect.stringMatching(/^SEARCH payments USING (COVERING )?INDEX payments_pending_leased \(lease_until>\?\)$/),
  ]);
});

describe('a search in the content of many payments in SQLite', () => {
  const ROWS = 50_000;
  const READ = 1_000;
  const FILL = `
    WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ${ROWS})
    INSERT INTO payments (key, transaction_id, amount, currency, fingerprint, processor, state, epoch, owner, lease_until, recover_at,
      claimed_at, claimed_at_wall, settled_at, expires_at, content)
    SELECT printf('%08x-0000-7000-8000-000000000000', n), printf('TXN%022d', n), '1', 'USD', '1 USD', 'test', 'COMPLETED', 1, 'owner', 0, 0,
      n, n, n, n, CASE WHEN n = 1 THEN '{"description":"wanted"}' ELSE '{"description":"other"}' END
    FROM numbers`;

  beforeAll(() => database.exec(FILL));
  afterAll(() => database.exec('DELETE FROM payments'));

  test('reads the range of ids that its page may read: with statistics too it is no scan, and finds nothing below it', () => {
    database.exec('ANALYZE');
    const [none, high] = [[null, null, null, null, null], 'TXN9'];
    const end = database.prepare(NTH_ID.any).get('TXN', high, READ) as { transaction_id: string };
    expect(Number(end.transaction_id.slice('TXN'.length))).toBe(ROWS - READ + 1);
    expect(planOf(NEWEST.any)).toEqual([`SEARCH payments USING INDEX ${IDS}`]);
    const page = database.prepare(NEWEST.any);
    expect(page.all(end.transaction_id, high, 51, ...none, '"wanted"')).toEqual([]);
    expect(page.all(end.transaction_id, high, READ, ...none, '"other"')).toHaveLength(READ);
    expect(page.all('TXN', high, 51, ...none, '"wanted"')).toHaveLength(1);
  });
});

/**
 * Bug: `?from=&to=` blocked the event loop for half a second at a million rows. Cause: the rows of one of the accounts were
 * walked for the other. Fix: an index of both accounts, and a statement for each combination that names its index.
 */
describe('a page of many transactions in SQLite', () => {
  /** Half is from `big`, and what `big` sent to `friend` lies among the first thousand. */
  const FILL = `
    WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 100000)
    INSERT INTO transactions (id, from_account, to_account, amount, status, version, created_at)
    SELECT 100000000000000 + n,
      CASE WHEN n % 2 = 0 THEN 'big' ELSE 'from-' || (n % 4999) END,
      CASE WHEN n < 1000 THEN 'friend' WHEN n % 10 < 7 THEN 'shop' ELSE 'to-' || (n % 4999) END,
      10000, 'PENDING', 1, 0
    FROM numbers`;
  const LISTS: [ListSelection, string][] = [
    ['all', 'INTEGER PRIMARY KEY (rowid>?)'],
    ['from', 'INDEX transactions_by_from_account (from_account=? AND rowid>?)'],
    ['to', 'INDEX transactions_by_to_account (to_account=? AND rowid>?)'],
    ['both', 'INDEX transactions_by_both_accounts (from_account=? AND to_account=? AND rowid>?)'],
  ];

  beforeAll(() => database.exec(FILL));

  test.each(['as it is', 'with statistics'])('is one range of one index, in the order it has, %s', (statistics) => {
    if (statistics === 'with statistics') database.exec('ANALYZE');
    for (const [selection, range] of LISTS) {
      expect(planOf(LIST_ROWS[selection])).toEqual([`SEARCH transactions USING ${range}`]);
      const backwards = range.replace('rowid>?', 'rowid<?');
      expect(planOf(NEWEST_ROWS[selection])).toEqual([`SEARCH transactions USING ${backwards}`]);
      expect(planOf(NEWEST_EXTENT[selection]).at(-2)).toMatch(/^SEARCH transactions USING .*rowid<\?\)$/);
      const bounded = range.replace('rowid>?', 'rowid>? AND rowid<?');
      expect(planOf(ROWS_WITH_STATUS[selection])).toEqual([`SEARCH transactions USING ${bounded}`]);
      const covering = range.replace(/^INDEX/, 'COVERING INDEX');
      expect(planOf(LIST_IDS[selection])).toEqual([`SEARCH transactions USING ${covering}`]);
    }
  });
});
