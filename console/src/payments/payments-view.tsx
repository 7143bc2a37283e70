import { clipped } from '@idempay/statements';
import { useState } from 'preact/hooks';
import { ExportDialog } from '../export/export-dialog.js';
import type { ViewProperties } from '../navigation/route.js';
import { hashOf } from '../navigation/route.js';
import { StatusBadge } from '../parts/badge.js';
import { Money } from '../parts/money.js';
import { EmptyState, ErrorState, LoadingState } from '../parts/states.js';
import { type Column, Table } from '../parts/table.js';
import { Time } from '../parts/time.js';
import type { Order } from './closing.js';
import { ContentInShort } from './content.js';
import { FilterForm } from './filter-form.js';
import { type Filters, filtersOf, hashOfFilters, NO_FILTERS } from './filters.js';
import { LookedIn } from './looked-in.js';
import { OrderClosing } from './order-closing.js';
import { isWholeKey, type Payment } from './payment.js';
import { PaymentReference } from './payment-reference.js';
import { PendingInShort } from './pending.js';
import { isRefund, type Refund, signedAmountOf } from './refunds/refund.js';
import { mayBeClosed, sourcesOf, textOf } from './search.js';
import { type PaymentPages, usePaymentPages } from './use-payment-pages.js';
import './payments.css';

/** The most that the list shows of a refund's reason. */
const MOST_REASON = 80;

/** All payments that the credential may see, newest first, as the address asks for them. */
export default function PaymentsView(properties: ViewProperties) {
  const { http, route, may } = properties;
  const [closing, setClosing] = useState<Partial<Order>>();
  const [isExporting, setExporting] = useState(false);
  const filters = filtersOf(route);
  const seesAll = may('operations', 'payments:read:all');
  const pages = usePaymentPages(http, sourcesOf(filters, seesAll, Date.now()));
  const { payments, hasMore, isLoading, problem } = pages;
  const mayClose = may('payments:write', 'operations');
  const closeOrder = mayClose ? () => setClosing({ reference: orderNumberIn(filters) }) : undefined;
  return (
    <div class="payments-view">
      <div class="view-head">
        <h1>Payments</h1>
        <div class="actions">
          {may('payments:read', 'operations') && <a href={hashOf('settlements')}>Settlements</a>}
          {closeOrder && (
            <button type="button" onClick={closeOrder}>
              Close an order…
            </button>
          )}
          {seesAll && (
            <button type="button" onClick={() => setExporting(true)}>
              Export…
            </button>
          )}
          <button type="button" disabled={isLoading} onClick={pages.refresh}>
            Refresh
          </button>
        </div>
      </div>
      {closing && (
        <OrderClosing
          access={properties}
          known={closing}
          offered={clientsOf(payments)}
          close={() => setClosing(undefined)}
        />
      )}
      {isExporting && <ExportDialog http={http} close={() => setExporting(false)} />}
      <FilterForm filters={filters} />
      {!seesAll && (
        <p class="muted note">
          These are your own payments. All payments need the scope operations or payments:read:all.
        </p>
      )}
      {filters.search !== '' && <LookedIn looked={pages.looked} seesAll={seesAll} />}
      {payments.length > 0 && (
        <div class="panel payment-rows">
          <Table caption={captionOf(filters)} columns={COLUMNS} rows={payments} keyOf={(row) => row.idempotencyKey} />
        </div>
      )}
      {problem && (
        <ErrorState sentence={problem} action={{ label: 'Try again', run: hasMore ? pages.more : pages.refresh }} />
      )}
      {isLoading && payments.length === 0 && <LoadingState what="payments" />}
      {!isLoading && !problem && payments.length === 0 && !hasMore && (
        <Nothing filters={filters} closeOrder={closeOrder} />
      )}
      <Continuation pages={pages} isSearch={filters.search !== ''} />
    </div>
  );
}

/** The end of the list. A search goes on by itself there, and can be stopped. */
function Continuation({ pages, isSearch }: { pages: PaymentPages; isSearch: boolean }) {
  const { endedEarly, hasMore, isLoading, payments, problem } = pages;
  if (isSearch && isLoading) {
    return (
      <div class="more">
        <button type="button" onClick={pages.stop}>
          Stop
        </button>
      </div>
    );
  }
  if (!hasMore || problem) return null;
  return <More endedEarly={endedEarly} isLoading={isLoading} found={payments.length} more={pages.more} />;
}

