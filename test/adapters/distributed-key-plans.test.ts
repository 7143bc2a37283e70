import { describe, expect, onTestFinished, test } from 'vitest';
import { DatabaseAddress } from '#idempay/stores/postgres/connection/address.js';
import { Postgres, type Statement } from '#idempay/stores/postgres/connection/postgres.js';
import {
  ABANDON,
  BEGIN_ENDING,
  CANCEL,
  CLAIM,
  CLAIM_IN_FULL,
  EXPLAIN_TURN,
  FIND,
  LEAVE,
  MOVE_PENDING,
  RENEW,
  RESOLVE,
  SETTLE,
  SETTLE_NOTED,
  TAKE_OVER,
} from '#idempay/stores/postgres/payments/ledger-statements.js';
import { FIND_LIFE, FIND as FIND_RECORD } from '#idempay/stores/postgres/payments/payment-history-statements.js';
import {
  CLAIM_REFUND,
  EXPLAIN_REFUND,
  RESOLVE_REFUND,
  SETTLE_REFUND,
  SETTLE_REFUND_AFTER_LOSS,
} from '#idempay/stores/postgres/payments/refund-statements.js';
import {
  CHANGE_STATUS,
  FIND as FIND_TRANSACTION,
  REMOVE,
} from '#idempay/stores/postgres/transactions/transaction-statements.js';
import { openStartedStores } from '../../testkit/protocol/ports.js';
import { keepPlan, type PlanValue } from '../../testkit/protocol/postgres-plan.js';

const MANY = 50_000;
const TABLES = ['payments', 'transactions'];
const BATCH = 25;
/** The way down each index, the pages that are written, and what a function of the statement looks up at its first call. */
const BLOCKS_OF_A_ROW = 100;
const LATER_MS = 4_000_000_000_000;
const NO_NEWEST_ID = 100_000_000_000_000;

const keys = Array.from({ length: BATCH }, (_, n) => `ffff0000-0000-7000-8000-${String(n).padStart(12, '0')}`);
const [FIRST = ''] = keys;
/** Attempts at references, each after one of the payments above, which are not declined: so none of them is inserted. */
const SECOND_KEYS = keys.map((key) => key.replace('ffff0000-0000-7', 'ffff0000-0000-8'));
const each = (value: string | number | null) => keys.map(() => value);

const fence = [keys, each(1), each('owner')];
const claim: PlanValue[] = [
  ...[keys, keys.map((_, n) => `TXN${1_000_000 + n}`), each(1), each('USD'), each('1 USD'), each(null), each('test')],
  ...[each('owner'), each(60_000), each(LATER_MS), each(null), each(null), each(null), ['former']],
];

const claimInFull: PlanValue[] = [
  ...[SECOND_KEYS, keys.map((_, n) => `TXN${2_000_000 + n}`), ...claim.slice(2)],
  ...[each('order-17'), each(2), keys, each(60_000), each(0), each('tok_1'), each('{"description":"Shoes"}')],
  ...[each(0), null],
];
const cancellation: PlanValue[] = [
  ...[SECOND_KEYS[0] ?? '', 'TXN3000000', null, 'owner', LATER_MS, 60_000, 'order-17', 2, FIRST, 60_000, 0, 'false'],
  ...['test', ['former'], null],
];

const REFUND = FIRST.replace('-7', '-8').replace('-8000-', '-9000-');
const ended = [REFUND, 1, 'owner'];
/** The payment that is locked, the refund, and the payment again. */
const THREE_ROWS = ['payments_pkey', 'payments_pkey', 'payments_pkey'];
const refund: PlanValue[] = [
  ...[REFUND, 'TXN4000000', 1, 'USD', '1 USD', 'test', 'owner', 60_000, LATER_MS, FIRST, 'back', null, null, 100],
  ...[1, 100, ['test', 'former'], 60_000],
];

