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
  const idOf = ({ transactionId }: { readonly transactionId: string }) => transactionId;

  /** The same call, with all of its arguments. `transactionIdOf` reads the transaction id from the first one. */
  function traced<Args extends readonly unknown[], Answer extends { readonly state: string }>(
    name: string,
    call: (...args: Args) => Promise<Answer>,
    transactionIdOf?: (first: Args[0]) => string,
  ): (...args: Args) => Promise<Answer> {
    return (...args) => {
      const attributes = transactionIdOf && { [TRANSACTION_ID]: transactionIdOf(args[0]) };
      return spans.inside(name, { ...CALL, ...(attributes && { attributes }) }, () => call(...args), noteAnswer);
    };
  }

  return decorated(processor, {
    charge: (next) => traced('payment.charge', next, idOf),
    lookUp: (next) => traced('payment.look_up', next),
    end: (next) => traced('payment.end', next, idOf),
    refund: (next) => traced('payment.refund', next, idOf),
    lookUpRefund: (next) => traced('payment.look_up_refund', next),
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
