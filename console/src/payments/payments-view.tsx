import type { ViewProperties } from '../navigation/route.js';
import { hashOf } from '../navigation/route.js';
import { StatusBadge } from '../parts/badge.js';
import { Money } from '../parts/money.js';
import { EmptyState, ErrorState, LoadingState } from '../parts/states.js';
import { type Column, Table } from '../parts/table.js';
import { Time } from '../parts/time.js';
import { FilterForm } from './filter-form.js';
import { type Filters, filtersOf, hashOfFilters } from './filters.js';
import { isWholeKey, type Payment } from './payment.js';
import { usePaymentPages } from './use-payment-pages.js';
import './payments.css';

/** All payments that the credential may see, newest first, as the address asks for them. */
export default function PaymentsView({ http, route, may }: ViewProperties) {
  const filters = filtersOf(route);
  const pages = usePaymentPages(http, filters);
  const { payments, searchedBackTo, hasMore, isLoading, problem } = pages;
  return (
    <div class="payments-view">
      <div class="view-head">
        <h1>Payments</h1>
        <button type="button" disabled={isLoading} onClick={pages.refresh}>
          Refresh
        </button>
      </div>
      <FilterForm filters={filters} />
      {!may('operations') && (
        <p class="muted note">These are your own payments. All payments need the scope operations.</p>
      )}
      {payments.length > 0 && (
        <div class="panel payment-rows">
          <Table
            caption="Payments, newest first"
            columns={COLUMNS}
            rows={payments}
            keyOf={(row) => row.idempotencyKey}
          />
        </div>
      )}
      {problem && (
        <ErrorState sentence={problem} action={{ label: 'Try again', run: hasMore ? pages.more : pages.refresh }} />
      )}
      {isLoading && payments.length === 0 && <LoadingState what="payments" />}
      {!isLoading && !problem && payments.length === 0 && !hasMore && <Nothing filters={filters} />}
      {hasMore && !problem && (
        <More searchedBackTo={searchedBackTo} isLoading={isLoading} found={payments.length} more={pages.more} />
      )}
    </div>
  );
}

function More({
  searchedBackTo,
  isLoading,
  found,
  more,
}: {
  searchedBackTo: number | undefined;
  isLoading: boolean;
  found: number;
  more(): void;
}) {
  return (
    <div class="more">
      <button type="button" disabled={isLoading} onClick={more}>
        {searchedBackTo === undefined ? 'Show older payments' : 'Go on'}
      </button>
      {searchedBackTo !== undefined && (
        <p class="muted" role="status">
          {found === 0 ? 'Nothing found yet. ' : ''}Searched back to <Time at={searchedBackTo} />.
        </p>
      )}
    </div>
  );
}

function Nothing({ filters }: { filters: Filters }) {
  if (isWholeKey(filters.find)) {
    return (
      <EmptyState title="No payment has this key">
        A key that was issued and not paid with is in no list.{' '}
        <a href={hashOf('payment', filters.find.toLowerCase())}>Look at the key</a>
      </EmptyState>
    );
  }
  if (Object.values(filters).every((value) => value === '')) {
    return <EmptyState title="No payments yet">They appear here when a client pays for the first time.</EmptyState>;
  }
  return (
    <EmptyState title="No payment matches">
      <a href={hashOfFilters({ find: '', state: '', from: '', to: '', processor: '' })}>Show all payments</a>
    </EmptyState>
  );
}

const COLUMNS: readonly Column<Payment>[] = [
  {
    title: 'Payment',
    cell: ({ idempotencyKey, transactionId }) => (
      <div class="reference">
        <a class="key" href={hashOf('payment', idempotencyKey)}>
          <code>{idempotencyKey}</code>
        </a>
        <code class="muted transaction">{transactionId}</code>
      </div>
    ),
  },
  { title: 'State', cell: ({ state }) => <StatusBadge status={state} /> },
  { title: 'Amount', isNumber: true, cell: ({ amount, currency }) => <Money amount={amount} currency={currency} /> },
  { title: 'Generated', cell: ({ createdAt }) => <Time at={createdAt} /> },
  { title: 'Processor', cell: ({ processor }) => <bdi>{processor}</bdi> },
  { title: 'Attempts', isNumber: true, cell: ({ attempts }) => attempts },
];
