import { type Span, SpanKind, SpanStatusCode } from '@opentelemetry/api';
import type { CarryOut } from '../payments/attempt.js';
import type { KeyStore } from '../payments/ports/key-store.js';
import type { Ledger } from '../payments/ports/ledger.js';
import type { Processor } from '../payments/ports/processor.js';
import type { FinalOutcome } from '../payments/values/payment.js';
import type { Spans } from './spans.js';

/** What is said of a payment: never its key, which opens it, nor its amount. */
const TRANSACTION_ID = 'idempay.transaction_id';
const RESULT = 'idempay.result';
const ATTEMPT = 'idempay.attempt';
const ORIGIN = 'idempay.origin';

export interface PaymentPorts {
  readonly keys: KeyStore;
  readonly ledger: Ledger;
  readonly processor: Processor;
}

/** The same ports, with a span for each step of the protocol. */
export function tracePorts<Ports extends PaymentPorts>(spans: Spans, ports: Ports): Ports {
  const { keys, ledger, processor } = ports;
  const step = { kind: SpanKind.INTERNAL };
  const call = { kind: SpanKind.CLIENT };

  const tracedKeys: KeyStore = {
    ...keys,
    begin: (attempt) =>
      spans.inside(
        'payment.begin',
        step,
        () => keys.begin(attempt),
        (span, begun) => {
          span.setAttribute(RESULT, begun.state);
          if (begun.state === 'final') noteFinal(span, begun.final);
        },
      ),
    finish: (key, owner, final) =>
      spans.inside(
        'payment.finish',
        step,
        () => keys.finish(key, owner, final),
        (span) => noteFinal(span, final),
      ),
    release: (key, owner) => spans.inside('payment.release', step, () => keys.release(key, owner), nothing),
  };

  const tracedLedger: Ledger = {
    ...ledger,
    claim: (attempt) =>
      spans.inside(
        'payment.claim',
        step,
        () => ledger.claim(attempt),
        (span, claimed) => {
          span.setAttribute(RESULT, claimed.state);
          if ('claim' in claimed) span.setAttribute(TRANSACTION_ID, claimed.claim.transactionId);
          if ('final' in claimed) noteFinal(span, claimed.final);
        },
      ),
    find: (key, client) =>
      spans.inside(
        'payment.find',
        step,
        () => ledger.find(key, client),
        (span, found) => {
          span.setAttribute(RESULT, found.state);
          if (found.state === 'final') noteFinal(span, found.final);
        },
      ),
    takeOver: (takeover) =>
      spans.inside(
        'payment.take_over',
        step,
        () => ledger.takeOver(takeover),
        (span, claim) => {
          span.setAttribute(RESULT, claim ? 'taken over' : 'not abandoned');
          if (claim) span.setAttribute(TRANSACTION_ID, claim.transactionId);
        },
      ),
    settle: (claim, outcome, idempotencyTtlMs, note) =>
      spans.inside(
        'payment.settle',
        step,
        () => ledger.settle(claim, outcome, idempotencyTtlMs, note),
        (span, settled) => {
          span.setAttributes({ [RESULT]: settled.state, [TRANSACTION_ID]: claim.transactionId });
        },
      ),
    abandon: (fence, recoverAfterMs, mark, note) =>
      spans.inside('payment.abandon', step, () => ledger.abandon(fence, recoverAfterMs, mark, note), nothing),
    resolve: (resolution) =>
      spans.inside(
        'payment.resolve',
        step,
        () => ledger.resolve(resolution),
        (span, resolved) => {
          span.setAttribute(RESULT, resolved.state);
          if (resolved.state === 'resolved') noteFinal(span, resolved.final);
        },
      ),
  };

  const tracedProcessor: Processor = {
    ...processor,
    charge: (charge) =>
      spans.inside(
        'payment.charge',
        call,
        () => processor.charge(charge),
        (span, { state }) => {
          span.setAttribute(TRANSACTION_ID, charge.transactionId);
          noteAnswer(span, state);
        },
      ),
    lookUp: (reference) =>
      spans.inside(
        'payment.look_up',
        call,
        () => processor.lookUp(reference),
        (span, { state }) => {
          noteAnswer(span, state);
        },
      ),
  };

  return { ...ports, keys: tracedKeys, ledger: tracedLedger, processor: tracedProcessor };
}

/** Recovery has a trace for each payment; any other attempt belongs to the request that makes it. */
export function traceAttempts(spans: Spans, carryOut: CarryOut): CarryOut {
  return (claim, askedAt, origin) => {
    const attributes = { [TRANSACTION_ID]: claim.transactionId, [ORIGIN]: origin, [ATTEMPT]: claim.epoch };
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

function nothing(): void {}
