import { type Span, SpanKind, SpanStatusCode } from '@opentelemetry/api';
import type { CarryOut } from '../payments/execution.js';
import type { ProcessorClient } from '../payments/ports/processor.js';
import { decorated } from '../platform/decorated.js';
import { type Spans, TRANSACTION_ID } from './spans.js';

const RESULT = 'idempay.result';
const EXECUTION = 'idempay.execution';
const ORIGIN = 'idempay.origin';

const CALL = { kind: SpanKind.CLIENT };

/** The same processor, with a span for each call. */
export function traceProcessor(spans: Spans, processor: ProcessorClient): ProcessorClient {
  return decorated(processor, {
    charge: (next) => (charge) => {
      const options = { ...CALL, attributes: { [TRANSACTION_ID]: charge.transactionId } };
      return spans.inside('payment.charge', options, () => next(charge), noteAnswer);
    },
    lookUp: (next) => (reference, money, open) =>
      spans.inside('payment.look_up', CALL, () => next(reference, money, open), noteAnswer),
    end: (next) => (ending) => {
      const options = { ...CALL, attributes: { [TRANSACTION_ID]: ending.transactionId } };
      return spans.inside('payment.end', options, () => next(ending), noteAnswer);
    },
  });
}

/** Recovery has a trace for each payment; any other attempt belongs to the request that makes it. */
export function traceAttempts(spans: Spans, carryOut: CarryOut): CarryOut {
  return (claim, askedAt, origin, known) => {
    const attributes = { [TRANSACTION_ID]: claim.transactionId, [ORIGIN]: origin, [EXECUTION]: claim.epoch };
    if (origin !== 'recovery') {
      spans.recorded()?.setAttributes(attributes);
      return carryOut(claim, askedAt, origin, known);
    }
    const span = spans.beginRoot('payment.recovery', { attributes });
    return spans.during(span, () => carryOut(claim, askedAt, origin, known), noteState);
  };
}

/** Why it is not known is in the log: the words are the processor's, or the network's. */
function noteAnswer(span: Span, answer: { readonly state: string }): void {
  noteState(span, answer);
  if (answer.state === 'unknown' || answer.state === 'not sent') span.setStatus({ code: SpanStatusCode.ERROR });
}

function noteState(span: Span, { state }: { readonly state: string }): void {
  span.setAttribute(RESULT, state);
}
