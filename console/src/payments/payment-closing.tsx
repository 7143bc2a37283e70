import { useState } from 'preact/hooks';
import type { Access } from '../access/session.js';
import { ClosingConfirmation } from './closing-confirmation.js';
import { OrderClosing } from './order-closing.js';
import type { Payment } from './payment.js';

interface Properties {
  readonly access: Access;
  readonly payment: Payment;
  /** The other attempts at the same reference. Undefined until they are known. */
  readonly others: readonly Payment[] | undefined;
  closed(): void;
}

/** The button, while there is something to close. A dialog stays open when the payment is paid meanwhile: it says so then. */
export function PaymentClosing({ access, payment, others, closed }: Properties) {
  const [isOpen, setOpen] = useState<'payment' | 'order'>();
  if (!access.may('payments:write', 'operations')) return null;
  const { state, idempotencyKey, reference, attempt } = payment;
  const next = (attempt ?? 0) + 1;
  const close = () => setOpen(undefined);
  return (
    <>
      {state === 'PENDING' && (
        <button type="button" onClick={() => setOpen('payment')}>
          Close this payment…
        </button>
      )}
      {state === 'DECLINED' && reference !== null && isNewest(payment, others) && (
        <button type="button" onClick={() => setOpen('order')}>
          Close this order…
        </button>
      )}
      {isOpen === 'payment' && (
        <ClosingConfirmation
          http={access.http}
          closing={{ key: idempotencyKey }}
          closed={() => {
            close();
            closed();
          }}
          back={close}
        />
      )}
      {isOpen === 'order' && (
        <OrderClosing access={access} known={{ reference: reference ?? '', attempt: String(next) }} close={close} />
      )}
    </>
  );
}

function isNewest({ attempt }: Payment, others: readonly Payment[] | undefined): boolean {
  return others?.every((other) => (other.attempt ?? 0) <= (attempt ?? 0)) ?? false;
}
