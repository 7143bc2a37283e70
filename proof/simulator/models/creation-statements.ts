import type { TransactionRow } from '#idempay/stores/shared/transaction-rows.js';
import type { TransactionStatus } from '#idempay/transactions/transaction.js';
import type { Statements, Tables } from './postgres-server.js';

export interface StoredCreation {
  readonly fingerprint: string;
  readonly firstId: number;
  readonly createdAt: number;
  readonly expiresAt: number;
}

type Columns = readonly [froms: string[], tos: string[], amounts: unknown[], statuses: TransactionStatus[]];
type Keys = [clients: string[], endpoints: string[], keys: string[], fingerprints: string[], ttlsMs: number[]];
type CreateOnce = [...keys: Keys, rowsBefore: number[], ...rows: Columns, rowsBeforeOfRows: number[]];

/** The statements of the adapter's `creation-statements.ts`. */
export const CREATION_STATEMENTS: Statements = {
  create_transactions(tables, values: [...Columns], [at]) {
    const rows = rowsOf(values, tables.list.lastId + 1, Math.floor(at));
    return insert(tables, rows, rows.length);
  },

  create_transactions_once(tables, values: CreateOnce, [at]) {
    const [clients, endpoints, keys, fingerprints, ttlsMs, rowsBefore, ...columns] = values;
    const [froms, tos, amounts, statuses, rowsBeforeOfRows] = columns;
    const createdAt = Math.floor(at);
    const nextId = tables.list.lastId + 1;
    const created = rowsBefore.flatMap((before, index) => {
      const name = nameOf(clients[index], endpoints[index], keys[index]);
      if ((tables.creationKeys.get(name)?.expiresAt ?? 0) > createdAt) return [];
      const expiresAt = createdAt + Number(ttlsMs[index]);
      const [firstId, fingerprint] = [nextId + before, String(fingerprints[index])];
      tables.creationKeys.set(name, { fingerprint, firstId, createdAt, expiresAt });
      return [{ rowsBefore: before, firstId, createdAt }];
    });
    if (created.length === 0) return [];
    const rows = rowsOf([froms, tos, amounts, statuses], nextId, createdAt);
    const isCreated = new Set(created.map((row) => row.rowsBefore));
    const kept = rows.filter((_row, index) => isCreated.has(rowsBeforeOfRows[index] as number));
    insert(tables, kept, rows.length);
    return created;
  },

  find_creation({ creationKeys }, [client, endpoint, key]: [string, string, string], [now]) {
    const stored = creationKeys.get(nameOf(client, endpoint, key));
    return stored && stored.expiresAt > now ? [stored] : [];
  },

  sweep_creation_keys({ creationKeys }, [limit]: [number], [now]) {
    const expired = [...creationKeys].filter(([, { expiresAt }]) => expiresAt <= now).slice(0, limit);
    for (const [name] of expired) creationKeys.delete(name);
    return expired.map(() => ({ removed: 1 }));
  },
};

function rowsOf([froms, tos, amounts, statuses]: Columns, firstId: number, createdAt: number): TransactionRow[] {
  return froms.map((from_account, index) => ({
    ...{ id: firstId + index, from_account, to_account: tos[index] as string, amount: String(amounts[index]) },
    ...{ status: statuses[index] as TransactionStatus, version: 1, created_at: createdAt },
  }));
}

/** `ids`: how many are used up. */
function insert(tables: Tables, rows: readonly TransactionRow[], ids: number): readonly TransactionRow[] {
  const { lastId, version, lastRemovalVersion } = tables.list;
  for (const row of rows) tables.transactions.set(row.id, row);
  tables.list = { lastId: lastId + ids, version: version + ids, lastRemovalVersion };
  return rows;
}

function nameOf(...parts: readonly (string | undefined)[]): string {
  return JSON.stringify(parts);
}
