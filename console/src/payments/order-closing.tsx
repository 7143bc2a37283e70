import { useEffect, useRef, useState } from 'preact/hooks';
import type { Access } from '../access/session.js';
import { hashOf, navigate } from '../navigation/route.js';
import { Field } from '../parts/field.js';
import { FormDialog } from '../parts/form-dialog.js';
import type { Order } from './closing.js';
import { ClosingConfirmation } from './closing-confirmation.js';

interface Properties {
  readonly access: Access;
  /** The known members of the order. */
  readonly known: Partial<Order>;
  /** Clients that are offered before the others. */
  readonly offered?: readonly string[];
  close(): void;
}

/** Closes an order that has no payment yet, or whose last attempt was declined; then its payment is shown. */
export function OrderClosing({ access: { http, session, may }, known, offered = [], close }: Properties) {
  const [order, setOrder] = useState<Order>({ reference: '', attempt: '1', client: '', ...known });
  const [isConfirming, setConfirming] = useState(false);
  const isShown = useRef(true);
  useEffect(() => {
    return () => {
      isShown.current = false;
    };
  }, []);
  /** One's own order needs no name; a caller who may close any order names its client. */
  const namesClient = session.access === 'required' && may('operations');

  if (isConfirming) {
    return (
      <ClosingConfirmation
        http={http}
        closing={order}
        closed={(key) => {
          // A person who went elsewhere meanwhile stays there.
          if (!isShown.current) return;
          close();
          navigate(hashOf('payment', key));
        }}
        back={() => setConfirming(false)}
      />
    );
  }
  const field = (name: keyof Order) => ({
    value: order[name],
    set: (value: string) => setOrder({ ...order, [name]: value.trim() }),
  });
  return (
    <FormDialog
      title="Close an order"
      next="Close…"
      problemOf={() => problemOf(order, namesClient)}
      confirm={() => setConfirming(true)}
      back={close}
    >
      <p class="muted">
        For an order that was paid otherwise, or given up: nothing can charge it afterwards, however late it comes.
      </p>
      {namesClient && (
        <Field
          id="closing-client"
          label="Client"
          hint="key:shop"
          note="As the service knows it. An order of the same number of another client stays open."
          choices={[...new Set([...offered, ...session.clients])]}
          {...field('client')}
        />
      )}
      <Field id="closing-reference" label="Order number (reference)" hint="order-17" {...field('reference')} />
      <Field
        id="closing-attempt"
        label="Attempt"
        hint="1"
        note="1, or the one after the last declined."
        {...field('attempt')}
      />
    </FormDialog>
  );
}

function problemOf({ reference, attempt, client }: Order, namesClient: boolean): string | undefined {
  if (namesClient && client === '') return 'Say whose order it is.';
  if (reference === '') return 'Say which order it is.';
  return attempt === '' ? 'Say which attempt it is.' : undefined;
}
