import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import { describe, expect, onTestFinished, test } from 'vitest';
import { PAGES as EMBEDDED } from '#idempay/stores/embedded/payments/settlement-read-statements.js';
import { PAGES as DISTRIBUTED } from '#idempay/stores/postgres/payments/settlement-read-statements.js';
import { BELOW_ALL_KEYS } from '#idempay/stores/shared/payment-history.js';
import { openWithWarnings } from '../../testkit/protocol/embedded-with-warnings.js';
import { openStartedStores } from '../../testkit/protocol/ports.js';
import { planOf } from '../../testkit/protocol/postgres-plan.js';
import { settledPayments } from '../../testkit/protocol/stored-rows.js';

/**
 * Bug: a full page of the feed read on to the bound. Cause: the place behind a short page was looked for behind each one. Fix: the statement
 * looks for it only if the page is short. Readers that are far behind felt it, and no test did: so rows and blocks are counted here.
 */

const MANY = 5_000;
const SETTLED_FROM_MS = Date.parse('2026-11-20T12:00:00Z');
const BOUND_US = Date.parse('2026-11-21T12:00:00Z') * 1_000;
const READ_LIMIT = 10_000;
const FEW_ROWS = 5;
/** A block for each row would be a hundred times as many. */
const FEW_BLOCKS = 50;
const KINDS = ['all', 'payment'] as const;

/** The values of a page of one settlement, from the oldest on. */
const pageOfOne = (readLimit: number) => [0, BELOW_ALL_KEYS, BOUND_US, null, 1, readLimit];

describe('a full page among many settlements', () => {
  test.each(KINDS)('reads no row behind it in SQLite (%s)', async (kind) => {
    const folder = await mkdtemp(join(tmpdir(), 'idempay-pages-'));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    await (await openWithWarnings(folder)).close();
    const database = new DatabaseSync(join(folder, 'idempay.sqlite'));
    onTestFinished(() => database.close());
    database.exec(settledPayments(MANY, SETTLED_FROM_MS).embedded);
    let read = 0;
    database.function('count_row', () => {
      read += 1;
      return 1;
    });
    // SQLite carries the condition out for each row that it reads.
    database.exec('ALTER TABLE payments RENAME TO stored');
    database.exec('CREATE VIEW payments AS SELECT * FROM stored WHERE count_row() = 1');
    expect(database.prepare(EMBEDDED[kind]).all(...pageOfOne(READ_LIMIT))).toHaveLength(1);
    expect(read).toBeGreaterThan(0);
    expect(read).toBeLessThan(FEW_ROWS);
  });

  test.each(KINDS)('reads no block for what is behind it in PostgreSQL (%s)', async (kind) => {
    const stores = await openStartedStores();
    onTestFinished(() => stores.close());
    await stores.client.query(settledPayments(MANY, SETTLED_FROM_MS).distributed);
    await stores.client.query('ANALYZE idempay.payments');
    const blocksOf = async (readLimit: number) => {
      const plan = await planOf(stores.client, DISTRIBUTED[kind], 'auto', pageOfOne(readLimit), { executed: true });
      return plan.blocks;
    };
    const few = await blocksOf(1);
    expect(few).toBeGreaterThan(0);
    expect(await blocksOf(READ_LIMIT)).toBeLessThan(few + FEW_BLOCKS);
  });
});
