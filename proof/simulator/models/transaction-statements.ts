import type { TransactionRow } from '#idempay/deployments/rows.js';
import { REMEMBERED_REMOVALS } from '#idempay/deployments/transaction-removals.js';
import { FINAL_STATUSES, type TransactionStatus } from '#idempay/transactions/transaction.js';
import type { Statements } from './postgres-server.js';

type Statuses = readonly TransactionStatus[] | null;

/** What `transaction-statements.ts` of the adapter says. */
export const TRANSACTION_STATEMENTS: Statements = {
  find_transaction: ({ transactions }, [id]: [number]) => [transactions.get(id) ?? []].flat(),

  change_status({ transactions }, values: [number, TransactionStatus, Statuses, number], [now]) {
    const [id, status, onlyFrom, writeBefore] = values;
    const row = transactions.get(id);
    if (!row || row.status === status || FINAL_STATUSES.includes(row.status)) return [];
    if ((onlyFrom && !onlyFrom.includes(row.status)) || now > writeBefore) return [];
    const changed = { ...row, status, version: row.version + 1 };
    transactions.set(id, changed);
    return [changed];
  },

  remove_transaction(tables, [id, onlyFrom, writeBefore]: [number, Statuses, number], [now]) {
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

  list_version: ({ list }) => [{ version: list.version, last_removal_version: list.lastRemovalVersion }],

  removals_since: ({ removals }, [since]) => removals.filter(({ version }) => version > Number(since)).reverse(),

  ...lists('all', () => ''),
  ...lists('from', ({ from_account }) => from_account),
  ...lists('to', ({ to_account }) => to_account),
  ...lists('both', ({ from_account, to_account }) => `${from_account}\n${to_account}`),
};

/** `accountsOf`: what a row of the list must have as the statement's third value. */
function lists(selection: string, accountsOf: (row: TransactionRow) => string): Statements {
  const page: Statements[string] = ({ transactions }, [afterId, limit, accounts = '']: [number, number, string?]) =>
    [...transactions.values()]
      .filter((row) => row.id > afterId && accountsOf(row) === accounts)
      .sort((one, other) => one.id - other.id)
      .slice(0, limit);
  return { [`list_ids_${selection}`]: page, [`list_rows_${selection}`]: page };
}