/** In an order in which each finds its rows. The ones on transactions find none: the plan is the same. */
const BY_KEY: [statement: Statement, values: PlanValue[], index: string | readonly string[] | undefined][] = [
  [CLAIM, claim, undefined],
  [CLAIM_IN_FULL, claimInFull, 'payments_pkey'],
  [CANCEL, cancellation, 'payments_pkey'],
  [EXPLAIN_TURN, [SECOND_KEYS[0] ?? '', FIRST, 60_000, 0, 'test', ['former'], 0], 'payments_pkey'],
  [FIND, [keys], 'payments_pkey'],
  [FIND_RECORD, [FIRST], 'payments_pkey'],
  [FIND_LIFE, [FIRST], 'payments_pkey'],
  [RENEW, [...fence, each(60_000)], 'payments_pkey'],
  [TAKE_OVER, [FIRST, 'other', 60_000, ['test', 'former'], 'false'], 'payments_pkey'],
  [BEGIN_ENDING, [FIRST, 'other', 60_000, ['test', 'former'], 'order', 'true'], 'payments_pkey'],
  [MOVE_PENDING, [FIRST, LATER_MS], 'payments_pkey'],
  [RESOLVE, [FIRST, 'operator', 'DECLINED', 'why', 1, 1], 'payments_pkey'],
  [SETTLE, [...fence, each('COMPLETED'), each(null), each(60_000), each('ch_1')], 'payments_pkey'],
  [
    SETTLE_NOTED,
    [...fence, each('COMPLETED'), each(null), each(60_000), each(null), each('{"kind":"settled"}')],
    'payments_pkey',
  ],
  [ABANDON, [...fence, each(1), each(1), each('{"kind":"given up"}')], 'payments_pkey'],
  [
    LEAVE,
    [
      ...[...fence, each(1), each(LATER_MS), each('false'), each('ch_1'), each('{"kind":"given up"}')],
      ...[each(1), each('USD'), each('1 USD')],
    ],
    'payments_pkey',
  ],
  [CLAIM_REFUND, refund, 'payments_pkey'],
  [EXPLAIN_REFUND, [FIRST, 1, 'USD', ['test', 'former'], 60_000, 100], 'payments_pkey'],
  [SETTLE_REFUND, [...ended, 'DECLINED', 'why', 60_000, null, null, FIRST], THREE_ROWS],
  [
    SETTLE_REFUND_AFTER_LOSS,
    [...ended, 'COMPLETED', null, 60_000, null, null, FIRST, 2, '2 USD', 200],
    [...THREE_ROWS, 'payments_pkey'],
  ],
  [RESOLVE_REFUND, [REFUND, 'operator', 'DECLINED', 'why', 1, 1, FIRST], THREE_ROWS],
  [FIND_TRANSACTION, [NO_NEWEST_ID + MANY / 2], 'transactions_pkey'],
  [CHANGE_STATUS, [NO_NEWEST_ID + MANY / 2, 'COMPLETED', null, LATER_MS, 1], 'transactions_pkey'],
  [REMOVE, [NO_NEWEST_ID + MANY / 2, null, LATER_MS, 1], 'transactions_pkey'],
];

const fill = (from: number, to: number) => `
  INSERT INTO idempay.payments (key, transaction_id, amount, currency, fingerprint, processor, state, epoch, owner,
    lease_until, recover_at, claimed_at, settled_at, expires_at, settled_hour, generation)
  SELECT (lpad(to_hex(n), 12, '0') || '70008' || lpad(to_hex(n), 15, '0'))::uuid, 'TXN' || n, 1, 'USD', '1 USD', 'test',
    'COMPLETED', 1, 'owner', now(), now(), now(), now(), now(), 1, 0
  FROM generate_series(${from}, ${to}) AS n;
  INSERT INTO idempay.transactions (id, from_account, to_account, amount, status, version, created_at)
  SELECT ${NO_NEWEST_ID} + n, 'from' || n % 999, 'to' || n % 997, 10000, 'PENDING', 1, now()
  FROM generate_series(${from}, ${to}) AS n;`;
/** Whose plan for a table of one row is the exception (docs/engineering/decisions/0038). */
const CHANGES = [CHANGE_STATUS, REMOVE];
const ANALYZE = 'VACUUM ANALYZE idempay.payments, idempay.transactions';

/**
 * Bug: settlements took four times as long after an ANALYZE of a small table, and twice as long when it grew. Cause: the planner
 * took the index of what is under way, expecting one row there, and read all of it for each key. A plan kept from when the table was small
 * read all of the table. Fix: conditions that only the primary key serves, and no sequential scans.
 */
describe('statements by key in PostgreSQL use the primary key', () => {
  test.each([
    ['in empty tables', [], [], []],
    ['in tables that grew since the plan was kept', [], [fill(1, MANY)], []],
    ['in tables that grew since they were analyzed with a row', [fill(1, 1), ANALYZE], [fill(2, MANY)], CHANGES],
    ['in tables that grew since they were analyzed with ten', [fill(1, 10), ANALYZE], [fill(11, MANY)], []],
    ['in large tables without statistics', [fill(1, MANY)], [], []],
    ['in large tables', [fill(1, MANY), ANALYZE], [], []],
  ])('%s', async (_state, before, after, except: Statement[]) => {
    const stores = await openStartedStores();
    onTestFinished(() => stores.close());
    for (const table of TABLES) {
      await stores.client.query(`ALTER TABLE idempay.${table} SET (autovacuum_enabled = false)`);
    }
    const database = new Postgres(new DatabaseAddress(stores.databaseUrl), 1, () => {});
    onTestFinished(() => database.close());
    const connection = await database.connect();
    onTestFinished(() => connection.release());

    for (const text of before) await stores.client.query(text);
    const kept: [Awaited<ReturnType<typeof keepPlan>>, ...(typeof BY_KEY)[number]][] = [];
    for (const one of BY_KEY.filter(([statement]) => !except.includes(statement))) {
      const [statement, values] = one;
      kept.push([await keepPlan(connection, statement, values), ...one]);
    }
    for (const text of after) await stores.client.query(text);

    for (const [execute, { name }, values, index] of kept) {
      const { indexes, tables, blocks } = await execute();
      const ofRows = indexes.filter((found) => /^(payments|transactions)_/.test(found));
      expect([name, ...ofRows]).toEqual([name, index ?? []].flat());
      expect([name, ...tables.filter((table) => TABLES.includes(table))]).toEqual([name]);
      const rows = Array.isArray(values[0]) ? BATCH : 1;
      expect(blocks, name).toBeLessThanOrEqual(rows * BLOCKS_OF_A_ROW);
    }
  });
});
