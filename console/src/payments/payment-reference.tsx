import { hashOf } from '../navigation/route.js';
import { Badge } from '../parts/badge.js';
import { orderTextOf, type Payment } from './payment.js';
import { isRefund, type Refund } from './refunds/refund.js';

/** The cell of a list that names a payment or a refund, and leads to it. */
export function PaymentReference({ payment }: { payment: Payment }) {
  if (isRefund(payment)) return <RefundReference refund={payment} />;
  const { idempotencyKey, transactionId, client } = payment;
  const order = orderTextOf(payment);
  return (
    <div class="reference">
      <a class={order === undefined ? 'key' : 'order'} href={hashOf('payment', idempotencyKey)}>
        {order === undefined ? <code>{idempotencyKey}</code> : <bdi>{order}</bdi>}
      </a>
      {order !== undefined && <code class="muted transaction">{idempotencyKey}</code>}
      <code class="muted transaction">{transactionId}</code>
      {client !== undefined && <bdi class="muted transaction">{client}</bdi>}
    </div>
  );
}

/** Leads to its payment, which it is a part of. */
function RefundReference({ refund: { idempotencyKey, transactionId, client, refund } }: { refund: Refund }) {
  return (
    <div class="reference">
      <span>
        <Badge>refund</Badge>{' '}
        <a class="order" href={hashOf('payment', refund.payment, { refund: idempotencyKey })}>
          <bdi>{refund.name}</bdi>
        </a>
      </span>
      <code class="muted transaction">{idempotencyKey}</code>
      <code class="muted transaction">{transactionId}</code>
      {client !== undefined && <bdi class="muted transaction">{client}</bdi>}
    </div>
  );
}
