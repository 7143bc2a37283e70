import type { ProcessorClient } from '../payments/ports/processor.js';
import { decorated } from '../platform/decorated.js';
import { type Exposition, labelOf } from './exposition.js';

/** A call ends within PROCESSOR_TIMEOUT_MS, 10 s if nothing else is set. */
const SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
const CHARGE_RESULTS = ['succeeded', 'declined', 'pending', 'unknown', 'not sent'] as const;
const LOOK_UP_RESULTS = ['succeeded', 'declined', 'pending', 'unknown', 'no record'] as const;
const END_RESULTS = ['succeeded', 'declined', 'unknown', 'cannot be ended', 'other contract'] as const;

/** Notes how long a call took, in seconds. */
type Note = (took: number) => void;

/** The same processor, with each call measured by its result. */
export function measureProcessor(exposition: Exposition, processor: ProcessorClient): ProcessorClient {
  const seconds = exposition.histogram(
    'idempay_processor_call_seconds',
    'Calls of the processor, by what was called and what it answered.',
    SECONDS,
  );
  const measured = <Result extends string>(call: string, results: readonly Result[]) =>
    Object.fromEntries(results.map((result) => [result, seconds.of({ call, result: labelOf(result) })])) as Record<
      Result,
      Note
    >;
  const charges = measured('charge', CHARGE_RESULTS);
  const lookUps = measured('look_up', LOOK_UP_RESULTS);
  const ends = measured('end', END_RESULTS);
  const refunds = measured('refund', CHARGE_RESULTS);
  const refundLookUps = measured('look_up_refund', LOOK_UP_RESULTS);

  exposition.gauge(
    'idempay_processor_up',
    '1 unless the last call of the processor that ended brought no answer, or an error of its server.',
    () => [[{}, processor.isDown ? 0 : 1]],
  );
  return decorated(processor, {
    charge: (next) => timed(next, charges),
    lookUp: (next) => timed(next, lookUps),
    end: (next) => timed(next, ends),
    refund: (next) => timed(next, refunds),
    lookUpRefund: (next) => timed(next, refundLookUps),
  });
}

/** The same call, with all of its arguments. */
function timed<Args extends readonly unknown[], State extends string, Answer extends { readonly state: State }>(
  call: (...args: Args) => Promise<Answer>,
  notes: Readonly<Record<State, Note>>,
): (...args: Args) => Promise<Answer> {
  return async (...args) => {
    const begun = performance.now();
    const answer = await call(...args);
    notes[answer.state]((performance.now() - begun) / 1000);
    return answer;
  };
}
