import { LAST_ATTEMPT } from '@idempay/client';
import { useState } from 'preact/hooks';
import type { Access } from '../access/session.js';
import type { Asked } from '../parts/use-answer.js';
import { ClosingConfirmation } from './closing-confirmation.js';
import { OrderClosing } from './order-closing.js';
import type { Payment } from './payment.js';

interface Properties {
  readonly access: Access;
  readonly payment: Payment;
  /** The other attempts at the same reference. */
  readonly others: Asked<readonly Payment[]>;
  closed(): void;
}

/** The button, while there is something to close. A dialog stays open when the payment is paid meanwhile: it says so then. */
export function PaymentClosing({ access, payment, others, closed }: Properties) {
  const [isOpen, setOpen] = useState<'payment' | 'order'>();
  if (!access.may('payments:write', 'operations')) return null;
  const { state, idempotencyKey, reference, attempt, client } = payment;
  const next = (attempt ?? 0) + 1;
  const close = () => setOpen(undefined);
  return (
    <>
      {state === 'PENDING' && (
        <button type="button" onClick={() => setOpen('payment')}>
          Close this payment…
        </button>
      )}
      {state === 'DECLINED' && reference !== null && next <= LAST_ATTEMPT && isNewest(payment, others) && (
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
        <OrderClosing
          access={access}
          known={{ reference: reference ?? '', attempt: String(next), client: client ?? '' }}
          close={close}
        />
      )}
    </>
  );
}

/** False as well while the others are not known. */
function isNewest({ attempt }: Payment, { answer, problem }: Asked<readonly Payment[]>): boolean {
  if (problem !== undefined || !answer) return false;
  return answer.every((other) => (other.attempt ?? 0) <= (attempt ?? 0));
}
