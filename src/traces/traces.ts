import { setTimeout as delay } from 'node:timers/promises';
import { defaultTextMapSetter, ROOT_CONTEXT, trace } from '@opentelemetry/api';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources';
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  type Sampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import type { HttpMeasures } from '../http/requests/measures.js';
import type { RequestTraces } from '../http/requests/request-traces.js';
import type { CarryOut } from '../payments/execution.js';
import type { ProcessorClient } from '../payments/ports/processor.js';
import type { Clock } from '../platform/clock.js';
import { decorated } from '../platform/decorated.js';
import { VERSION } from '../platform/version.js';
import { type ExportEvents, reportExports } from './export-reports.js';
import { traceAttempts, traceProcessor } from './payment-traces.js';
import { createRequestTraces, traceOutcomes } from './request-traces.js';
import { Spans } from './spans.js';
import type { SamplerName, TraceSettings } from './trace-settings.js';

/** Spans that wait for their export, about 2 kB each. Further ones are dropped. */
const MAX_WAITING_SPANS = 8_192;
const SPANS_PER_EXPORT = 512;
const EXPORT_EVERY_MS = 1_000;
/** A process that ends does not wait longer for the collector. */
const LAST_EXPORT_MS = 2_000;

/**
 * Everything that one process traces (rule O3). This module is loaded only if traces are exported. Each part wraps the object that it is
 * given, so that nothing is added without traces.
 */
export interface Traces {
  readonly requests: RequestTraces;
  outcomes(measures: HttpMeasures): HttpMeasures;
  processor(processor: ProcessorClient): ProcessorClient;
  attempts(carryOut: CarryOut): CarryOut;
  /** A clock whose timers run outside of any trace, because the request that set them has ended. */
  clock(clock: Clock): Clock;
  /** Headers that hand the trace under way on to the processor. */
  headers(): Record<string, string>;
  /** Fields that name the trace under way in a log line. */
  logFields(): { readonly traceId?: string };
  /** Exports what waits, within two seconds. */
  close(): Promise<void>;
}

export function createTraces(settings: TraceSettings, events: ExportEvents): Traces {
  const exporter = new OTLPTraceExporter({ url: `${settings.endpoint}/v1/traces` });
  const processor = new BatchSpanProcessor({
    exporter: reportExports(exporter, events),
    maxQueueSize: MAX_WAITING_SPANS,
    maxExportBatchSize: SPANS_PER_EXPORT,
    scheduledDelayMillis: EXPORT_EVERY_MS,
  });
  const provider = new TracerProvider({
    // Attributes from the environment (OTEL_RESOURCE_ATTRIBUTES), then our own.
    resource: detectResources({ detectors: [envDetector] }).merge(
      resourceFromAttributes({ 'service.name': settings.serviceName, 'service.version': VERSION }),
    ),
    sampler: samplerOf(settings.sampler, settings.samplerRatio),
    spanProcessors: [processor],
  });
  const spans = new Spans(provider.getTracer('idempay', VERSION));
  // Not the baggage of a caller, which may hold anything.
  const propagator = new W3CTraceContextPropagator();

  return {
    requests: createRequestTraces(spans, propagator),
    outcomes: (measures) => traceOutcomes(spans, measures),
    processor: (client) => traceProcessor(spans, client),
    attempts: (carryOut) => traceAttempts(spans, carryOut),
    clock: (clock) =>
      decorated(clock, { after: (next) => (ms, callBack) => next(ms, () => spans.run(undefined, callBack)) }),
    headers() {
      const underWay = spans.underWay();
      const headers: Record<string, string> = {};
      if (underWay) propagator.inject(trace.setSpan(ROOT_CONTEXT, underWay), headers, defaultTextMapSetter);
      return headers;
    },
    logFields() {
      const underWay = spans.underWay();
      return underWay ? { traceId: underWay.spanContext().traceId } : {};
    },
    async close() {
      const flushed = provider.shutdown().catch(() => {});
      await Promise.race([flushed, delay(LAST_EXPORT_MS, undefined, { ref: false })]);
    },
  };
}

function samplerOf(name: SamplerName, ratio: number): Sampler {
  switch (name) {
    case 'always_on':
      return new AlwaysOnSampler();
    case 'always_off':
      return new AlwaysOffSampler();
    case 'traceidratio':
      return new TraceIdRatioBasedSampler(ratio);
    case 'parentbased_always_on':
      return new ParentBasedSampler({ root: new AlwaysOnSampler() });
    case 'parentbased_always_off':
      return new ParentBasedSampler({ root: new AlwaysOffSampler() });
    case 'parentbased_traceidratio':
      return new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(ratio) });
  }
}
