import { type Span, SpanKind, type SpanOptions, SpanStatusCode } from '@opentelemetry/api';
import type { CarryOut } from '../payments/execution.js';
import type { KeyStore } from '../payments/ports/key-store.js';
import type { Ledger } from '../payments/ports/ledger.js';
import type { Processor } from '../payments/ports/processor.js';
import type { FinalOutcome } from '../payments/values/payment.js';
import { decorated } from '../platform/decorated.js';
import type { NowOrLater } from '../platform/now-or-later.js';
import type { Spans } from './spans.js';

/** What is said of a payment: never its key, which opens it, nor its amount. */
const TRANSACTION_ID = 'idempay.transaction_id';
const RESULT = 'idempay.result';
const EXECUTION = 'idempay.execution';
const ORIGIN = 'idempay.origin';

const STEP = { kind: SpanKind.INTERNAL };
const CALL = { kind: SpanKind.CLIENT };

export interface PaymentPorts {
  readonly keys: KeyStore;
  readonly ledger: Ledger;
  readonly processor: Processor;
}

/** The same ports, with a span for each step of the protocol. */
export function tracePorts<Ports extends PaymentPorts>(spans: Spans, ports: Ports): Ports {
  /** An operation inside a span of that name; `note` is given its result and its arguments. */
  const traced =
    <Args extends unknown[], Result>(
      name: string,
      options: SpanOptions,
      note: (span: Span, result: Result, args: Args) => void = () => {},
    ) =>
    (next: (...args: Args) => NowOrLater<Result>) =>
    (...args: Args): Promise<Result> =>
      spans.inside(
        name,
        options,
        () => next(...args),
        (span, result) => note(span, result, args),
      );

  return {
    ...ports,
    keys: decorated<KeyStore>(ports.keys, {
      begin: traced('payment.begin', STEP, (span, begun) => {
        span.setAttribute(RESULT, begun.state);
        if (begun.state === 'final') noteFinal(span, begun.final);
      }),
      finish: traced('payment.finish', STEP, (span, _done, [_key, _owner, final]) => noteFinal(span, final)),
      release: traced('payment.release', STEP),
    }),
    ledger: decorated<Ledger>(ports.ledger, {
      claim: traced('payment.claim', STEP, (span, claimed) => {
        span.setAttribute(RESULT, claimed.state);
        if ('claim' in claimed) span.setAttribute(TRANSACTION_ID, claimed.claim.transactionId);
        if ('final' in claimed) noteFinal(span, claimed.final);
      }),
      find: traced('payment.find', STEP, (span, found) => {
        span.setAttribute(RESULT, found.state);
        if (found.state === 'final') noteFinal(span, found.final);
      }),
      takeOver: traced('payment.take_over', STEP, (span, claim) => {
        span.setAttribute(RESULT, claim ? 'taken over' : 'not abandoned');
        if (claim) span.setAttribute(TRANSACTION_ID, claim.transactionId);
      }),
      settle: traced('payment.settle', STEP, (span, settled, [claim]) => {
        span.setAttributes({ [RESULT]: settled.state, [TRANSACTION_ID]: claim.transactionId });
      }),
      abandon: traced('payment.abandon', STEP),
      resolve: traced('payment.resolve', STEP, (span, resolved) => {
        span.setAttribute(RESULT, resolved.state);
        if (resolved.state === 'resolved') noteFinal(span, resolved.final);
      }),
    }),
    processor: decorated<Processor>(ports.processor, {
      charge: traced('payment.charge', CALL, (span, { state }, [charge]) => {
        span.setAttribute(TRANSACTION_ID, charge.transactionId);
        noteAnswer(span, state);
      }),
      lookUp: traced('payment.look_up', CALL, (span, { state }) => noteAnswer(span, state)),
    }),
  };
}

/** Recovery has a trace for each payment; any other attempt belongs to the request that makes it. */
export function traceAttempts(spans: Spans, carryOut: CarryOut): CarryOut {
  return (claim, askedAt, origin) => {
    const attributes = { [TRANSACTION_ID]: claim.transactionId, [ORIGIN]: origin, [EXECUTION]: claim.epoch };
    if (origin !== 'recovery') {
      spans.recorded()?.setAttributes(attributes);
      return carryOut(claim, askedAt, origin);
    }
    const span = spans.beginRoot('payment.recovery', { attributes });
    return spans.during(
      span,
      () => carryOut(claim, askedAt, origin),
      (_span, result) => {
        span.setAttribute(RESULT, result.state);
      },
    );
  };
}

/** A decline has a transaction id too, but no reader of it is told; its reason is the processor's text. */
function noteFinal(span: Span, { outcome }: FinalOutcome): void {
  if (outcome.state === 'COMPLETED') span.setAttribute(TRANSACTION_ID, outcome.transactionId);
}

/** Why it is not known is in the log: the words are the processor's, or the network's. */
function noteAnswer(span: Span, state: string): void {
  span.setAttribute(RESULT, state);
  if (state === 'unknown' || state === 'not sent') span.setStatus({ code: SpanStatusCode.ERROR });
}
