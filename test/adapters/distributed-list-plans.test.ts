import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  accountParameters,
  LIST_IDS,
  LIST_ROWS,
} from '#idempay/deployments/distributed/postgres/transaction-statements.js';
import type { ListSelection } from '#idempay/deployments/list-selection.js';
import { openSqlTables } from '../../testkit/protocol/ports.js';
import { planOf } from '../../testkit/protocol/postgres-plan.js';

const PAGE = 500;
/** A row and an index entry of each row of a page, and the way down the index. */
const BLOCKS_OF_A_PAGE = 2 * PAGE + 20;
const FILL_TIMEOUT_MS = 240_000;
/**
 * In the order of the index; or all that there is, sorted, where the planner's random sample says that it is less than a page.
 * How much that really was shows in the blocks.
 */
const IN_ORDER_OR_FEW = [
  'Limit, Index Scan',
  'Limit, Index Only Scan',
  'Limit, Sort, Bitmap Heap Scan, Bitmap Index Scan',
  'Limit, Sort, Index Scan',
];

/**
 * A million transactions. Half of them are from `big`, most of those to `shop`. What `early` sent is all among the first
 * thousand, and so is what `big` sent to `friend`; a third was sent to `popular`, by others than `big`. A plan that walks all
 * rows in the order of their ids, because it takes an account for evenly spread, reads half a million to find none.
 */
const ROWS = 1_000_000;
const FILL = `
  INSERT INTO idempay.transactions (id, from_account, to_account, amount, status, version, created_at)
  SELECT 100000000000000 + n,
    CASE WHEN n % 2 = 0 THEN 'big' WHEN n < 1000 THEN 'early' ELSE 'from-' || n % 4999 END,
    CASE WHEN n < 1000 THEN 'friend' WHEN n % 2 = 1 AND n % 3 > 0 THEN 'popular' WHEN n % 10 < 7 THEN 'shop'
      ELSE 'to-' || n % 4999 END,
    10000, 'PENDING', 1, now()
  FROM generate_series(1, ${ROWS}) AS n`;

const PLACES = [0, 100_000_000_000_700, 100_000_000_500_000, 100_000_000_999_900];

/**
 * Bug: a list filtered by both accounts scanned the table, in PostgreSQL and in SQLite, where it blocked the event loop. Cause: one
 * statement for all combinations of filters, and no index of both accounts. Fix: a statement and an index for each.
 *
 * Bug: every page of a list read and sorted all the rows after it. Cause: `ORDER BY id` meant the output column, a float8
 * that no index is ordered by. Fix: it orders by the table's column.
 */
describe('a page of a million transactions in PostgreSQL', () => {
  let stores: Awaited<ReturnType<typeof openSqlTables>>;

  beforeAll(async () => {
    stores = await openSqlTables();
    await stores.client.query(FILL);
    await stores.client.query('VACUUM ANALYZE idempay.transactions');
  }, FILL_TIMEOUT_MS);
  afterAll(() => stores?.close());

  const LISTS: [ListSelection, string[], string][] = [
    ['all', [], 'transactions_pkey'],
    ['from', ['big'], 'transactions_by_from_account'],
    ['from', ['early'], 'transactions_by_from_account'],
    ['from', ['from-77'], 'transactions_by_from_account'],
    ['from', ['nobody'], 'transactions_by_from_account'],
    ['to', ['shop'], 'transactions_by_to_account'],
    ['to', ['friend'], 'transactions_by_to_account'],
    ['to', ['to-77'], 'transactions_by_to_account'],
    ['both', ['big', 'shop'], 'transactions_by_both_accounts'],
    ['both', ['big', 'friend'], 'transactions_by_both_accounts'],
    ['both', ['big', 'to-78'], 'transactions_by_both_accounts'],
    ['both', ['big', 'popular'], 'transactions_by_both_accounts'],
    ['both', ['early', 'shop'], 'transactions_by_both_accounts'],
    ['both', ['nobody', 'shop'], 'transactions_by_both_accounts'],
  ];
  describe.each(['force_custom_plan', 'force_generic_plan', 'auto'])('with %s', (mode) => {
    test.each(LISTS)('of the list %s, %j, is a few blocks of one index', async (selection, accounts, index) => {
      for (const statement of [LIST_IDS[selection], LIST_ROWS[selection]]) {
        for (const after of PLACES) {
          const [from = '', to = ''] = selection === 'to' ? ['', ...accounts] : accounts;
          const values = [after, PAGE, ...accountParameters({ from, to })];
          const { nodes, indexes, blocks } = await planOf(stores.client, statement, mode, values, { executed: true });
          expect(IN_ORDER_OR_FEW).toContain(nodes.join(', '));
          expect(indexes).toEqual([index]);
          expect(blocks).toBeLessThanOrEqual(BLOCKS_OF_A_PAGE);
        }
      }
    });
  });
});
