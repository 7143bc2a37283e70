import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { lowestKeyAt } from '#idempay/payments/values/idempotency-key.js';
import { lowestTransactionIdAt } from '#idempay/payments/values/transaction-id.js';
import type { Statement } from '#idempay/stores/postgres/connection/postgres.js';
import {
  BACKLOG,
  COUNT_ABANDONED,
  DUE_PENDING,
  PENDING_BACKLOG,
  TAKE_OVER_DUE,
} from '#idempay/stores/postgres/payments/ledger-statements.js';
import {
  COUNT_KEYS,
  COUNT_SETTLED,
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
} from '#idempay/stores/postgres/payments/payment-history-statements.js';
import { REMOVE_SETTLED } from '#idempay/stores/postgres/payments/retention-statements.js';
import {
  givenClaim,
  givenSettled,
  LONG_MS,
  newOwner,
  newProcessorName,
} from '../../testkit/protocol/payment-attempts.js';
import { openDistributedPortsOn, openSqlStores, openStartedStores } from '../../testkit/protocol/ports.js';
import { type PlanValue, planOf } from '../../testkit/protocol/postgres-plan.js';

const PAGE = 500;

const stores = await openStartedStores();
afterAll(() => stores.close());

/**
 * Payments as they are after long service: a few under way, as many pending, some declined, half of references, each id and time after the
 * one before.
 */
