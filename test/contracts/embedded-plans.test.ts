import { DatabaseSync } from '@photostructure/sqlite';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { COUNT_ABANDONED } from '#idempay/deployments/embedded/ledger.js';
import { migrate } from '#idempay/deployments/embedded/migrate.js';
import { NEWEST, SETTLED } from '#idempay/deployments/embedded/payment-history-statements.js';
import { REMOVE } from '#idempay/deployments/embedded/payment-horizon-writes.js';
import { TAKE_OVER_ABANDONED } from '#idempay/deployments/embedded/payment-writes.js';

/** What runs beside live payments, on the main thread or in the writer, must not grow with the table. */
describe('the plan in SQLite', () => {
  let database: InstanceType<typeof DatabaseSync>;

  beforeEach(() => {
    database = new DatabaseSync(':memory:');
    migrate(database);
  });
  afterEach(() => database.close());

  function planOf(sql: string): string[] {
    const steps = database.prepare(`EXPLAIN QUERY PLAN ${sql}`).all() as { detail: string }[];
    return steps.map(({ detail }) => detail);
  }

  test.each([
    ['newest payments', NEWEST.any, 'PRIMARY KEY (key>? AND key<?)'],
    ['newest completed payments', NEWEST.COMPLETED, 'PRIMARY KEY (key>? AND key<?)'],
    ['newest declined payments', NEWEST.DECLINED, 'INDEX payments_declined (key>? AND key<?)'],
    ['settled payments', SETTLED, 'INDEX payments_settled ((settled_at,key)>(?,?) AND settled_at<?)'],
  ])('of a page of %s is one range, in the order it has', (_what, sql, range) => {
    expect(planOf(sql)).toEqual([`SEARCH payments USING ${range}`]);
  });

  test('of a page of newest payments under way sorts the index of what is under way, and reads the rows of the page', () => {
    const plan = planOf(NEWEST.PROCESSING);
    expect(plan).toContain('SCAN payments USING COVERING INDEX payments_under_way');
    expect(plan).toContain('SEARCH payments USING PRIMARY KEY (key=?)');
  });

  test('of counting abandoned payments reads the index of what is under way, and nothing else', () => {
    expect(planOf(COUNT_ABANDONED)).toEqual(['SCAN payments USING COVERING INDEX payments_under_way']);
  });

  test.each([
    ['taking over what is due', TAKE_OVER_ABANDONED, 'INDEX payments_under_way (recover_at<?)'],
    ['removing old payments', REMOVE, 'INDEX payments_settled (settled_at<?)'],
  ])('of %s finds the rows by index, and sorts none', (_what, sql, range) => {
    const plan = planOf(sql);
    expect(plan).toContain(`SEARCH payments USING ${range}`);
    expect(plan.filter((step) => /SCAN payments|TEMP B-TREE/.test(step))).toEqual([]);
  });
});
