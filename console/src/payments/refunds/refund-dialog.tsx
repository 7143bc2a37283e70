import { useState } from 'preact/hooks';
import { DeliberateDialog } from '../../parts/deliberate-dialog.js';
import { Field } from '../../parts/field.js';
import { FormDialog } from '../../parts/form-dialog.js';
import { amountText } from '../../parts/money.js';
import type { Payment } from '../payment.js';
import type { Refund } from './refund.js';
import type { RefundRequest } from './send-refund.js';

/** Digits, with a point before the decimals; the service judges the rest. */
const AMOUNT = /^\d+(?:\.\d+)?$/;

interface Properties {
  readonly payment: Payment;
  readonly request: RefundRequest;
  /** It may have been made: then only the same may be sent again. */
  readonly isFixed: boolean;
  /** Refunds of other names that are under way. */
  readonly others: readonly Refund[];
  change(changes: Partial<RefundRequest>): void;
  /** Resolves to why nothing is known to have been given back; undefined if it was made. */
  send(): Promise<string | undefined>;
  close(): void;
}

/** Asks for a refund, and then again for a word that must be typed. */
export function RefundDialog(properties: Properties) {
  const [isConfirming, setConfirming] = useState(false);
  return isConfirming ? (
    <RefundConfirmation {...properties} close={() => setConfirming(false)} />
  ) : (
    <RefundForm {...properties} confirm={() => setConfirming(true)} />
  );
}

function RefundForm({ payment, request, isFixed, others, change, confirm, close }: Properties & { confirm(): void }) {
  const field = (name: keyof RefundRequest) => ({
    id: `refund-${name}`,
    value: request[name],
    isFixed,
    set: (value: string) => change({ [name]: name === 'reason' ? value : value.trim() }),
  });
  return (
    <FormDialog
      title="Refund this payment"
      next={isFixed ? 'Send again…' : 'Refund…'}
      problemOf={() => problemOf(request)}
      confirm={confirm}
      back={close}
    >
      {isFixed ? (
        <Unclear />
      ) : (
        <p class="muted">
          The payment, or a part of it, goes back to its payer, through the processor that charged it.
        </p>
      )}
      {others.length > 0 && <UnderWay refunds={others} />}
      <Field
        label="Name of this refund"
        hint="order-17-line-2"
        note="Your own, with a number, such as the one of the return. It makes the refund happen once: the same name gives the money back once, however often it is sent, and another name is another refund."
        {...field('name')}
      />
      <Field label={`Amount in ${payment.currency}`} hint="12.50" {...field('amount')} />
      <Field
        label="Reason"
        hint="returned"
        note="For the processor, and kept with the refund. It may be left out."
        {...field('reason')}
      />
    </FormDialog>
  );
}

function RefundConfirmation({ payment, request: { name, amount, reason }, send, close }: Properties) {
  const sum = `${amountText(amount)} ${payment.currency}`;
  return (
    <DeliberateDialog
      title={`Refund ${sum}?`}
      word="refund"
      purpose="To give it back"
      act={`Give back ${sum}`}
      acting="Giving back…"
      send={send}
      back={close}
    >
      <p>
        Of this payment of {amountText(payment.amount ?? '')} {payment.currency}, <strong>{sum}</strong> goes back to
        its payer, as the refund{' '}
        <strong>
          <bdi>{name}</bdi>
        </strong>
        . This cannot be undone.
      </p>
      {reason !== '' && (
        <p class="detail">
          <bdi>{reason}</bdi>
        </p>
      )}
    </DeliberateDialog>
  );
}

const Unclear = () => (
  <p class="note warn">
    It is not known yet if this refund was made. Its name and its amount stay as they are: if it is sent again, nothing
    is given back twice.
  </p>
);

function UnderWay({ refunds }: { refunds: readonly Refund[] }) {
  return (
    <p class="note warn">
      {refunds.length === 1 ? 'Another refund is' : 'Other refunds are'} under way:{' '}
      {refunds.map(({ refund: { name }, amount, currency }, index) => (
        <>
          {index > 0 && ', '}
          <bdi>{name}</bdi> ({amountText(amount ?? '')} {currency})
        </>
      ))}
      . If you mean {refunds.length === 1 ? 'it' : 'one of these'}, send it again by its own name.
    </p>
  );
}

function problemOf({ name, amount }: RefundRequest): string | undefined {
  if (name === '') return 'Name the refund.';
  return AMOUNT.test(amount) ? undefined : 'Write the amount in digits, with a point before the decimals.';
}