describe('reads and removals of payments in PostgreSQL', () => {
  const ROWS = 20_000;
  const FIRST_MS = Date.UTC(2020, 0);
  const MIDDLE_MS = FIRST_MS + (ROWS / 2) * 1_000;
  const END_MS = FIRST_MS + ROWS * 1_000;
  const BELOW_ALL = '00000000-0000-0000-0000-000000000000';
  const ABOVE_ALL = 'ffffffff-ffff-ffff-ffff-ffffffffffff';
  beforeAll(async () => {
    const { client } = stores;
    await client.query(
      `INSERT INTO idempay.payments (key, transaction_id, amount, currency, fingerprint, processor, state, epoch, owner,
         lease_until, recover_at, claimed_at, settled_at, expires_at, reason, generation, reference, attempt, pending_until)
       SELECT (lpad(to_hex($2::bigint + n * 1000), 12, '0') || '7000' || '8' || lpad(to_hex(n), 15, '0'))::uuid,
         'TXN' || ($2::bigint + n * 1000) * 1000 || lpad(n::text, 6, '0'), 1, 'USD', '1 USD', 'test', state, 1, 'owner', settled, settled, settled,
         CASE WHEN state <> 'PROCESSING' THEN settled END, CASE WHEN state <> 'PROCESSING' THEN settled END,
         CASE WHEN state = 'DECLINED' THEN 'no funds' END, 0, CASE WHEN n % 2 = 0 THEN 'order-' || n END, CASE WHEN n % 2 = 0 THEN 1 END,
         CASE WHEN n % 1000 = 500 THEN settled END
       FROM generate_series(1, $1::int) AS n,
         LATERAL (SELECT to_timestamp($2::float8 / 1000 + n) AS settled,
           CASE WHEN n % 500 = 0 THEN 'PROCESSING' WHEN n % 20 = 0 THEN 'DECLINED' ELSE 'COMPLETED' END AS state) AS made`,
      [ROWS, FIRST_MS],
    );
    // One refund of each of a hundred of them.
    await client.query(
      `INSERT INTO idempay.payments (key, transaction_id, amount, currency, fingerprint, processor, state, epoch, owner,
         lease_until, recover_at, claimed_at, settled_at, expires_at, generation, refund_of, refund_name, refund_units)
       SELECT ('f' || right(key::text, 35))::uuid, transaction_id || '1', amount, currency, fingerprint, processor, 'COMPLETED', 1, 'owner',
         settled_at, settled_at, settled_at, settled_at, settled_at, 0, key, 'back', 100
       FROM idempay.payments WHERE state = 'COMPLETED' ORDER BY transaction_id LIMIT 100 OFFSET 15000`,
    );
    await client.query(
      'UPDATE idempay.payments SET refunded = 100 WHERE key IN (SELECT refund_of FROM idempay.payments WHERE refund_of IS NOT NULL)',
    );
    await client.query('ANALYZE idempay.payments');
    await client.query('UPDATE idempay.payment_horizon SET keys_before = $1, removable_before = $1', [ABOVE_ALL]);
  });

  /** For any parameters, and for the given ones. */
  async function plansOf(statement: Statement, values: PlanValue[]) {
    const planWith = (mode: string) => planOf(stores.client, statement, mode, values);
    return [await planWith('force_custom_plan'), await planWith('force_generic_plan')];
  }

  /** As a value of state, processor, ids, client, content or kind: whatever it is. */
  const ANY = null;
  const NO_FILTER = [ANY, ANY, ANY, ANY, ANY, ANY, ANY];
  const ALL_IDS = ['TXN', 'TXN'.padEnd(64, '9'), PAGE];
  const [MIDDLE, END] = [lowestTransactionIdAt(MIDDLE_MS), lowestTransactionIdAt(END_MS)];
  const FROM_FIRST = [...ALL_IDS, ...NO_FILTER];
  const LATER = ['TXN', MIDDLE, PAGE, ...NO_FILTER];
  const BETWEEN = [MIDDLE, END, PAGE, ...NO_FILTER];
  const OF_PAYMENTS = [...BETWEEN.slice(0, -1), 'payment'];
  const KEYS = [lowestKeyAt(MIDDLE_MS), lowestKeyAt(MIDDLE_MS + 100_000)];
  /** These values are rare, or not there at all: nothing but the range of 5,000 ids may be chosen by them. */
  const rare = (state: string, client: string | null) => [
    lowestTransactionIdAt(END_MS - 5_000_000),
    END,
    PAGE,
    state,
    'rare',
    ...KEYS,
    client,
    '"nobody@shop.example"',
    'payment',
  ];
  const SETTLED_FIRST = [FIRST_MS * 1_000, BELOW_ALL, FIRST_MS, END_MS, PAGE];
  const SETTLED_LATER = [MIDDLE_MS * 1_000, lowestKeyAt(MIDDLE_MS), FIRST_MS, END_MS, PAGE];
  test.each([
    ['the newest of any state', NEWEST.any, [FROM_FIRST, LATER, BETWEEN, OF_PAYMENTS], 'payments_transaction_id_key'],
    ['the newest DECLINED', NEWEST.DECLINED, [FROM_FIRST, LATER, BETWEEN, OF_PAYMENTS], 'payments_declined'],
    ['the newest that are pending', NEWEST.PENDING, [FROM_FIRST, LATER, BETWEEN, OF_PAYMENTS], 'payments_pending'],
    ['the newest refunds', NEWEST.refunds, [FROM_FIRST, LATER, BETWEEN], 'payments_refunds'],
    ['what was settled', SETTLED, [SETTLED_FIRST, SETTLED_LATER], 'payments_settled'],
    ['refunds that were settled', SETTLED_REFUNDS, [SETTLED_FIRST, SETTLED_LATER], 'payments_refunds_settled'],
  ])('%s: first and later pages come from one index as it is', async (_what, statement, pages, index) => {
    for (const values of pages) {
      for (const plan of await plansOf(statement, values)) {
        expect(plan).toMatchObject({ nodes: ['Limit', 'Index Scan'], indexes: [index] });
      }
    }
  });

  test.each([
    ['the newest PROCESSING', NEWEST.PROCESSING, [FROM_FIRST, LATER, BETWEEN, OF_PAYMENTS]],
    ['the last unfinished id that a page may read', NTH_ID.PROCESSING, [ALL_IDS]],
  ])('%s is in a page of each of two indexes, which have their order', async (_what, statement, pages) => {
    for (const values of pages) {
      for (const { nodes, indexes } of await plansOf(statement, values)) {
        // The nodes below the outer limit, which put the two pages together.
        const reads = nodes
          .filter((node) => /Limit|Index|Seq|Bitmap/.test(node))
          .map((node) => node.replace(' Only', ''));
        expect(reads).toEqual(['Limit', 'Limit', 'Index Scan', 'Limit', 'Index Scan']);
        expect(indexes).toEqual(['payments_under_way', 'payments_pending']);
      }
    }
  });

  test('counting what was settled reads a page of one index, whatever the parameters', async () => {
    for (const values of [SETTLED_FIRST, SETTLED_LATER]) {
      for (const mode of ['force_custom_plan', 'force_generic_plan']) {
        const plan = await planOf(stores.client, COUNT_SETTLED, mode, [...values, 'false'], { executed: true });
        const { nodes, indexes, tables, blocks } = plan;
        expect({ indexes, tables }).toEqual({ indexes: ['payments_settled'], tables: [] });
        expect(nodes).toEqual(expect.arrayContaining(['Limit', 'Index Scan']));
        // The rows lie in the order in which they were claimed, so far fewer blocks than rows.
        expect(blocks).toBeLessThan(PAGE / 4);
      }
    }
  });

  test.each([
    ['any payments', NEWEST.any, rare('COMPLETED', ANY), 'payments_transaction_id_key'],
    ['declined payments', NEWEST.DECLINED, rare('DECLINED', ANY), 'payments_declined'],
    ["a client's payments", NEWEST.ofClient, rare('COMPLETED', 'key:shop'), 'payments_by_client'],
    ["a client's pending payments", NEWEST.ofClient, rare('PENDING', 'key:shop'), 'payments_by_client'],
  ])(
    '%s that are filtered by what is rare are read in the order of their ids all the same',
    async (_what, page, values, index) => {
      for (const { nodes, indexes } of await plansOf(page, values)) {
        expect({ nodes, indexes }).toEqual({ nodes: ['Limit', 'Index Scan'], indexes: [index] });
      }
    },
  );

  test('a search in content reads the range of ids that its page may read, and no more of the table', async () => {
    const READ = 1_000;
    const nth = await stores.client.query<{ transaction_id: string }>(NTH_ID.any.text, ['TXN', END, READ]);
    const from = nth.rows[0]?.transaction_id ?? '';
    const values = [from, END, PAGE, ANY, ANY, ANY, ANY, ANY, '"nobody@shop.example"', ANY];
    for (const mode of ['force_custom_plan', 'force_generic_plan']) {
      const plan = await planOf(stores.client, NEWEST.any, mode, values, { executed: true });
      const { nodes, indexes, tables, blocks } = plan;
      expect({ nodes, indexes, tables }).toEqual({
        nodes: ['Limit', 'Index Scan'],
        indexes: ['payments_transaction_id_key'],
        tables: [],
      });
      // The rows lie in the order of their ids, so far fewer blocks than rows.
      expect(blocks).toBeLessThan(READ / 4);
    }
  });

  test.each([
    ['all', NTH_ID.any, [], 'payments_transaction_id_key'],
    ['declined', NTH_ID.DECLINED, [], 'payments_declined'],
    ['pending', NTH_ID.PENDING, [], 'payments_pending'],
    ["a client's", NTH_ID.ofClient, ['key:shop'], 'payments_by_client'],
    ['refunds’', NTH_ID.refunds, [], 'payments_refunds'],
  ])('of %s ids the one down to which a page may read comes from the index alone', async (_what, nth, more, index) => {
    for (const { nodes, indexes } of await plansOf(nth, [...ALL_IDS, ...more])) {
      expect({ nodes, indexes }).toEqual({ nodes: ['Limit', 'Index Only Scan'], indexes: [index] });
    }
  });

  test.each([
    ['keys that begin alike, which are counted', COUNT_KEYS, [...KEYS, PAGE], 'payments_pkey'],
    ['keys that begin alike', OF_KEYS, [...ALL_IDS, ANY, ANY, ...KEYS, ANY, ANY, ANY], 'payments_pkey'],
    ['a reference', OF_REFERENCE, [...FROM_FIRST, 'order-700'], 'payments_by_reference'],
    ['one payment that give it back', REFUNDS_OF, [KEYS[0] ?? '', PAGE], 'payments_by_refunded'],
    ['the newest attempt', NEWEST_ATTEMPT, ['order-700', ANY], 'payments_by_reference'],
    ["the newest attempt of a client's", NEWEST_ATTEMPT, ['order-700', 'key:shop'], 'payments_by_reference'],
  ])('payments of %s are one range of one index', async (_what, statement, values, index) => {
    for (const { tables, indexes } of await plansOf(statement, values)) {
      expect({ tables, indexes }).toEqual({ tables: [], indexes: [index] });
    }
  });

  test.each([
    ['payments of a reference and their refunds', OF_REFERENCE_WITH_REFUNDS, [...FROM_FIRST, 'order-700']],
    ['the id down to which a page may read them', NTH_REFUND_ID_OF_REFERENCE, [...ALL_IDS, 'order-700']],
  ])('%s are one range for each payment', async (_what, statement, values) => {
    for (const { tables, indexes } of await plansOf(statement, values)) {
      expect(tables).toEqual([]);
      expect(new Set(indexes)).toEqual(new Set(['payments_by_reference', 'payments_by_refunded']));
    }
  });

  const DUE = ['owner', 1, 'test', 64];
  test.each([
    ['counting abandoned payments', COUNT_ABANDONED, [0, 1, PAGE], ['payments_under_way']],
    ['looking at the backlog', BACKLOG, [PAGE], ['payments_under_way']],
    ['looking at what is pending', PENDING_BACKLOG, [PAGE], ['payments_pending']],
    ['asking about what is pending', DUE_PENDING, ['test', 16], ['payments_pending_due', 'payments_pkey']],
    ['taking over what is longest due', TAKE_OVER_DUE['longest due'], DUE, ['payments_due', 'payments_pkey']],
    ['taking over what is latest due', TAKE_OVER_DUE['latest due'], DUE, ['payments_due', 'payments_pkey']],
  ])('%s reads a few rows by index', async (_what, statement, values, expected) => {
    for (const { nodes, indexes, tables } of await plansOf(statement, values)) {
      expect(nodes).not.toContain('Sort');
      expect(tables).not.toContain('payments');
      expect([...new Set(indexes)].sort()).toEqual(expected);
    }
  });

  test('removing old payments reads a part of their index, all attempts at their references, and their refunds', async () => {
    for (const { indexes, tables } of await plansOf(REMOVE_SETTLED, [-1, BELOW_ALL, END_MS, 1, PAGE])) {
      expect(tables).not.toContain('payments');
      const expected = ['payments_by_reference', 'payments_by_refunded', 'payments_pkey', 'payments_settled'];
      expect([...new Set(indexes)].sort()).toEqual(expected);
    }
  });
});

