import { REMEMBERED_REMOVALS, type TransactionRow } from '#idempay/stores/shared/transaction-rows.js';
import { FINAL_STATUSES, type TransactionStatus } from '#idempay/transactions/transaction.js';
import type { Statements, Tables } from './postgres-server.js';

type Statuses = readonly TransactionStatus[] | null;

/** The statements of the adapter's `transaction-statements.ts`. */
export const TRANSACTION_STATEMENTS: Statements = {
  find_transaction: ({ transactions }, [id]: [number]) => [transactions.get(id) ?? []].flat(),

  change_status({ transactions, cache }, values: [number, TransactionStatus, Statuses, number, number | null], [now]) {
    const [id, status, onlyFrom, writeBefore, epoch] = values;
    if (epoch !== null && epoch !== cache.epoch) return [];
    const row = transactions.get(id);
    if (!row || row.status === status || FINAL_STATUSES.includes(row.status)) return [];
    if ((onlyFrom && !onlyFrom.includes(row.status)) || now > writeBefore) return [];
    const changed = { ...row, status, version: row.version + 1 };
    transactions.set(id, changed);
    return [changed];
  },

  remove_transaction(tables, values: [number, Statuses, number, number | null], [now]) {
    const [id, onlyFrom, writeBefore, epoch] = values;
    if (epoch !== null && epoch !== tables.cache.epoch) return [];
    const row = tables.transactions.get(id);
    if (!row || (onlyFrom && !onlyFrom.includes(row.status)) || now > writeBefore) return [];
    const { lastId, version: before, lastRemovalVersion: previous_version } = tables.list;
    const version = before + 1;
    const { from_account, to_account } = row;
    tables.transactions.delete(id);
    tables.list = { lastId, version, lastRemovalVersion: version };
    const removals = [...tables.removals, { version, previous_version, id, from_account, to_account }];
    tables.removals = removals.slice(-REMEMBERED_REMOVALS);
    return [{ version }];
  },

  cache_epoch: ({ cache }) => [cache],

  cache_epoch_of(tables, [seen]: [readonly string[]]) {
    const { epoch, masters } = tables.cache;
    if (!seen.every((master) => masters.includes(master))) tables.cache = { epoch: epoch + 1, masters: seen };
    return [tables.cache];
  },

  list_version: ({ list }) => [{ version: list.version, last_removal_version: list.lastRemovalVersion }],

  removals_since: ({ removals }, [since]) => removals.filter(({ version }) => version > Number(since)).reverse(),

  ...lists('all', () => ''),
  ...lists('from', ({ from_account }) => from_account),
  ...lists('to', ({ to_account }) => to_account),
  ...lists('both', ({ from_account, to_account }) => `${from_account}\n${to_account}`),
};

/** `accountsOf`: what a row of the list must have as the account, or both, that the statement is given. */
function lists(selection: string, accountsOf: (row: TransactionRow) => string): Statements {
  const page: Statements[string] = ({ transactions }, [afterId, limit, accounts = '']: [number, number, string?]) =>
    [...transactions.values()]
      .filter((row) => row.id > afterId && accountsOf(row) === accounts)
      .sort((one, other) => one.id - other.id)
      .slice(0, limit);
  const below = ({ transactions }: Tables, before: number, most: number, accounts = '') =>
    [...transactions.values()]
      .filter((row) => row.id < before && accountsOf(row) === accounts)
      .sort((one, other) => other.id - one.id)
      .slice(0, most);
  const newest: Statements[string] = (tables, [before, most, accounts]: [number, number, string?]) =>
    below(tables, before, most, accounts);
  const withStatus: Statements[string] = (tables, [before, most, ...others]: [number, number, ...unknown[]]) => {
    const [status, length] = others.slice(-2) as [TransactionStatus, number];
    const seen = below(tables, before, most, selection === 'all' ? '' : String(others[0]));
    const read_to = seen.length === most ? (seen.at(-1)?.id ?? null) : null;
    const found = seen.filter((row) => row.status === status).slice(0, length);
    return found.length === 0 ? [{ read_to, id: null }] : found.map((row) => ({ read_to, ...row }));
  };
  return {
    [`list_ids_${selection}`]: page,
    [`list_rows_${selection}`]: page,
    [`newest_rows_${selection}`]: newest,
    [`newest_with_status_${selection}`]: withStatus,
  };
}
