import { type Difference, GROUPS, type Kind, type SettledPayment, type StatementRow } from '@idempay/statements';
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { hashOf } from '../navigation/route.js';
import { StatusBadge } from '../parts/badge.js';
import { Money } from '../parts/money.js';
import { countText } from '../parts/numbers.js';
import { type Column, Table } from '../parts/table.js';
import { Time } from '../parts/time.js';
import { isWholeKey } from '../payments/payment.js';

const PAGE = 50;

interface Properties {
  readonly kind: Kind;
  readonly count: number;
  readonly shown: readonly Difference[];
}

export function DifferenceList({ kind, count, shown }: Properties) {
  const [most, setMost] = useState(PAGE);
  const rows = shown.slice(0, most);
  const { title, meaning } = GROUPS[kind];
  return (
    <section class="panel differences">
      <header>
        <h3>
          {title} <span class="muted">{countText(count)}</span>
        </h3>
      </header>
      <p class="muted">{meaning}</p>
      <Table caption={title} columns={COLUMNS[kind]} rows={rows} keyOf={keyOf} />
      {rows.length < shown.length && (
        <div class="more">
          <button type="button" onClick={() => setMost(most + PAGE)}>
            Show more
          </button>
        </div>
      )}
      {rows.length === shown.length && count > shown.length && (
        <p class="muted">{countText(count - shown.length)} more are in the file that you can download.</p>
      )}
    </section>
  );
}

const keyOf = ({ ours, theirs, unread }: Difference) =>
  `${ours?.idempotencyKey ?? ''} ${theirs?.line ?? unread?.line ?? ''}`;

const line: Column<Difference> = {
  title: 'Line',
  isNumber: true,
  cell: ({ theirs, unread }) => countText(theirs?.line ?? unread?.line ?? 0),
};
const ourPayment: Column<Difference> = {
  title: 'Payment',
  cell: ({ ours }) => ours && <OurPayment payment={ours} />,
};
const theirPayment: Column<Difference> = {
  title: 'Reference',
  cell: ({ theirs }) =>
    theirs && <Payment name={theirs.refund || theirs.reference || theirs.order} transactionId={theirs.transactionId} />,
};
const theirs: Column<Difference> = {
  title: 'At the processor',
  cell: ({ theirs, differs }) => theirs && <Theirs row={theirs} differs={differs} />,
};

const PAYMENT_COLUMNS = {
  different: [
    ourPayment,
    {
      title: 'In Idempay',
      cell: ({ ours, differs }) => ours && <Ours payment={ours} differs={differs} />,
    },
    theirs,
    { title: 'Differs', cell: ({ differs }) => differs.join(', ') },
    line,
  ],
  theirs: [theirPayment, theirs, line],
  ours: [
    ourPayment,
    { title: 'Amount', isNumber: true, cell: ({ ours }) => ours && <Money {...ours} /> },
    { title: 'Claimed', cell: ({ ours }) => <Time at={ours?.claimedAt} /> },
    { title: 'Settled', cell: ({ ours }) => <Time at={ours?.settledAt} /> },
  ],
  unread: [
    ourPayment,
    { title: 'Amount', isNumber: true, cell: ({ ours }) => ours && <Money {...ours} /> },
    { title: 'Problem', cell: ({ unread }) => <bdi>{unread?.problem}</bdi> },
    line,
  ],
  otherDay: [
    ourPayment,
    { title: 'Amount', isNumber: true, cell: ({ ours }) => ours && <Money {...ours} /> },
    { title: 'Settled', cell: ({ ours }) => <Time at={ours?.settledAt} /> },
    line,
  ],
  duplicate: [
    theirPayment,
    theirs,
    line,
    { title: 'Compared', isNumber: true, cell: ({ firstLine }) => firstLine && `line ${countText(firstLine)}` },
  ],
} satisfies Partial<Record<Kind, readonly Column<Difference>[]>>;

const COLUMNS: Readonly<Record<Kind, readonly Column<Difference>[]>> = {
  ...PAYMENT_COLUMNS,
  refundOtherDay: PAYMENT_COLUMNS.otherDay,
  refundDifferent: PAYMENT_COLUMNS.different,
  refundTheirs: PAYMENT_COLUMNS.theirs,
  refundOurs: PAYMENT_COLUMNS.ours,
  refundUnread: PAYMENT_COLUMNS.unread,
  refundDuplicate: PAYMENT_COLUMNS.duplicate,
};

function OurPayment({ payment }: { payment: SettledPayment }) {
  const { idempotencyKey, transactionId, reference, attempt, refund } = payment;
  return (
    <>
      {reference !== null && (
        <div>
          <bdi>{reference}</bdi>
          {attempt !== null && attempt > 1 && <span class="muted"> attempt {attempt}</span>}
        </div>
      )}
      {refund && (
        <div>
          <span class="muted">refund</span> <bdi>{refund.name}</bdi>
        </div>
      )}
      <Payment name={idempotencyKey} transactionId={transactionId} />
    </>
  );
}

/** A key leads to its payment, a transaction id alone to the payments that have it. */
function Payment({ name, transactionId }: { name: string; transactionId: string }) {
  return (
    <div class="reference">
      {isWholeKey(name) ? (
        <a class="key" href={hashOf('payment', name)}>
          <code>{name}</code>
        </a>
      ) : (
        <code>
          <bdi>{name}</bdi>
        </code>
      )}
      {transactionId !== '' &&
        (isWholeKey(name) ? (
          <code class="muted transaction">{transactionId}</code>
        ) : (
          <a class="transaction" href={hashOf('payments', '', { find: transactionId })}>
            <code>{transactionId}</code>
          </a>
        ))}
    </div>
  );
}

function Ours({ payment, differs }: { payment: SettledPayment; differs: readonly string[] }) {
  const { amount, currency, state, idempotencyKey, transactionId } = payment;
  return (
    <Side differs={differs} reference={idempotencyKey} transactionId={transactionId}>
      <Money amount={amount} currency={currency} />
      <StatusBadge status={state} />
    </Side>
  );
}

function Theirs({ row, differs }: { row: StatementRow; differs: readonly string[] }) {
  const { amount, currency, status, state, reference, order, transactionId } = row;
  return (
    <Side differs={differs} reference={reference || order} transactionId={transactionId}>
      {amount !== '' && <Money amount={amount} currency={currency} />}
      {state === 'OTHER' ? <bdi class="muted">{status}</bdi> : <StatusBadge status={state} />}
    </Side>
  );
}

/** Amount and state; ids only if they differ. */
function Side({
  differs,
  reference,
  transactionId,
  children,
}: {
  differs: readonly string[];
  reference: string;
  transactionId: string;
  children: ComponentChildren;
}) {
  return (
    <div class="side">
      {children}
      {differs.includes('key') && <code>{reference}</code>}
      {differs.includes('transaction id') && <code>{transactionId}</code>}
    </div>
  );
}
