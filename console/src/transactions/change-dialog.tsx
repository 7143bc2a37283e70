import { useState } from 'preact/hooks';
import type { Http } from '../http/http.js';
import { ServiceError, sentenceOf } from '../http/service-error.js';
import { Dialog } from '../parts/dialog.js';
import { ErrorState } from '../parts/states.js';
import { Comparison } from './comparison.js';
import { changeStatus, isFinal, read, remove, STATUSES, type Status, type Transaction } from './transaction.js';

export type Wanted = 'status' | 'deletion';

interface Properties {
  readonly http: Http;
  /** The transaction that the operator saw in the table, and decided by. */
  readonly seen: Transaction;
  readonly wanted: Wanted;
  close(): void;
  changed(transaction: Transaction, sentence: string): void;
  gone(id: number, sentence: string): void;
}

/**
 * A change of exactly the transaction that the operator sees: it is sent with its tag. If the transaction has another status
 * now, nothing happens: both states are shown side by side, and the operator decides again on the newer one.
 */
export function ChangeDialog({ http, seen, wanted, close, changed, gone }: Properties) {
  const id = seen.transactionId;
  /** The base of the next request: first the transaction that was seen, after a conflict the one that was read then. */
  const [base, setBase] = useState(seen);
  const [status, setStatus] = useState<Status | ''>('');
  const [isSure, setSure] = useState(false);
  const [isBusy, setBusy] = useState(false);
  /** Why the last request did not end well. */
  const [failure, setFailure] = useState<Failure>();
  const words = wordsOf(wanted, id, status);
  const isClosed = wanted === 'status' && isFinal(base.status);
  const needsConsent = wanted === 'deletion' || (status !== '' && isFinal(status));
  const isReady = (wanted === 'deletion' || status !== '') && (!needsConsent || isSure) && !isBusy;

  async function send(): Promise<void> {
    setBusy(true);
    setFailure(undefined);
    try {
      if (wanted === 'deletion') {
        await remove(http, base);
        gone(id, `Transaction ${id} is deleted.`);
      } else if (status !== '') {
        changed(await changeStatus(http, base, status), `Transaction ${id} is ${status} now.`);
      }
      close();
    } catch (error) {
      await lookAgain(error);
    } finally {
      setBusy(false);
    }
  }

  /** After a refusal, or without an answer, the transaction is read again. */
  async function lookAgain(error: unknown): Promise<void> {
    const kind = kindOf(error);
    setSure(false);
    try {
      const now = await read(http, id);
      setFailure({ kind, sentence: sentenceOf(error) });
      if (now) {
        setBase(now);
        changed(now, '');
        if (now.status === status) setStatus('');
      } else {
        gone(id, `Transaction ${id} is not there any more${kind === 'unknown' ? '' : ': somebody else deleted it'}.`);
        close();
      }
    } catch (again) {
      setFailure({ kind: kind === 'unknown' ? 'unread' : 'refused', sentence: sentenceOf(again) });
    }
  }

  return (
    <Dialog title={words.title} isHeld={isBusy} close={close}>
      {failure && <FailureNote {...failure} isSame={base.etag === seen.etag} />}
      <Comparison seen={seen} now={base.etag === seen.etag ? undefined : base} />
      {isClosed ? (
        <p>{base.status} is final: the status cannot change any more.</p>
      ) : (
        <form
          class="change"
          onSubmit={(event) => {
            event.preventDefault();
            if (isReady) void send();
          }}
        >
          {wanted === 'status' && <StatusChoice now={base.status} chosen={status} choose={setStatus} />}
          {needsConsent && (
            <label class="consent">
              <input
                type="checkbox"
                checked={isSure}
                onChange={({ currentTarget }) => setSure(currentTarget.checked)}
              />
              {words.consent}
            </label>
          )}
          <div class="actions">
            <button type="button" disabled={isBusy} onClick={close}>
              Cancel
            </button>
            <button type="submit" class={wanted === 'deletion' ? 'danger' : 'primary'} disabled={!isReady}>
              {words.submit}
            </button>
          </div>
        </form>
      )}
      {isClosed && (
        <div class="actions">
          <button type="button" onClick={close}>
            Close
          </button>
        </div>
      )}
    </Dialog>
  );
}

/** `unknown`: no answer, but the transaction was read again. `unread`: that failed too. */
interface Failure {
  readonly kind: 'conflict' | 'refused' | 'unknown' | 'unread';
  readonly sentence: string;
}

/** The kind of result after a request that did not end well, before the transaction is read again. */
function kindOf(error: unknown): 'conflict' | 'refused' | 'unknown' {
  const isRefused = error instanceof ServiceError && error.isProven && error.status < 500;
  if (!isRefused) return 'unknown';
  return error.status === 412 || error.status === 409 ? 'conflict' : 'refused';
}

function wordsOf(wanted: Wanted, id: number, status: Status | '') {
  if (wanted === 'deletion') {
    return {
      title: `Delete transaction ${id}?`,
      consent: 'I want it gone for good. It cannot be brought back.',
      submit: 'Delete',
    };
  }
  return {
    title: `Status of transaction ${id}`,
    consent: `I know that ${status} is final: no other status can follow.`,
    submit: status === '' ? 'Change' : `Change to ${status.replace('_', ' ')}`,
  };
}

function FailureNote({ kind, sentence, isSame }: Failure & { isSame: boolean }) {
  if (kind === 'refused') return <ErrorState sentence={sentence} />;
  if (kind === 'unread') {
    return <ErrorState sentence={`It is not known whether your request changed it. ${sentence} Then look again.`} />;
  }
  const happened =
    kind === 'conflict'
      ? 'It was changed meanwhile, and your request changed nothing.'
      : `No answer says whether your request changed it (${sentence})`;
  const now = isSame ? 'It is now as you saw it.' : 'Below is what you saw, and what it is now.';
  return (
    <p class="conflict" role="alert">
      <bdi>{happened}</bdi> {now} Decide again.
    </p>
  );
}

function StatusChoice({ now, chosen, choose }: { now: Status; chosen: Status | ''; choose(status: Status): void }) {
  return (
    <fieldset>
      <legend>New status</legend>
      {STATUSES.filter((status) => status !== now).map((status) => (
        <label key={status}>
          <input type="radio" name="status" checked={status === chosen} onChange={() => choose(status)} />
          {status.replace('_', ' ')}
          {isFinal(status) && <span class="muted"> final</span>}
        </label>
      ))}
    </fieldset>
  );
}
