import { type Span, SpanKind, SpanStatusCode } from '@opentelemetry/api';
import type { CarryOut } from '../payments/execution.js';
import type { ProcessorClient } from '../payments/ports/processor.js';
import { decorated } from '../platform/decorated.js';
import { type Spans, TRANSACTION_ID } from './spans.js';

const RESULT = 'idempay.result';
const EXECUTION = 'idempay.execution';
const ORIGIN = 'idempay.origin';

const CALL = { kind: SpanKind.CLIENT };

/** The same processor, with a span for each call, which gets all arguments of the call. */
export function traceProcessor(spans: Spans, processor: ProcessorClient): ProcessorClient {
  const of = (transactionId: string) => ({ ...CALL, attributes: { [TRANSACTION_ID]: transactionId } });
  return decorated(processor, {
    charge:
      (next) =>
      (...call) =>
        spans.inside('payment.charge', of(call[0].transactionId), () => next(...call), noteAnswer),
    lookUp:
      (next) =>
      (...call) =>
        spans.inside('payment.look_up', CALL, () => next(...call), noteAnswer),
    end:
      (next) =>
      (...call) =>
        spans.inside('payment.end', of(call[0].transactionId), () => next(...call), noteAnswer),
    refund:
      (next) =>
      (...call) =>
        spans.inside('payment.refund', of(call[0].transactionId), () => next(...call), noteAnswer),
    lookUpRefund:
      (next) =>
      (...call) =>
        spans.inside('payment.look_up_refund', CALL, () => next(...call), noteAnswer),
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
