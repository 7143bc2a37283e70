import { useState } from 'preact/hooks';
import type { Http } from '../http/http.js';
import { DeliberateField, useDeliberate } from '../parts/deliberate.js';
import { Dialog } from '../parts/dialog.js';
import { amountText } from '../parts/numbers.js';
import { LoadingState } from '../parts/states.js';
import { Time } from '../parts/time.js';
import type { Payment, ProcessorAnswer } from './payment.js';
import { useProcessorAnswer } from './processor-answer.js';
import { isRefund } from './refunds/refund.js';

interface Properties {
  readonly http: Http;
  readonly payment: Payment;
  readonly outcome: 'completed' | 'declined';
  readonly reason: string;
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

/**
 * Repeats in words what will be final, and asks the processor once more, because the answer next to the form may be old. Against its answer,
 * or without one, the outcome must be typed.
 */
export function ResolutionConfirmation({ http, payment, outcome, reason, send, close }: Properties) {
  const deliberate = useDeliberate(outcome);
  const [isSending, setSending] = useState(false);
  const { answer, problem, isLoading } = useProcessorAnswer(http, payment.idempotencyKey);
  const contradicted = contradictionOf(answer, outcome);
  const needsWord = contradicted !== undefined || problem !== undefined;
  const isHeldBack = isLoading || (needsWord && !deliberate.isTyped);
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
    <Dialog title={`Record this ${kind} as ${outcome}?`} isHeld={isSending} close={close}>
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
        {isLoading && <LoadingState what="the processor’s answer" />}
        {needsWord && (
          <>
            {contradicted && (
              <p class="problem">
                The processor says something else: <strong>{contradicted.answer}</strong> (asked{' '}
                <Time at={contradicted.askedAt} />
                ).
              </p>
            )}
            {problem !== undefined && (
              <p class="problem">
                The processor’s answer did not arrive: <bdi>{problem}</bdi>
              </p>
            )}
            <DeliberateField purpose="To record it all the same" deliberate={deliberate} />
          </>
        )}
        <div class="actions">
          <button type="button" disabled={isSending} onClick={close}>
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

/** The processor's answer, if it contradicts the outcome of the operator. */
function contradictionOf(
  answer: ProcessorAnswer | undefined,
  outcome: Properties['outcome'],
): ProcessorAnswer | undefined {
  if (!answer) return undefined;
  const contradicting = outcome === 'completed' ? ['declined', 'pending', 'no record'] : ['succeeded', 'pending'];
  return contradicting.includes(answer.answer) ? answer : undefined;
}

function currencyName(code: string): string {
  try {
    return new Intl.DisplayNames(undefined, { type: 'currency' }).of(code) ?? code;
  } catch {
    return code;
  }
}
