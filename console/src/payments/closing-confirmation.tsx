import { useState } from 'preact/hooks';
import type { Http } from '../http/http.js';
import { DeliberateField, useDeliberate } from '../parts/deliberate.js';
import { Dialog } from '../parts/dialog.js';
import { type Closing, isOrder, sendClosing } from './closing.js';

interface Properties {
  readonly http: Http;
  readonly closing: Closing;
  closed(key: string): void;
  back(): void;
}

/** Says what will be final, and wants it typed. A refusal is shown here, because it says what to do instead. */
export function ClosingConfirmation({ http, closing, closed, back }: Properties) {
  const deliberate = useDeliberate('close');
  const [refusal, setRefusal] = useState<string>();
  const [isSending, setSending] = useState(false);
  const what = isOrder(closing) ? 'order' : 'payment';

  async function submit(event: SubmitEvent) {
    event.preventDefault();
    if (!deliberate.isTyped || isSending) return;
    setSending(true);
    setRefusal(undefined);
    const result = await sendClosing(http, closing);
    setSending(false);
    if (result.isClosed) closed(result.key);
    else setRefusal(result.sentence);
  }

  return (
    <Dialog title={`Close this ${what}?`} close={back}>
      <form onSubmit={submit} class="confirmation">
        <p>
          <Named closing={closing} /> will never be charged: whoever pays it from now on, also a late worker, a queue or
          a page that is still open, is told that it was cancelled. This cannot be undone.
        </p>
        <p class="muted">
          If its payment is under way, or waits for its payer, it is ended at the processor first. If it is paid
          already, or being paid at this moment, nothing is closed, and you are told so.
        </p>
        <DeliberateField purpose="To close it" deliberate={deliberate} />
        <p class="problem" role="alert">
          {refusal !== undefined && <bdi>{refusal}</bdi>}
        </p>
        <div class="actions">
          <button type="button" onClick={back}>
            Back
          </button>
          <button type="submit" class="danger" disabled={!deliberate.isTyped || isSending}>
            {isSending ? 'Closing…' : `Close this ${what}`}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

function Named({ closing }: { closing: Closing }) {
  if (!isOrder(closing)) {
    return (
      <>
        The payment with the key <code>{closing.key}</code>
      </>
    );
  }
  const { reference, attempt, client } = closing;
  return (
    <>
      The order{' '}
      <strong>
        <bdi>{reference}</bdi>
      </strong>
      {client !== '' && (
        <>
          {' '}
          of the client{' '}
          <strong>
            <bdi>{client}</bdi>
          </strong>
        </>
      )}
      {attempt !== '1' && `, whose attempt ${attempt} would be the next,`}
    </>
  );
}