/**
 * Bug: recovery took over more payments than it asked for. Cause: a plan that was kept from when the table had one row
 * joined it with the sub-select, which ran again, with its limit, for each row. Fix: the sub-select is an array, which is
 * computed once.
 */
test('taking over what was abandoned keeps its limit with a plan from when the table had one row', async () => {
  const [ABANDONED, LIMIT] = [300, 64];
  /** PostgreSQL keeps a plan for all parameters after five executions with plans of their own. */
  const UNTIL_THE_PLAN_IS_KEPT = 10;
  const others = await openSqlStores();
  onTestFinished(() => others.close());
  // One connection, so that it is the one that keeps the plan.
  const { ledger, close } = await openDistributedPortsOn(others, { databasePoolSize: 1 });
  onTestFinished(close);
  const processor = newProcessorName();
  const takeOver = () =>
    ledger.takeOverDue({ owner: newOwner(), leaseMs: LONG_MS, processor, first: 'longest due', limit: LIMIT });
  await others.client.query('ALTER TABLE idempay.payments SET (autovacuum_enabled = false)');
  await givenSettled(ledger, await givenClaim(ledger, { processor }));
  await others.client.query('ANALYZE idempay.payments');
  for (let time = 0; time < UNTIL_THE_PLAN_IS_KEPT; time += 1) expect(await takeOver()).toEqual([]);

  const claims = await Promise.all(Array.from({ length: ABANDONED }, () => givenClaim(ledger, { processor })));
  await Promise.all(claims.map((claim) => ledger.abandon(claim, 0)));
  for (let left = ABANDONED; left > 0; left -= LIMIT) expect(await takeOver()).toHaveLength(Math.min(LIMIT, left));
  expect(await takeOver()).toEqual([]);
});
