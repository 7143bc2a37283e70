import type { Clock } from '#idempay/clock.js';
import type { DatabaseClock } from '#idempay/deployments/distributed/postgres/database-clock.js';
import { WRITE_DEADLINE_MS } from '#idempay/deployments/distributed/time-limits.js';
import { firstRemovedId, REMEMBERED_REMOVALS } from '#idempay/deployments/transaction-removals.js';
import { StoreUnavailable } from '#idempay/faults.js';
import { FINAL_STATUSES, type Transaction, type TransactionStatus } from '#idempay/transactions/transaction.js';
import type { TransactionStore } from '#idempay/transactions/transaction-store.js';
import type { Server } from '../network.js';
import type { Actor } from '../simulation.js';
import type { Change, TransactionTable } from './table.js';

const MAX_TRIES = 5;

/** The port as one instance of the distributed deployment has it, with what its adapter does when a write was refused. */
export function createSimulatedTransactionStore(
  line: Server,
  table: TransactionTable,
  instance: Actor,
  clock: Clock,
  databaseClock: DatabaseClock,
  commitsAfterMs: (id: number) => number,
): TransactionStore {
  const get = (id: number) => line.read(instance, 'reads the row of', String(id), () => table.rows.get(id));

  /** The statement changes nothing when it begins too late. */
  function write(operation: string, id: number, writeBy: number | undefined, change: Change) {
    const writeBefore = databaseClock.at(writeBy ?? clock.monotonic() + WRITE_DEADLINE_MS);
    return line.send<ReturnType<Change>>(instance, operation, String(id), (reply, refuse) => {
      const inTime: Change = (row) => (table.now() <= writeBefore ? change(row) : undefined);
      table.execute(id, inTime, commitsAfterMs(id), reply, refuse);
    });
  }

  async function refuseLate(writeBy: number | undefined): Promise<void> {
    await databaseClock.synchronize();
    if (writeBy !== undefined && clock.monotonic() >= writeBy) {
      throw new StoreUnavailable('unchanged', 'the write came too late to be safe for the cache');
    }
  }

  return {
    create: (transaction) =>
      line.ask(instance, 'creates a transaction,', instance.name, () => table.create(transaction)),

    get,

    async changeStatus(id, status, onlyFrom, writeBy) {
      for (let tries = 0; tries < MAX_TRIES; tries += 1) {
        const changed = await write(`sets ${status} on`, id, writeBy, changeTo(status, onlyFrom));
        if (changed && changed !== 'removed') return { state: 'done', transaction: changed };
        const transaction = await get(id);
        if (!transaction) return { state: 'not found' };
        if (!isPermitted(transaction.status, onlyFrom)) return { state: 'precondition failed' };
        if (transaction.status === status) return { state: 'done', transaction };
        if (FINAL_STATUSES.includes(transaction.status)) return { state: 'final', status: transaction.status };
        await refuseLate(writeBy);
      }
      throw new StoreUnavailable('unchanged', 'too many concurrent changes to this transaction');
    },

    async remove(id, onlyFrom, writeBy) {
      for (let tries = 0; tries < MAX_TRIES; tries += 1) {
        const removed = await write('removes', id, writeBy, (row) =>
          row && isPermitted(row.status, onlyFrom) ? 'removed' : undefined,
        );
        if (removed) return 'removed';
        const transaction = await get(id);
        if (!transaction) return 'not found';
        if (!isPermitted(transaction.status, onlyFrom)) return 'precondition failed';
        await refuseLate(writeBy);
      }
      throw new StoreUnavailable('unchanged', 'too many concurrent changes to this transaction');
    },

    listVersion: () => line.read(instance, 'reads the version,', instance.name, () => table.version),

    async openSnapshot(filter) {
      const seen = await line.read(instance, 'opens a snapshot,', instance.name, () => ({
        version: table.version,
        lastRemovalVersion: table.lastRemovalVersion,
        removals: table.removals.slice(-REMEMBERED_REMOVALS),
        rows: table.matching(filter),
      }));
      const page = (afterId: number, limit: number) =>
        line.read(instance, 'reads a page,', instance.name, () =>
          seen.rows.filter((row) => row.id > afterId).slice(0, limit),
        );
      return {
        version: seen.version,
        firstRemovedSince: (since) =>
          line.read(instance, 'reads the removals,', instance.name, () =>
            firstRemovedId(
              seen.removals.filter(({ version }) => version > since).reverse(),
              seen.lastRemovalVersion,
              since,
              filter,
            ),
          ),
        ids: async (afterId, limit) => (await page(afterId, limit)).map(({ id }) => id),
        rows: page,
        isWanted: () => false,
        close() {},
      };
    },
  };
}

/** The whole decision of the changing statement. */
function changeTo(status: TransactionStatus, onlyFrom: readonly TransactionStatus[] | undefined): Change {
  return (row: Transaction | undefined) => {
    if (!row || row.status === status || FINAL_STATUSES.includes(row.status)) return undefined;
    return isPermitted(row.status, onlyFrom) ? { ...row, status, version: row.version + 1 } : undefined;
  };
}

function isPermitted(status: TransactionStatus, onlyFrom: readonly TransactionStatus[] | undefined): boolean {
  return onlyFrom === undefined || onlyFrom.includes(status);
}
