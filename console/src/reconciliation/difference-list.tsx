import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { hashOf } from '../navigation/route.js';
import { StatusBadge } from '../parts/badge.js';
import { Money } from '../parts/money.js';
import { countText } from '../parts/numbers.js';
import { type Column, Table } from '../parts/table.js';
import { Time } from '../parts/time.js';
import { isWholeKey } from '../payments/payment.js';
import type { Difference, Kind, SettledPayment } from './comparison.js';
import type { StatementRow } from './statement-row.js';

const PAGE = 50;

const TEXTS: Readonly<Record<Kind, { readonly title: string; readonly meaning: string }>> = {
  different: { title: 'Different', meaning: 'Both sides have the payment, but some of its fields differ.' },
  theirs: {
    title: 'Only with the processor',
    meaning:
      'Not settled with us on this day or one beside it. Open the payment: it may still be processing, and then wait for recovery or an operator.',
  },
  ours: {
    title: 'Only with us',
    meaning:
      'Completed with us, and not on this statement. A payment that was claimed just before midnight may be on the statement of the day before.',
  },
  duplicate: {
    title: 'Twice on the statement',
    meaning: 'Another line has the same reference or transaction id, and is the one that was compared.',
  },
};

interface Properties {
  readonly kind: Kind;
  readonly count: number;
  readonly shown: readonly Difference[];
  readonly day: string;
}

export function DifferenceList({ kind, count, shown }: Properties) {
  const [most, setMost] = useState(PAGE);
  const rows = shown.slice(0, most);
  const { title, meaning } = TEXTS[kind];
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

const keyOf = ({ ours, theirs }: Difference) => `${ours?.idempotencyKey ?? ''} ${theirs?.line ?? ''}`;

const line: Column<Difference> = {
  title: 'Line',
  isNumber: true,
  cell: ({ theirs }) => theirs && countText(theirs.line),
};
const ourPayment: Column<Difference> = {
  title: 'Payment',
  cell: ({ ours }) => ours && <Payment name={ours.idempotencyKey} transactionId={ours.transactionId} />,
};
const theirPayment: Column<Difference> = {
  title: 'Reference',
  cell: ({ theirs }) => theirs && <Payment name={theirs.reference} transactionId={theirs.transactionId} />,
};
const theirs: Column<Difference> = {
  title: 'With the processor',
  cell: ({ theirs, differs }) => theirs && <Theirs row={theirs} differs={differs} />,
};

const COLUMNS: Readonly<Record<Kind, readonly Column<Difference>[]>> = {
  different: [
    ourPayment,
    {
      title: 'With us',
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
  duplicate: [
    theirPayment,
    theirs,
    line,
    { title: 'Compared', isNumber: true, cell: ({ firstLine }) => firstLine && `line ${countText(firstLine)}` },
  ],
};

/** A key leads to its payment, a transaction id alone to those that have it. */
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
  const { amount, currency, status, state, reference, transactionId } = row;
  return (
    <Side differs={differs} reference={reference} transactionId={transactionId}>
      <Money amount={amount} currency={currency} />
      {state === 'OTHER' ? <bdi class="muted">{status}</bdi> : <StatusBadge status={state} />}
    </Side>
  );
}

/** Amount and state; ids only where they are what differs. */
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
      {differs.includes('reference') && <code>{reference}</code>}
      {differs.includes('transaction id') && <code>{transactionId}</code>}
    </div>
  );
}