function More({
  endedEarly,
  isLoading,
  found,
  more,
}: {
  endedEarly: boolean;
  isLoading: boolean;
  found: number;
  more(): void;
}) {
  return (
    <div class="more">
      <button type="button" disabled={isLoading} onClick={more}>
        {endedEarly ? 'Go on' : 'Show older payments'}
      </button>
      {endedEarly && (
        <p class="muted" role="status">
          {found === 0 ? 'Nothing found yet. ' : ''}Older payments were not searched so far.
        </p>
      )}
    </div>
  );
}

function Nothing({ filters, closeOrder }: { filters: Filters; closeOrder: (() => void) | undefined }) {
  const text = textOf(filters);
  if (isWholeKey(text)) {
    return (
      <EmptyState title="No payment has this key">
        A key that was issued and not paid with is in no list.{' '}
        <a href={hashOf('payment', text.toLowerCase())}>Look at the key</a>
      </EmptyState>
    );
  }
  if (isOnly(filters, 'reference')) {
    return (
      <EmptyState title={`No payment of the order “${filters.reference}”`}>
        Nobody has paid it yet, or its number is not complete.{' '}
        {closeOrder && (
          <button type="button" onClick={closeOrder}>
            Close this order…
          </button>
        )}
      </EmptyState>
    );
  }
  if (filters.kind === 'refund') {
    return (
      <EmptyState title={isOnly(filters, 'kind') ? 'No refunds yet' : 'No refund matches'}>
        A refund is found by the beginning of its key or of its transaction id. The page of a payment has its refunds.
      </EmptyState>
    );
  }
  if (filters.search !== '') {
    return (
      <EmptyState title={`Nothing found for “${filters.search}”`}>
        An order that nobody has paid is in no list. Choose an earlier “Claimed from” to search descriptions and
        metadata further back.{' '}
        {closeOrder && mayBeClosed(filters.search) && (
          <button type="button" onClick={closeOrder}>
            Close the order of this number…
          </button>
        )}
      </EmptyState>
    );
  }
  if (Object.values(filters).every((value) => value === '')) {
    return <EmptyState title="No payments yet">They appear here when a client pays for the first time.</EmptyState>;
  }
  return (
    <EmptyState title="No payment matches">
      <a href={hashOfFilters(NO_FILTERS)}>Show all payments</a>
    </EmptyState>
  );
}

/** Empty for a text that is none, such as an e-mail. */
const orderNumberIn = ({ reference, search }: Filters) => reference || (mayBeClosed(search) ? search : '');

/** The clients that own the payments which are shown. */
const clientsOf = (payments: readonly Payment[]) => payments.flatMap(({ client }) => client ?? []);

const isOnly = (filters: Filters, name: keyof Filters) =>
  filters[name] !== '' && Object.entries(filters).every(([other, value]) => other === name || value === '');

function captionOf({ kind, search }: Filters): string {
  const what = kind === 'refund' ? 'Refunds' : kind === 'all' ? 'Payments and refunds' : 'Payments';
  return search === '' ? `${what}, newest first` : `${what} that were found`;
}

/** The reason of a refund stands at the place of a payment's content. */
const AboutRefund = ({ refund: { refund } }: { refund: Refund }) => (
  <div class="content">
    <span class="muted">of the payment</span>
    <code class="transaction">{refund.payment}</code>
    {refund.reason !== null && <bdi>{clipped(refund.reason, MOST_REASON)}</bdi>}
  </div>
);

const COLUMNS: readonly Column<Payment>[] = [
  {
    title: 'Payment',
    cell: (payment) => <PaymentReference payment={payment} />,
  },
  {
    title: 'About',
    cell: (payment) => (isRefund(payment) ? <AboutRefund refund={payment} /> : <ContentInShort payment={payment} />),
  },
  {
    title: 'State',
    cell: (payment) => (
      <>
        <StatusBadge status={payment.state} />
        <PendingInShort payment={payment} />
      </>
    ),
  },
  {
    title: 'Amount',
    isNumber: true,
    cell: (payment) => <Money amount={signedAmountOf(payment)} currency={payment.currency} />,
  },
  { title: 'Claimed', cell: ({ claimedAt }) => <Time at={claimedAt} /> },
  { title: 'Processor', cell: ({ processor }) => <bdi>{processor}</bdi> },
  { title: 'Executions', isNumber: true, cell: ({ executions }) => executions },
];
