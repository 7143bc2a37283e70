import { type Attributes, type Span, SpanKind, SpanStatusCode } from '@opentelemetry/api';
import { decorated } from '../platform/decorated.js';
import type { BatchTraces, MeasuredStore, RoundTrips, StoreMeasures } from '../stores/shared/store-measures.js';
import type { Spans } from './spans.js';

interface Trip {
  readonly span: Span;
  /** What the measures within returned at the beginning. */
  readonly begun: unknown;
}

/**
 * The same measures, with a span for each round trip. A round trip of a batch is a part of the trace that asked first; it and
 * the spans of the others that it carries are linked with each other (decision 0034).
 */
export function traceStores(spans: Spans, measures: StoreMeasures): StoreMeasures {
  const known = new Map<string, RoundTrips>();

  function traced(within: RoundTrips, name: string, store: MeasuredStore, operation: string): RoundTrips {
    const attributes: Attributes = { 'db.system.name': store, 'db.operation.name': operation };
    const options = { kind: SpanKind.CLIENT, attributes };

    function beginSpan(): Span | undefined {
      const underWay = spans.underWay();
      if (!underWay?.span.isRecording()) return undefined;
      const { span: parent, others = [] } = underWay;
      if (others.length === 0) return spans.begin(name, options, parent);
      const links = others.map((other) => ({ context: other.spanContext() }));
      const span = spans.begin(name, { ...options, links }, parent);
      span.setAttribute('db.operation.batch.size', others.length + 1);
      for (const other of others) other.addLink({ context: span.spanContext() });
      return span;
    }

    return {
      begin(): Trip | unknown {
        const span = beginSpan();
        return span ? { span, begun: within.begin() } : within.begin();
      },
      end(begun, failed) {
        if (!isTrip(begun)) {
          within.end(begun, failed);
          return;
        }
        within.end(begun.begun, failed);
        if (failed) begun.span.setStatus({ code: SpanStatusCode.ERROR });
        begun.span.end();
      },
    };
  }

  const traces: BatchTraces = {
    asker: () => spans.recorded(),
    together(askers, send) {
      const [first, ...others] = new Set(
        (askers as readonly (Span | undefined)[]).filter((span) => span !== undefined),
      );
      return spans.run(first && { span: first, others }, send);
    },
  };

  return decorated(measures, {
    roundTrips: (next) => (store, operation) => {
      const name = `${store} ${operation}`;
      const trips = known.get(name) ?? traced(next(store, operation), name, store, operation);
      known.set(name, trips);
      return trips;
    },
    queue: (next) => (store, queue) => ({ ...next(store, queue), traces }),
  });
}

function isTrip(begun: unknown): begun is Trip {
  return typeof begun === 'object' && begun !== null && 'span' in begun;
}
