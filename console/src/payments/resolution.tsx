import { useState } from 'preact/hooks';
import type { Http } from '../http/http.js';
import { foreignAnswer } from '../http/service-error.js';
import { Countdown } from './countdown.js';
import { changesBetween, type Payment, type Seen, type Timeline } from './payment.js';
import { ProcessorAnswerPanel, useProcessorAnswer } from './processor-answer.js';
import { isRefund } from './refunds/refund.js';
import { ResolutionConfirmation } from './resolution-confirmation.js';
import { type ResolutionResult, refusalOf } from './resolution-note.js';

export type Outcome = 'completed' | 'declined';

const MOST_REASON_CODE_POINTS = 500;

/** The texts about a payment, and about a refund. */
const WORDS = {
  payment: {
    purpose: 'clients get it as the result of their payment',
    completed: 'Completed: the money has moved',
    declined: 'Declined: no money has moved',
  },
  refund: {
    purpose: 'clients get it as the result of this refund',
    completed: 'Completed: the money was given back',
    declined: 'Declined: no money was given back',
  },
} as const;

interface Properties {
  readonly http: Http;
  readonly seen: Seen;
  /** Reads the record as it is now, if it has no tag. */
  readonly readAgain?: () => Promise<Payment>;
  /** Undefined if the timeline could not be read: then the service says by itself that it is too early. */
  readonly next: Timeline['next'] | undefined;
  /** While a person decides, the shown payment must not change. */
  decide(isDeciding: boolean): void;
  /** It was sent: the payment is to be shown as it is now. */
  ended(result: ResolutionResult): void;
}

/**
 * The outcome that an operator found out. It is sent with the tag of the payment that was shown, so that a decision on outdated data is
 * refused. A second send (after a lost answer) is refused by the tag, and shows the first one's result.
 */
export function Resolution({ http, seen, readAgain, next, decide, ended }: Properties) {
  const key = seen.payment.idempotencyKey;
  const kind = isRefund(seen.payment) ? 'refund' : 'payment';
  const words = WORDS[kind];
  const asked = useProcessorAnswer(http, key);
  const [outcome, setOutcome] = useState<Outcome>();
  const [reason, setReason] = useState('');
  const [problem, setProblem] = useState<Problem>();
  /** The payment that the operator decides on. Undefined while no decision is open. */
  const [basis, setBasis] = useState<Seen>();
  /** Recovery looks again and again: what was filled in stays meanwhile. */
  const isAtWork = next?.what === 'under way';
  const isEarly = next !== undefined && !isAtWork && !isResolvable(next);

  function close() {
    setBasis(undefined);
    decide(false);
  }

  function open(event: SubmitEvent) {
    event.preventDefault();
    const found = problemOf(outcome, reason.trim());
    setProblem(found);
    if (found) return;
    setBasis(seen);
    decide(true);
  }

  async function send() {
    if (!basis || !outcome) return;
    let result: ResolutionResult = { kind: 'recorded', outcome };
    try {
      const changes = readAgain ? changesBetween(basis.payment, await readAgain()) : [];
      if (changes.length > 0) return finish({ kind: 'changed', of: kind, changes });
      const { status, body } = await http.ask<Payment>(`api/payments/${encodeURIComponent(key)}/resolution`, {
        method: 'POST',
        ...(basis.etag !== undefined && { headers: { 'If-Match': basis.etag } }),
        json: { outcome, reason: reason.trim() },
      });
      if (body.idempotencyKey !== key || body.state !== outcome.toUpperCase()) throw foreignAnswer(status);
    } catch (error) {
      result = await refusalOf(error, http, basis.payment);
      asked.again();
    }
    finish(result);
  }

  function finish(result: ResolutionResult) {
    close();
    ended(result);
  }

  return (
    <section class="panel resolution">
      <header>
        <h2>Resolve</h2>
      </header>
      <div class="resolution-body">
        <ProcessorAnswerPanel asked={asked} of={kind} />
        <form onSubmit={open} noValidate>
          <p class="muted">
            For an outcome that you found out yourself: on a bank statement, or at the processor. It is final, and{' '}
            {words.purpose}.
          </p>
          {isAtWork && <p role="status">An execution is at work on it: wait until that is over.</p>}
          {isEarly && <NotYet resolvableAt={next.resolvableAt} />}
          <fieldset disabled={isEarly} aria-describedby="resolution-problem">
            <legend>Outcome</legend>
            {(['completed', 'declined'] as const).map((value) => (
              <label key={value} class="choice">
                <input
                  type="radio"
                  name="outcome"
                  value={value}
                  checked={outcome === value}
                  onChange={() => setOutcome(value)}
                />
                {words[value]}
              </label>
            ))}
          </fieldset>
          <label for="reason">How it was found out</label>
          <input
            id="reason"
            disabled={isEarly}
            autocomplete="off"
            placeholder="on the bank statement of 20 November"
            value={reason}
            aria-describedby="resolution-problem"
            aria-invalid={problem?.of === 'reason'}
            onInput={(event) => setReason(event.currentTarget.value)}
          />
          <p id="resolution-problem" class="problem" role="alert">
            {problem?.sentence}
          </p>
          <div class="actions">
            <button type="submit" class="primary" disabled={isEarly || isAtWork}>
              Resolve…
            </button>
          </div>
        </form>
      </div>
      {basis && outcome && (
        <ResolutionConfirmation
          http={http}
          payment={basis.payment}
          outcome={outcome}
          reason={reason.trim()}
          send={send}
          close={close}
        />
      )}
    </section>
  );
}

/**
 * Decides by the service's clock. For a payment that waits at the processor, or is ended there, the next step does not change, so the
 * browser's clock decides; the service refuses an early resolution, and says from when on it is possible.
 */
function isResolvable({ what, resolvableAt }: Timeline['next']): boolean {
  if (what !== 'pending' && what !== 'ending') return what === 'operator';
  return resolvableAt !== null && Date.parse(resolvableAt) <= Date.now();
}

function NotYet({ resolvableAt }: { resolvableAt: string | null }) {
  return (
    <p role="status">
      The service may still find the outcome out by itself, so it accepts no resolution yet.
      {resolvableAt !== null && (
        <>
          {' '}
          It accepts one from <Countdown to={resolvableAt} />
        </>
      )}
    </p>
  );
}

interface Problem {
  readonly of: 'outcome' | 'reason';
  readonly sentence: string;
}

function problemOf(outcome: Outcome | undefined, reason: string): Problem | undefined {
  if (!outcome) return { of: 'outcome', sentence: 'Choose the outcome.' };
  if (reason === '') {
    return { of: 'reason', sentence: 'Say how the outcome was found out: it is kept with the payment.' };
  }
  if ([...reason].length <= MOST_REASON_CODE_POINTS) return undefined;
  return { of: 'reason', sentence: `Say it in at most ${MOST_REASON_CODE_POINTS} characters.` };
}
