import type { Http } from '../http/http.js';
import { mayHaveArrived, ServiceError, sentenceOf } from '../http/service-error.js';
import { Note } from '../parts/states.js';
import { Time } from '../parts/time.js';
import { Countdown } from './countdown.js';
import { changesBetween, type Payment } from './payment.js';
import { seePayment } from './use-payment.js';

/** How a resolution ended. */
export type ResolutionResult =
  | { readonly kind: 'recorded'; readonly outcome: string }
  | { readonly kind: 'changed'; readonly of: 'payment' | 'refund'; readonly changes: ReturnType<typeof changesBetween> }
  | { readonly kind: 'later'; readonly sentence: string; readonly at: number }
  | { readonly kind: 'other'; readonly sentence: string };

/** Above the payment as it is now, until a person has read it. */
export function ResolutionNote({ result, dismiss }: { result: ResolutionResult; dismiss(): void }) {
  return (
    <Note isDone={result.kind === 'recorded'} dismiss={dismiss}>
      <Content result={result} />
    </Note>
  );
}

function Content({ result }: { result: ResolutionResult }) {
  switch (result.kind) {
    case 'recorded':
      return <p>Recorded as {result.outcome}. Clients get this result from now on.</p>;
    case 'changed':
      return (
        <>
          <p>
            Nothing was recorded: the {result.of} changed while you decided. Look at it, and decide again if it is still
            open.
          </p>
          <ul class="changes">
            {result.changes.map(({ name, before, now }) => (
              <li key={name}>
                {name}:{' '}
                <del>
                  <Value text={before} />
                </del>{' '}
                → <Value text={now} />
              </li>
            ))}
          </ul>
        </>
      );
    case 'later':
      return (
        <>
          <p>
            <bdi>{result.sentence}</bdi>
          </p>
          <p>
            Not before <Countdown to={result.at} />
          </p>
        </>
      );
    case 'other':
      return (
        <p>
          <bdi>{result.sentence}</bdi>
        </p>
      );
  }
}

/** A time is shown as one. */
function Value({ text }: { text: string }) {
  return /^\d{4}-\d\d-\d\dT/.test(text) ? <Time at={text} /> : <bdi>{text}</bdi>;
}

/** Why it was not recorded, and what to do now. */
export async function refusalOf(error: unknown, http: Http, before: Payment): Promise<ResolutionResult> {
  if (mayHaveArrived(error)) {
    return {
      kind: 'other',
      sentence: `${sentenceOf(error)} It may have been recorded: look at the state of the payment.`,
    };
  }
  if (!(error instanceof ServiceError)) return { kind: 'other', sentence: sentenceOf(error) };
  const seconds = Number(error.headers.get('retry-after') ?? Number.NaN);
  if (error.status === 409 && !Number.isNaN(seconds)) {
    return { kind: 'later', sentence: error.message, at: Date.now() + seconds * 1_000 };
  }
  if (error.status === 412) {
    const now = await seePayment(http, before.idempotencyKey).catch(() => undefined);
    if (now) return { kind: 'changed', of: 'payment', changes: changesBetween(before, now.payment) };
  }
  return { kind: 'other', sentence: error.message };
}
