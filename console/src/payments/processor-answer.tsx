import { type Http, PROCESSOR_LIMIT_MS } from '../http/http.js';
import { Badge, type Tone } from '../parts/badge.js';
import { ErrorState, LoadingState } from '../parts/states.js';
import { Time } from '../parts/time.js';
import { type Asked, useAnswer } from '../parts/use-answer.js';
import type { ProcessorAnswer } from './payment.js';

type Meanings = Readonly<Record<ProcessorAnswer['answer'], { readonly tone: Tone; readonly text: string }>>;

const MEANINGS: Meanings = {
  succeeded: { tone: 'good', text: 'The processor says that it charged this payment.' },
  declined: { tone: 'bad', text: 'The processor says that it declined this payment: no money moved.' },
  pending: {
    tone: 'active',
    text: 'The processor waits for the payer, or for a bank: this payment may still be charged.',
  },
  'no record': { tone: 'warn', text: 'The processor has no record of this payment.' },
  unknown: { tone: 'plain', text: 'The processor gave no answer that decides. Ask it by other means.' },
};

const REFUND_MEANINGS: Meanings = {
  ...MEANINGS,
  succeeded: { tone: 'good', text: 'The processor says that it gave this money back.' },
  declined: { tone: 'bad', text: 'The processor says that it declined this refund: no money was given back.' },
  pending: {
    tone: 'active',
    text: 'The processor has accepted this refund, and takes time: the money may still be given back.',
  },
  'no record': { tone: 'warn', text: 'The processor has no record of this refund.' },
};

/** Asked on opening, on demand, and before an outcome is confirmed. It is only a look-up: nothing is sent and nothing is written. */
export function useProcessorAnswer(http: Http, key: string): Asked<ProcessorAnswer> {
  return useAnswer(
    async (signal) => {
      const path = `api/payments/${encodeURIComponent(key)}/processor-answer`;
      return (await http.ask<ProcessorAnswer>(path, { signal, limitMs: PROCESSOR_LIMIT_MS })).body;
    },
    [http, key],
  );
}

export function ProcessorAnswerPanel({ asked, of }: { asked: Asked<ProcessorAnswer>; of: 'payment' | 'refund' }) {
  const { answer, problem, isLoading, again } = asked;
  const meanings = of === 'refund' ? REFUND_MEANINGS : MEANINGS;
  const meaning = answer && (meanings[answer.answer] ?? meanings.unknown);
  return (
    <section class="processor-answer" aria-label="The processor’s latest answer" aria-live="polite">
      <div class="answer-head">
        <h3>The processor’s latest answer</h3>
        <button type="button" disabled={isLoading} onClick={again}>
          {isLoading ? 'Asking…' : 'Ask again'}
        </button>
      </div>
      {problem && <ErrorState sentence={problem} />}
      {!answer && !problem && <LoadingState what="the answer" />}
      {answer && meaning && (
        <>
          <p>
            <Badge tone={meaning.tone}>{answer.answer}</Badge> {meaning.text}
          </p>
          {answer.reason !== null && (
            <p class="detail">
              <bdi>{answer.reason}</bdi>
            </p>
          )}
          <p class="muted">
            <bdi>{answer.processor}</bdi>, asked <Time at={answer.askedAt} />
          </p>
        </>
      )}
    </section>
  );
}
