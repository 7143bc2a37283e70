import type { Http } from '../http/http.js';
import { DeliberateDialog } from '../parts/deliberate-dialog.js';
import { type Closing, isOrder, sendClosing } from './closing.js';

interface Properties {
  readonly http: Http;
  readonly closing: Closing;
  closed(key: string): void;
  back(): void;
}

export function ClosingConfirmation({ http, closing, closed, back }: Properties) {
  const what = isOrder(closing) ? 'order' : 'payment';

  async function send(): Promise<string | undefined> {
    const result = await sendClosing(http, closing);
    if (!result.isClosed) return result.sentence;
    closed(result.key);
    return undefined;
  }

  return (
    <DeliberateDialog
      title={`Close this ${what}?`}
      word="close"
      purpose="To close it"
      act={`Close this ${what}`}
      acting="Closing…"
      send={send}
      back={back}
    >
      <p>
        <Named closing={closing} /> will never be charged: whoever pays it from now on, also a late worker, a queue or a
        page that is still open, is told that it was cancelled. This cannot be undone.
      </p>
      <p class="muted">
        If its payment is under way, or waits for its payer, it is ended at the processor first. If it is paid already,
        or being paid at this moment, nothing is closed, and you are told so.
      </p>
    </DeliberateDialog>
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
