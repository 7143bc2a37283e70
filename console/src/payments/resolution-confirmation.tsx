import { useState } from 'preact/hooks';
import { DeliberateField, useDeliberate } from '../parts/deliberate.js';
import { Dialog } from '../parts/dialog.js';
import { amountText } from '../parts/numbers.js';
import type { Payment, ProcessorAnswer } from './payment.js';
import { isRefund } from './refunds/refund.js';

interface Properties {
  readonly payment: Payment;
  readonly outcome: 'completed' | 'declined';
  readonly reason: string;
  /** The processor says something else. */
  readonly contradicted: ProcessorAnswer | undefined;
  send(): Promise<void>;
  close(): void;
}

/** The text before the sum, and the text after it. */
const WORDS = {
  payment: {
    completed: {
      before: 'The payer has paid',
      after: '. The money has moved once. From now on the payment counts as completed.',
    },
    declined: {
      before: 'The payer has not paid',
      after: '. No money has moved. From now on the payment counts as declined.',
    },
  },
  refund: {
    completed: {
      before: 'The payer got back',
      after: ', once. From now on the refund counts as completed.',
    },
    declined: {
      before: 'The payer did not get back',
      after:
        '. From now on the refund counts as declined, and the same money can be refunded again: if this refund arrives late, it is given back twice.',
    },
  },
} as const;

/** Repeats in words what will be final. Against the processor's answer the outcome must be typed. */
export function ResolutionConfirmation({ payment, outcome, reason, contradicted, send, close }: Properties) {
  const deliberate = useDeliberate(outcome);
  const [isSending, setSending] = useState(false);
  const isHeldBack = contradicted !== undefined && !deliberate.isTyped;
  const kind = isRefund(payment) ? 'refund' : 'payment';
  const words = WORDS[kind][outcome];
  const sum = `${amountText(payment.amount ?? '')} ${payment.currency}`;

  async function submit(event: SubmitEvent) {
    event.preventDefault();
    if (isHeldBack || isSending) return;
    setSending(true);
    await send();
  }

  return (
    <Dialog title={`Record this ${kind} as ${outcome}?`} close={close}>
      <form onSubmit={submit} class="confirmation">
        <p>
          {words.before} <strong>{sum}</strong> ({currencyName(payment.currency ?? '')}){words.after} This cannot be
          undone.
        </p>
        <p class="detail">
          <bdi>{reason}</bdi>
        </p>
        {outcome === 'declined' && payment.reference !== null && (
          <p>
            It lets the next attempt at the order{' '}
            <strong>
              <bdi>{payment.reference}</bdi>
            </strong>{' '}
            charge: a charge of this one that arrives late would be a second one.
          </p>
        )}
        {contradicted && (
          <>
            <p class="problem">
              The processor says something else: <strong>{contradicted.answer}</strong>.
            </p>
            <DeliberateField purpose="To record it all the same" deliberate={deliberate} />
          </>
        )}
        <div class="actions">
          <button type="button" onClick={close}>
            Cancel
          </button>
          <button
            type="submit"
            class={outcome === 'declined' ? 'danger' : 'primary'}
            disabled={isHeldBack || isSending}
          >
            {isSending ? 'Recording…' : `Record ${sum} as ${outcome}`}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

function currencyName(code: string): string {
  try {
    return new Intl.DisplayNames(undefined, { type: 'currency' }).of(code) ?? code;
  } catch {
    return code;
  }
}
