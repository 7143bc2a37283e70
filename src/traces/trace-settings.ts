import type { Settings } from '../platform/settings.js';

/** The destination of traces, and which ones go there (rule O3). */
export interface TraceSettings {
  /** The address of the collector, without the path of traces. */
  readonly endpoint: string;
  readonly serviceName: string;
  readonly sampler: SamplerName;
  /** The part of the traces that a sampler by ratio keeps. */
  readonly samplerRatio: number;
  /** Headers of each export, as OpenTelemetry writes them. Undefined if there are none. */
  readonly headers?: string | undefined;
}

const SAMPLERS = [
  'always_on',
  'always_off',
  'traceidratio',
  'parentbased_always_on',
  'parentbased_always_off',
  'parentbased_traceidratio',
] as const;
export type SamplerName = (typeof SAMPLERS)[number];

const ENDPOINT_FORM =
  'http://host:4318 or https://host/path, without a user: credentials go into OTEL_EXPORTER_OTLP_HEADERS';
const RATIO_FORM = '0.1: a number from 0 to 1';

/** The names are OpenTelemetry's. The result is undefined if traces are off. All are checked, also then. */
export function readTraces(settings: Settings): TraceSettings | undefined {
  const endpoint = settings.parsed('OTEL_EXPORTER_OTLP_ENDPOINT', readEndpoint, ENDPOINT_FORM);
  const serviceName = settings.text('OTEL_SERVICE_NAME', 'idempay');
  const sampler = settings.choice('OTEL_TRACES_SAMPLER', 'parentbased_always_on', SAMPLERS);
  const samplerRatio = settings.parsed('OTEL_TRACES_SAMPLER_ARG', readRatio, RATIO_FORM) ?? 1;
  const headers = settings.optional('OTEL_EXPORTER_OTLP_HEADERS');
  return endpoint === undefined ? undefined : { endpoint, serviceName, sampler, samplerRatio, headers };
}

function readEndpoint(text: string): string | undefined {
  if (!URL.canParse(text)) return undefined;
  const { protocol, username, password, search, hash, origin, pathname } = new URL(text);
  if (!['http:', 'https:'].includes(protocol) || username || password || search || hash) return undefined;
  return `${origin}${pathname.replace(/\/+$/, '')}`;
}

function readRatio(text: string): number | undefined {
  const ratio = /^\d+(\.\d+)?$/.test(text) ? Number(text) : Number.NaN;
  return ratio <= 1 ? ratio : undefined;
}
