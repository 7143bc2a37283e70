import { useState } from 'preact/hooks';
import type { Access } from '../access/session.js';
import { DeliberateDialog } from '../parts/deliberate-dialog.js';
import { Note } from '../parts/states.js';
import { mayEndAttempt, type Scope, sendEnding } from './ending.js';
import type { Payment } from './payment.js';

interface Properties {
  readonly access: Access;
  readonly payment: Payment;
  /** An execution is at work: the service ends nothing before that is over. */
  readonly isAtWork: boolean;
  /** Reads the payment again: it was not ended, and may have changed. */
  look(): void;
  ended(sentence: string): void;
}

/** The button, while the payment is under way. The dialog stays open when the payment gets its outcome meanwhile: it says so then. */
export function PaymentEnding({ access, payment, isAtWork, look, ended }: Properties) {
  const [isOpen, setOpen] = useState(false);
  if (!access.may('payments:write', 'operations')) return null;
  const close = () => setOpen(false);
  return (
    <>
      {payment.state === 'PROCESSING' && !isAtWork && (
        <button type="button" onClick={() => setOpen(true)}>
          End this payment…
        </button>
      )}
      {isOpen && (
        <EndingConfirmation
          access={access}
          payment={payment}
          look={look}
          ended={(sentence) => {
            close();
            ended(sentence);
          }}
          back={close}
        />
      )}
    </>
  );
}

/** The result of an ending, above the payment that it led to. */
export function EndingNote({ sentence, dismiss }: { sentence: string | undefined; dismiss(): void }) {
  if (sentence === undefined) return null;
  return (
    <Note isDone dismiss={dismiss}>
      <p>
        <bdi>{sentence}</bdi>
      </p>
    </Note>
  );
}

function EndingConfirmation({
  access,
  payment,
  look,
  ended,
  back,
}: Omit<Properties, 'isAtWork'> & {
  back(): void;
}) {
  const [scope, setScope] = useState<Scope>('order');

  async function send(): Promise<string | undefined> {
    const result = await sendEnding(access.http, payment, scope);
    if (result.isEnded) {
      ended(result.sentence);
      return undefined;
    }
    look();
    return result.sentence;
  }

  return (
    <DeliberateDialog
      title="End this payment?"
      word="end"
      purpose="To end it"
      act={scope === 'attempt' ? 'End this attempt' : 'End this payment'}
      acting="Ending…"
      send={send}
      back={back}
    >
      <p>
        The processor is asked to end it. Then nothing that the payer was given can charge it any more
        <Consequence payment={payment} scope={scope} />
      </p>
      <p class="muted">If it was paid meanwhile, or cannot be ended now, nothing is ended, and you are told so.</p>
      {mayEndAttempt(payment, access) && (
        <label class="choice">
          <input
            type="checkbox"
            checked={scope === 'attempt'}
            onChange={(event) => setScope(event.currentTarget.checked ? 'attempt' : 'order')}
          />
          Only this attempt: another one may follow
        </label>
      )}
    </DeliberateDialog>
  );
}

/** The end of the sentence about what follows. */
function Consequence({ payment: { reference }, scope }: { payment: Payment; scope: Scope }) {
  if (reference === null) return <>. This cannot be undone.</>;
  const order = (
    <strong>
      <bdi>{reference}</bdi>
    </strong>
  );
  return scope === 'attempt' ? (
    <>, and another attempt at the order {order} may follow. The end of this one cannot be undone.</>
  ) : (
    <>
      , and the order {order} is closed: whoever pays it from now on is told that it was cancelled. This cannot be
      undone.
    </>
  );
}
