import { useState } from 'preact/hooks';
import { DeliberateDialog } from '../../parts/deliberate-dialog.js';
import { Dialog } from '../../parts/dialog.js';
import { Field } from '../../parts/field.js';
import { FormDialog } from '../../parts/form-dialog.js';
import { amountText } from '../../parts/numbers.js';
import { ErrorState, LoadingState } from '../../parts/states.js';
import type { Asked } from '../../parts/use-answer.js';
import type { Payment } from '../payment.js';
import { leftOf, type Refund } from './refund.js';
import type { RefundRequest } from './send-refund.js';
import type { Basis } from './use-refund-request.js';

const TITLE = 'Refund this payment';
/** Digits, with a point before the decimals; the service judges the rest. */
const AMOUNT = /^\d+(?:\.\d+)?$/;

interface Properties {
  /** As the page shows it now. */
  readonly payment: Payment;
  /** As it was when the form was opened. */
  readonly basis: Asked<Basis>;
  readonly request: RefundRequest;
  /** It may have been made: then only the same may be sent again. */
  readonly isFixed: boolean;
  /** Refunds of other names that are under way. */
  readonly others: readonly Refund[];
  change(changes: Partial<RefundRequest>): void;
  /** Reads the payment and its refunds again. */
  look(): void;
  /** Resolves to why nothing is known to have been given back; undefined if it was made. */
  send(): Promise<string | undefined>;
  close(): void;
}

/** Asks for a refund, and then again for a word that must be typed. */
export function RefundDialog(properties: Properties) {
  const { basis, look, close } = properties;
  const [isConfirming, setConfirming] = useState(false);
  if (!basis.answer) return <Opening basis={basis} close={close} />;
  if (isConfirming) {
    return <RefundConfirmation {...properties} opened={basis.answer.payment} close={() => setConfirming(false)} />;
  }
  return (
    <RefundForm
      {...properties}
      confirm={() => {
        // Another person may have refunded something since the form was opened: the confirmation says so.
        look();
        setConfirming(true);
      }}
    />
  );
}

/** Until the payment and its refunds are read, nothing can be decided. */
function Opening({ basis: { problem, again }, close }: Pick<Properties, 'basis' | 'close'>) {
  return (
    <Dialog title={TITLE} close={close}>
      {problem === undefined ? (
        <LoadingState what="the payment as it is now" />
      ) : (
        <ErrorState sentence={problem} action={{ label: 'Try again', run: again }} />
      )}
    </Dialog>
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
      title={TITLE}
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

function RefundConfirmation({
  payment,
  opened,
  request: { name, amount, reason },
  isFixed,
  send,
  close,
}: Properties & { readonly opened: Payment }) {
  const sum = `${amountText(amount)} ${payment.currency}`;
  const [before, now] = [leftOf(opened), leftOf(payment)];
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
      {!isFixed && before !== now && (
        <p class="note warn" role="status">
          Since you opened this form, what is left has changed from {amountText(before)} to {amountText(now)}{' '}
          {payment.currency}. Look at the refunds before you give back {sum}.
        </p>
      )}
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
