import { useEffect, useState } from 'preact/hooks';
import { hashOf, navigate, type ViewProperties } from '../navigation/route.js';
import { StatusBadge } from '../parts/badge.js';
import { durationText } from '../parts/duration.js';
import { Field } from '../parts/field.js';
import { Money } from '../parts/money.js';
import { EmptyState, ErrorState, LoadingState } from '../parts/states.js';
import { type Column, Table } from '../parts/table.js';
import { Time } from '../parts/time.js';
import type { Payment } from '../payments/payment.js';
import { PaymentReference } from '../payments/payment-reference.js';
import { signedAmountOf } from '../payments/refunds/refund.js';
import '../payments/payments.css';
import { BEGIN_MS, useSettlements } from './use-settlements.js';

/** Payments and refunds as they end, in the order of the feed; the newest is the first. */
export default function SettlementsView({ http, session, route, may }: ViewProperties) {
  const client = route.query.get('client') ?? '';
  const { settlements, problem } = useSettlements(http, client);
  const isOperator = may('operations');
  return (
    <div class="payments-view">
      <div class="view-head">
        <div>
          <a class="back" href={hashOf('payments')}>
            Payments
          </a>
          <h1>Settlements</h1>
        </div>
      </div>
      {isOperator && session.access === 'required' && <ClientFilter client={client} clients={session.clients} />}
      {!isOperator && <p class="muted note">These are your own settlements. All need the scope operations.</p>}
      {problem !== undefined && <ErrorState sentence={problem} />}
      {!settlements && problem === undefined && <LoadingState what="settlements" />}
      {settlements?.length === 0 && (
        <EmptyState title={`Nothing was settled in the last ${durationText(BEGIN_MS)}`}>
          The next payment or refund that ends appears here by itself.{' '}
          <a href={hashOf('payments')}>Show all payments</a>
        </EmptyState>
      )}
      {settlements && settlements.length > 0 && (
        <>
          <div class="panel payment-rows">
            <Table
              caption="Settlements, newest first"
              columns={COLUMNS}
              rows={settlements}
              keyOf={({ idempotencyKey }) => idempotencyKey}
            />
          </div>
          <p class="muted note">New ones appear by themselves. Older ones are in the list of payments.</p>
        </>
      )}
    </div>
  );
}

/** Applied with Enter or by its button, because a part of a name is another client. */
function ClientFilter({ client, clients }: { client: string; clients: readonly string[] }) {
  const [typed, setTyped] = useState(client);
  useEffect(() => setTyped(client), [client]);
  return (
    <form
      class="payment-filters"
      aria-label="Filters"
      onSubmit={(event) => {
        event.preventDefault();
        navigate(hashOf('settlements', '', { client: typed.trim() }), { replace: true });
      }}
    >
      <div>
        <Field id="settlements-client" label="Client" hint="all" choices={clients} value={typed} set={setTyped} />
      </div>
      <button type="submit">Apply</button>
    </form>
  );
}

const COLUMNS: readonly Column<Payment>[] = [
  { title: 'Payment', cell: (payment) => <PaymentReference payment={payment} /> },
  { title: 'Reason', cell: ({ reason }) => reason !== null && <bdi>{reason}</bdi> },
  { title: 'State', cell: ({ state }) => <StatusBadge status={state} /> },
  {
    title: 'Amount',
    isNumber: true,
    cell: (payment) => <Money amount={signedAmountOf(payment)} currency={payment.currency} />,
  },
  { title: 'Settled', cell: ({ settledAt }) => <Time at={settledAt} /> },
];
