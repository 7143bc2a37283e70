import { afterWrite, StoreUnavailable } from '../../../platform/faults.js';
import type {
  FoundTransactions,
  StatusChangeResult,
  TransactionSnapshot,
  TransactionStore,
} from '../../../transactions/ports/transaction-store.js';
import {
  ABOVE_ALL_IDS,
  FINAL_STATUSES,
  type Transaction,
  type TransactionFilter,
  type TransactionSearch,
  type TransactionStatus,
} from '../../../transactions/transaction.js';
import { type Permit, Permits } from '../../shared/permits.js';
import { NOT_MEASURED, type StoreMeasures } from '../../shared/store-measures.js';
import { WRITE_DEADLINE_MS } from '../../shared/time-limits.js';
import {
  firstRemovedId,
  type RemovalRow,
  selectionOf,
  type TransactionRow,
  transactionOf,
} from '../../shared/transaction-rows.js';
import { Batcher } from '../connection/batcher.js';
import type { DatabaseClock } from '../connection/database-clock.js';
import type { ConfirmDurable } from '../connection/durability.js';
import { ask, type Postgres, type Statement } from '../connection/postgres.js';
import { createPostgresCreations } from './transaction-creations.js';
import * as statements from './transaction-statements.js';
import { accountParameters, NEWEST_ROWS, NEWEST_WITH_STATUS } from './transaction-statements.js';

interface ListVersionRow {
  version: number;
  last_removal_version: number;
}

/** Tries of a change when concurrent changes come between it and the read that explains its refusal; each try sees a newer row. */
const MAX_TRIES = 5;

export function createPostgresTransactionStore(
  database: Postgres,
  databaseClock: DatabaseClock,
  confirmDurable: ConfirmDurable,
  {
    maxSnapshots,
    pagePermits = new Permits(maxSnapshots),
    measures = NOT_MEASURED,
  }: { maxSnapshots: number; pagePermits?: Permits; measures?: StoreMeasures | undefined },
): TransactionStore {
  const { clock } = databaseClock;
  const versions = new Batcher<'version', number>(
    readVersionOnce,
    clock,
    1,
    measures.queue('postgresql', 'list_versions'),
  );
  const permits = new Permits(maxSnapshots);

  /** Calls that arrive before the read is sent share it; its result is not kept for later calls. */
  async function readVersionOnce(asked: readonly 'version'[]): Promise<number[]> {
    const [row] = await database.read<ListVersionRow>(statements.LIST_VERSION);
    return asked.map(() => row?.version ?? 0);
  }

  async function get(id: number, changing?: () => void): Promise<Transaction | undefined> {
    const [row] = await database.read<TransactionRow & { isChanging: boolean }>(statements.FIND, [id]);
    if (row?.isChanging) changing?.();
    return row && transactionOf(row);
  }

  /**
   * What was only read may be the effect of an earlier request whose wait for the standby was cancelled, so it is acknowledged when it is
   * durable. Until then it is not said that nothing was changed.
   */
  function confirmRead(): Promise<void> {
    return afterWrite(confirmDurable());
  }

  function deadline(writeBy: number | undefined): number {
    return databaseClock.at(writeBy ?? clock.monotonic() + WRITE_DEADLINE_MS);
  }

  return {
    ...createPostgresCreations(database, confirmDurable, clock, measures),
    get,

    changeStatus(id, status, onlyFrom, mark = {}) {
      return untilAnswered(mark.writeBy, async () => {
        const values = [id, status, onlyFrom ?? null, deadline(mark.writeBy), mark.epoch ?? null];
        const [changed] = await database.write<TransactionRow>(statements.CHANGE_STATUS, values);
        if (changed) return { state: 'done', transaction: transactionOf(changed) };
        const unchanged = unchangedBecause(await get(id), status, onlyFrom);
        if (unchanged?.state === 'done') await confirmRead();
        return unchanged;
      });
    },

    remove(id, onlyFrom, mark = {}) {
      return untilAnswered(mark.writeBy, async () => {
        const values = [id, onlyFrom ?? null, deadline(mark.writeBy), mark.epoch ?? null];
        const moved = await database.write(statements.REMOVE, values);
        if (moved.length > 0) return 'removed';
        const transaction = await get(id);
        if (!transaction) {
          await confirmRead();
          return 'not found';
        }
        return isPermitted(transaction.status, onlyFrom) ? undefined : 'precondition failed';
      });
    },

    newest: createSearch(database, pagePermits),

    listVersion: () => versions.add('version'),

    async openSnapshot(filter, long) {
      const permit = await permits.take(filter.client, long);
      try {
        return await openSnapshot(database, filter, permit, measures);
      } catch (fault) {
        permit.release();
        throw fault;
      }
    },
  };

  /** Writes again while the write changed nothing and the row, read after it, does not say why. */
  async function untilAnswered<T>(writeBy: number | undefined, write: () => Promise<T | undefined>): Promise<T> {
    for (let tries = 0; tries < MAX_TRIES; tries += 1) {
      const answer = await write();
      if (answer !== undefined) return answer;
      await refuseLate(writeBy);
    }
    throw new StoreUnavailable('unchanged', 'too many concurrent changes to this transaction');
  }

  /**
   * Throws when the write is later than its cache mark allows; it must not be tried without the mark. Otherwise the row was
   * changed concurrently, or our clock was behind the database's, and the caller tries again.
   */
  async function refuseLate(writeBy: number | undefined): Promise<void> {
    await databaseClock.synchronize();
    if (writeBy !== undefined && clock.monotonic() >= writeBy) {
      throw new StoreUnavailable('unchanged', 'the write came too late to be safe for the cache');
    }
  }
}

