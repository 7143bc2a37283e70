import {
  defaultTextMapGetter,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  type TextMapPropagator,
} from '@opentelemetry/api';
import type { HttpMeasures } from '../http/requests/measures.js';
import type { RequestTraces } from '../http/requests/request-traces.js';
import { decorated } from '../platform/decorated.js';
import { type Spans, TRANSACTION_ID } from './spans.js';

/** A span of the server for each request, named by its route; it continues the trace of the caller. */
export function createRequestTraces(spans: Spans, propagator: TextMapPropagator): RequestTraces {
  return {
    begin(method, route, headers) {
      const caller = propagator.extract(ROOT_CONTEXT, headers, defaultTextMapGetter);
      const attributes = { 'http.request.method': method, ...(route !== undefined && { 'http.route': route }) };
      const name = route === undefined ? method : `${method} ${route}`;
      const span = spans.beginRoot(name, { kind: SpanKind.SERVER, attributes }, caller);
      return {
        run: (step) => spans.run(span, step),
        ended(status) {
          span.setAttribute('http.response.status_code', status);
          if (status >= 500) span.setStatus({ code: SpanStatusCode.ERROR });
          span.end();
        },
      };
    },
  };
}

/** The same measures, which also note in the trace what became of a payment. */
export function traceOutcomes(spans: Spans, measures: HttpMeasures): HttpMeasures {
  return decorated(measures, {
    paid: (next) => (outcome, transactionId) => {
      next(outcome, transactionId);
      const span = spans.recorded()?.setAttribute('idempay.outcome', outcome);
      if (transactionId !== undefined) span?.setAttribute(TRANSACTION_ID, transactionId);
    },
  });
}
