import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { systemClock } from '#idempay/clock.js';
import { DatabaseClock } from '#idempay/deployments/distributed/postgres/database-clock.js';
import { createConfirmDurable } from '#idempay/deployments/distributed/postgres/durability.js';
import { createPostgresLedger } from '#idempay/deployments/distributed/postgres/ledger.js';
import { COUNT_ABANDONED, TAKE_OVER_ABANDONED } from '#idempay/deployments/distributed/postgres/ledger-statements.js';
import { NEWEST, SETTLED } from '#idempay/deployments/distributed/postgres/payment-history-statements.js';
import { REMOVE_SETTLED } from '#idempay/deployments/distributed/postgres/payment-horizon-statements.js';
import { Postgres, type Statement } from '#idempay/deployments/distributed/postgres/postgres.js';
import { lowestKeyAt } from '#idempay/payments/values/key-time.js';
import {
  givenClaim,
  givenSettled,
  LONG_MS,
  newOwner,
  newProcessorName,
} from '../../testkit/protocol/payment-attempts.js';
import { openSqlTables } from '../../testkit/protocol/ports.js';
import { planOf } from '../../testkit/protocol/postgres-plan.js';

const ROWS = 20_000;
const PAGE = 500;
const BELOW_ALL = '00000000-0000-0000-0000-000000000000';
/** PostgreSQL keeps a plan for all parameters after five executions with plans of their own. */
const UNTIL_THE_PLAN_IS_KEPT = 10;

let stores: Awaited<ReturnType<typeof openSqlTables>>;

beforeAll(async () => {
  stores = await openSqlTables();
});
afterAll(() => stores.close());

/** Payments as they are after long service: a few under way, some declined, each key and time after the one before. */
describe('what is read and removed of payments in PostgreSQL', () => {
  const FIRST_MS = Date.UTC(2020, 0);
  const MIDDLE_MS = FIRST_MS + (ROWS / 2) * 1_000;
  const MIDDLE_US = MIDDLE_MS * 1_000;
  const END_MS = FIRST_MS + ROWS * 1_000;
  const ABOVE_ALL = 'ffffffff-ffff-ffff-ffff-ffffffffffff';
  beforeAll(async () => {
    const { client } = stores;
    await client.query(
      `INSERT INTO idempay.payments (key, transaction_id, amount, currency, fingerprint, processor, state, epoch, owner,
         lease_until, recover_at, claimed_at, settled_at, expires_at, reason)
       SELECT (lpad(to_hex($2::bigint + n * 1000), 12, '0') || '7000' || '8' || lpad(to_hex(n), 15, '0'))::uuid,
         'TXN' || n, 1, 'USD', '1 USD', 'test', state, 1, 'owner', settled, settled, settled,
         CASE WHEN state <> 'PROCESSING' THEN settled END, CASE WHEN state <> 'PROCESSING' THEN settled END,
         CASE WHEN state = 'DECLINED' THEN 'no funds' END
       FROM generate_series(1, $1::int) AS n,
         LATERAL (SELECT to_timestamp($2::float8 / 1000 + n) AS settled,
           CASE WHEN n % 1000 = 0 THEN 'PROCESSING' WHEN n % 20 = 0 THEN 'DECLINED' ELSE 'COMPLETED' END AS state) AS made`,
      [ROWS, FIRST_MS],
    );
    await client.query('ANALYZE idempay.payments');
    await client.query('UPDATE idempay.payment_horizon SET keys_before = $1, removable_before = $1', [ABOVE_ALL]);
  });

  /** Whatever the parameters, and for those that are given. */
  async function plansOf(statement: Statement, values: (string | number)[]) {
    const modes = ['force_custom_plan', 'force_generic_plan'];
    const plans = [];
    for (const mode of modes) plans.push(await planOf(stores.client, statement, mode, values));
    return plans;
  }

  const FROM_FIRST = [BELOW_ALL, ABOVE_ALL, PAGE];
  const LATER = [BELOW_ALL, lowestKeyAt(MIDDLE_MS), PAGE];
  const BETWEEN = [lowestKeyAt(MIDDLE_MS), lowestKeyAt(END_MS), PAGE];
  const SETTLED_FIRST = [FIRST_MS * 1_000, BELOW_ALL, FIRST_MS, END_MS, PAGE];
  const SETTLED_LATER = [MIDDLE_US, lowestKeyAt(MIDDLE_MS), FIRST_MS, END_MS, PAGE];
  test.each([
    ['the newest of any state', NEWEST.any, [FROM_FIRST, LATER, BETWEEN], 'payments_pkey'],
    ['the newest COMPLETED', NEWEST.COMPLETED, [FROM_FIRST, LATER, BETWEEN], 'payments_pkey'],
    ['the newest DECLINED', NEWEST.DECLINED, [FROM_FIRST, LATER, BETWEEN], 'payments_declined'],
    ['what was settled', SETTLED, [SETTLED_FIRST, SETTLED_LATER], 'payments_settled'],
  ])('%s: first and later pages come from one index as it is', async (_what, statement, pages, index) => {
    for (const values of pages) {
      for (const { nodes, indexes } of await plansOf(statement, values)) {
        expect(nodes).toEqual(['Limit', 'Index Scan']);
        expect(indexes).toEqual([index]);
      }
    }
  });

  test('the newest under way are sorted from the index of what is under way', async () => {
    for (const { nodes, indexes, tables } of await plansOf(NEWEST.PROCESSING, FROM_FIRST)) {
      expect(nodes).toContain('Sort');
      expect(tables).toEqual([]);
      expect(indexes).toEqual(['payments_under_way']);
    }
  });

  const DUE = ['owner', 1, 'test', 'former', 64];
  const REMOVAL = ['payments_pkey', 'payments_settled', 'retention_hours_pkey'];
  test.each([
    ['counting abandoned payments', COUNT_ABANDONED, [0, 1], ['payments_under_way']],
    ['taking over what is due', TAKE_OVER_ABANDONED, DUE, ['payments_pkey', 'payments_under_way']],
    ['removing old payments', REMOVE_SETTLED, [-1, BELOW_ALL, END_MS, 1, PAGE], REMOVAL],
  ])('%s reads a few rows by index', async (_what, statement, values, expected) => {
    for (const { nodes, indexes, tables } of await plansOf(statement, values)) {
      expect(nodes).not.toContain('Sort');
      expect(tables).not.toContain('payments');
      expect([...new Set(indexes)].sort()).toEqual(expected);
    }
  });
});