function isPermitted(status: TransactionStatus, onlyFrom: readonly TransactionStatus[] | undefined): boolean {
  return onlyFrom === undefined || onlyFrom.includes(status);
}

/** Undefined if the row permits the change. */
function unchangedBecause(
  transaction: Transaction | undefined,
  status: TransactionStatus,
  onlyFrom: readonly TransactionStatus[] | undefined,
): StatusChangeResult | undefined {
  if (!transaction) return { state: 'not found' };
  if (!isPermitted(transaction.status, onlyFrom)) return { state: 'precondition failed' };
  if (transaction.status === status) return { state: 'done', transaction };
  return FINAL_STATUSES.includes(transaction.status) ? { state: 'final', status: transaction.status } : undefined;
}

async function openSnapshot(
  database: Postgres,
  filter: TransactionFilter,
  permit: Permit,
  measures: StoreMeasures,
): Promise<TransactionSnapshot> {
  const client = await database.connect();
  let open = true;

  async function query<Row extends object>(statement: Statement, values: readonly unknown[]): Promise<Row[]> {
    try {
      return await ask<Row>(client, statement, values, measures);
    } catch (error) {
      throw new StoreUnavailable('unchanged', 'the list could not be read', error);
    }
  }

  try {
    await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
    const [version] = await query<ListVersionRow>(statements.LIST_VERSION, []);
    const selection = selectionOf(filter);
    const accounts = statements.accountParameters(filter);
    const lastRemovalVersion = version?.last_removal_version ?? 0;
    return {
      version: version?.version ?? 0,
      async firstRemovedSince(since) {
        if (lastRemovalVersion <= since) return Number.POSITIVE_INFINITY;
        const removals = await query<RemovalRow>(statements.REMOVALS_SINCE, [since]);
        return firstRemovedId(removals, lastRemovalVersion, since, filter);
      },
      ids: async (afterId, limit) =>
        (await query<{ id: number }>(statements.LIST_IDS[selection], [afterId, limit, ...accounts])).map(
          ({ id }) => id,
        ),
      rows: async (afterId, limit) =>
        (await query<TransactionRow>(statements.LIST_ROWS[selection], [afterId, limit, ...accounts])).map(
          transactionOf,
        ),
      isWanted: () => permit.isWanted(),
      isOwed: () => permit.isOwed(),
      lengthen: () => permit.lengthen(),
      close() {
        if (!open) return;
        open = false;
        client
          .query('COMMIT')
          .then(
            () => client.release(false),
            () => client.release(true),
          )
          .finally(() => permit.release());
      },
    };
  } catch (fault) {
    client.release(true);
    throw fault instanceof StoreUnavailable
      ? fault
      : new StoreUnavailable('unchanged', 'the list could not be read', fault);
  }
}

/** A row that was found, and where the reading ended; nothing was found if the row has no id. */
type SeenRow = { readonly read_to: number | null } & (TransactionRow | { readonly id: null });

/** One statement for each page, without a snapshot. A page waits for its permit. */
function createSearch(database: Postgres, permits: Permits): TransactionStore['newest'] {
  return (search, mostRead) => permits.during(search.client, () => newest(search, mostRead));

  async function newest(search: TransactionSearch, mostRead: number): Promise<FoundTransactions> {
    const { status, limit, before = ABOVE_ALL_IDS } = search;
    const selection = selectionOf(search);
    const accounts = accountParameters(search);
    // One row more than the page says whether there is a next one.
    const most = limit + 1;
    if (status === undefined) {
      const rows = await database.read<TransactionRow>(NEWEST_ROWS[selection], [before, most, ...accounts]);
      return pageOf(rows, limit);
    }
    const values = [before, mostRead, ...accounts, status, most];
    const seen = await database.read<SeenRow>(NEWEST_WITH_STATUS[selection], values);
    const found = seen.filter((row): row is SeenRow & TransactionRow => row.id !== null);
    return pageOf(found, limit, seen[0]?.read_to ?? undefined);
  }
}

function pageOf(rows: readonly TransactionRow[], limit: number, readTo?: number): FoundTransactions {
  const transactions = rows.slice(0, limit).map(transactionOf);
  return { transactions, next: rows.length > limit ? transactions.at(-1)?.id : readTo };
}
