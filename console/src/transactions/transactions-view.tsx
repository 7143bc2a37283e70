import { useState } from 'preact/hooks';
import type { ViewProperties } from '../navigation/route.js';
import { Account } from '../parts/account.js';
import { StatusBadge } from '../parts/badge.js';
import { amountText, countText } from '../parts/numbers.js';
import { EmptyState, ErrorState, LoadingState } from '../parts/states.js';
import { type Column, Table } from '../parts/table.js';
import { Time } from '../parts/time.js';
import { ChangeDialog, type Wanted } from './change-dialog.js';
import { type Filter, isFinal, type Transaction } from './transaction.js';
import { addressOf, TransactionFilters } from './transaction-filters.js';
import { useTransactions } from './use-transactions.js';
import './transactions.css';

/** The newest transactions, or a search's, and the actions for each. */
export default function TransactionsView({ http, route, may }: ViewProperties) {
  const filter = filterIn(route.query);
  const transactions = useTransactions(http, filter);
  const { shown, problem, isLoading } = transactions;
  const [changing, setChanging] = useState<{ readonly seen: Transaction; readonly wanted: Wanted }>();
  const [done, setDone] = useState('');
  const columns = [...COLUMNS(filter), ...(may('transactions:write') ? [actions(setChanging)] : [])];

  return (
    <div class="transactions-view">
      <div class="view-head">
        <h1>Transactions</h1>
        <button type="button" disabled={isLoading || !shown} onClick={transactions.refresh}>
          Refresh
        </button>
      </div>
      <TransactionFilters filter={filter} />
      <p class="done" role="status">
        {done}
      </p>
      {problem && <ErrorState sentence={problem} action={{ label: 'Try again', run: transactions.refresh }} />}
      {!shown && !problem && <LoadingState what="transactions" />}
      {shown?.start !== undefined && (
        <p class="muted newer">
          Newer ones are not shown any more.{' '}
          <button type="button" onClick={transactions.newest}>
            Back to the newest
          </button>
        </p>
      )}
      {shown && shown.rows.length > 0 && (
        <div class="panel">
          <Table
            caption="Transactions, newest first"
            columns={columns}
            rows={shown.rows}
            keyOf={({ transactionId }) => transactionId}
          />
        </div>
      )}
      {shown && <End {...transactions} shown={shown} filter={filter} />}
      {changing && (
        <ChangeDialog
          {...changing}
          http={http}
          // The reply of an earlier dialog must not close this one.
          close={() => setChanging((open) => (open === changing ? undefined : open))}
          changed={(transaction, sentence) => {
            transactions.replace(transaction);
            setDone(sentence);
          }}
          gone={(id, sentence) => {
            transactions.leaveOut(id);
            setDone(sentence);
          }}
        />
      )}
    </div>
  );
}

type EndProperties = Pick<ReturnType<typeof useTransactions>, 'older' | 'isLoading'> & {
  readonly shown: NonNullable<ReturnType<typeof useTransactions>['shown']>;
  readonly filter: Filter;
};

/** Says if there is more, and does not say that there is nothing when nothing was found. */
function End({ shown: { rows, next }, filter, older, isLoading }: EndProperties) {
  if (next === undefined) {
    if (rows.length > 0) return <p class="muted end">{countText(rows.length)} shown, and none is older.</p>;
    const isFiltered = Object.values(filter).some((value) => value !== '');
    return isFiltered ? (
      <EmptyState title="No transaction matches">
        Accounts are compared character by character. <a href={addressOf(EVERYTHING)}>Show all transactions</a>
      </EmptyState>
    ) : (
      <EmptyState title="There are no transactions yet">
        They appear here once somebody creates one: <code>POST /api/transactions</code>.
      </EmptyState>
    );
  }
  return (
    <div class="end">
      <button type="button" disabled={isLoading} onClick={older}>
        {rows.length > 0 ? 'Show older ones' : 'Search on'}
      </button>
      <span class="muted" aria-live="polite">
        {isLoading
          ? 'Searching…'
          : rows.length > 0
            ? `${countText(rows.length)} shown`
            : 'None among the newest; older ones were not looked at yet.'}
      </span>
    </div>
  );
}

const COLUMNS = (filter: Filter): readonly Column<Transaction>[] => [
  { title: 'Transaction', cell: ({ transactionId }) => <code>{transactionId}</code> },
  {
    title: 'From',
    cell: ({ fromAccount }) => (
      <Account account={fromAccount} href={addressOf({ ...filter, id: '', from: fromAccount })} />
    ),
  },
  {
    title: 'To',
    cell: ({ toAccount }) => <Account account={toAccount} href={addressOf({ ...filter, id: '', to: toAccount })} />,
  },
  {
    title: 'Amount',
    isNumber: true,
    cell: ({ amount }) => <span title={String(amount)}>{amountText(String(amount))}</span>,
  },
  { title: 'Status', cell: ({ status }) => <StatusBadge status={status} /> },
  { title: 'Created', cell: ({ createdAt }) => <Time at={createdAt} /> },
];

function actions(open: (change: { seen: Transaction; wanted: Wanted }) => void): Column<Transaction> {
  return {
    title: 'Change',
    cell: (seen) => (
      <span class="row-actions">
        {isFinal(seen.status) ? (
          <span class="muted" title="The status cannot change any more.">
            final
          </span>
        ) : (
          <button type="button" class="quiet" onClick={() => open({ seen, wanted: 'status' })}>
            Status<span class="visually-hidden"> of transaction {seen.transactionId}</span>…
          </button>
        )}
        <button type="button" class="quiet" onClick={() => open({ seen, wanted: 'deletion' })}>
          Delete<span class="visually-hidden"> transaction {seen.transactionId}</span>…
        </button>
      </span>
    ),
  };
}

const EVERYTHING: Filter = { id: '', from: '', to: '', status: '' };

function filterIn(query: URLSearchParams): Filter {
  const of = (name: string) => query.get(name) ?? '';
  return { id: of('id'), from: of('from'), to: of('to'), status: of('status') };
}