/**
 * Bug: recovery took over more payments than it asked for. Cause: a plan that was kept from when the table had one row
 * joined it with the sub-select, which ran again, with its limit, for each row. Fix: the sub-select is an array, which is
 * computed once.
 */
describe('taking over what was abandoned, in PostgreSQL', () => {
  const ABANDONED = 300;
  const LIMIT = 64;

  test('keeps its limit with a plan from when the table had one row', async () => {
    const { client, databaseUrl, close } = await openSqlTables();
    // One connection, so that it is the one that keeps the plan.
    const database = new Postgres(databaseUrl, 1, () => {});
    const clock = new DatabaseClock(database, systemClock);
    try {
      await clock.start();
      const ledger = createPostgresLedger(database, clock, createConfirmDurable(database, clock.clock));
      const processor = newProcessorName();
      const takeOver = () => ledger.takeOverAbandoned({ owner: newOwner(), leaseMs: LONG_MS, processor, limit: LIMIT });
      await client.query('ALTER TABLE idempay.payments SET (autovacuum_enabled = false)');
      await givenSettled(ledger, await givenClaim(ledger, { processor }));
      await client.query('ANALYZE idempay.payments');
      for (let time = 0; time < UNTIL_THE_PLAN_IS_KEPT; time += 1) expect(await takeOver()).toEqual([]);

      const claims = await Promise.all(Array.from({ length: ABANDONED }, () => givenClaim(ledger, { processor })));
      await Promise.all(claims.map((claim) => ledger.abandon(claim, 0)));
      const rounds: number[] = [];
      for (let left = ABANDONED; left > 0; left -= rounds.at(-1) ?? 0) {
        rounds.push((await takeOver()).length);
        expect(rounds.at(-1)).toBe(Math.min(LIMIT, left));
      }
      expect(await takeOver()).toEqual([]);
    } finally {
      clock.stop();
      await database.close();
      await close();
    }
  });
});
