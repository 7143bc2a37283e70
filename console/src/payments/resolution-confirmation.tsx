import { useState } from 'preact/hooks';
import { DeliberateField, useDeliberate } from '../parts/deliberate.js';
import { Dialog } from '../parts/dialog.js';
import { amountText } from '../parts/money.js';
import type { Payment, ProcessorAnswer } from './payment.js';

interface Properties {
  readonly payment: Payment;
  readonly outcome: 'completed' | 'declined';
  readonly reason: string;
  /** The processor says something else. */
  readonly contradicted: ProcessorAnswer | undefined;
  send(): Promise<void>;
  close(): void;
}

/** Repeats in words what will be final. Against the processor's answer the outcome must be typed. */
export function ResolutionConfirmation({ payment, outcome, reason, contradicted, send, close }: Properties) {
  const deliberate = useDeliberate(outcome);
  const [isSending, setSending] = useState(false);
  const isHeldBack = contradicted !== undefined && !deliberate.isTyped;
  const sum = `${amountText(payment.amount ?? '')} ${payment.currency}`;

  async function submit(event: SubmitEvent) {
    event.preventDefault();
    if (isHeldBack || isSending) return;
    setSending(true);
    await send();
  }

  return (
    <Dialog title={`Record this payment as ${outcome}?`} close={close}>
      <form onSubmit={submit} class="confirmation">
        <p>
          {outcome === 'completed' ? 'The payer has paid ' : 'The payer has not paid '}
          <strong>{sum}</strong> ({currencyName(payment.currency ?? '')}).{' '}
          {outcome === 'completed'
            ? 'The money has moved once. From now on the payment counts as completed.'
            : 'No money has moved. From now on the payment counts as declined.'}{' '}
          This cannot be undone.
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
