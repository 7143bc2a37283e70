import type { Logger } from 'pino';
import type { TraceSettings } from './trace-settings.js';
import type { Traces } from './traces.js';

/** The service is asked for traces, and the packages that make them are not installed. */
export class TracesNotInstalled extends Error {
  override readonly name = 'TracesNotInstalled';
}

/**
 * Loads the modules that traces need, only if traces are exported (rule O3). `log` is asked for when there is something to say. Throws
 * TracesNotInstalled: OpenTelemetry is an optional peer, because most installations export no traces.
 */
export async function openTraces(
  settings: TraceSettings | undefined,
  log: () => Pick<Logger, 'info' | 'warn'>,
): Promise<Traces | undefined> {
  if (!settings) return undefined;
  // OpenTelemetry reads it from there, and no further.
  if (settings.headers !== undefined) process.env.OTEL_EXPORTER_OTLP_HEADERS = settings.headers;
  const { createTraces } = await import('./traces.js').catch(refuseMissingPackages);
  return createTraces(settings, {
    down: (reason) => log().warn({ reason }, 'traces cannot be exported; the service goes on without them'),
    back: (lostSpans) => log().info({ lostSpans }, 'traces are exported again'),
  });
}

function refuseMissingPackages(error: NodeJS.ErrnoException): never {
  if (error.code !== 'ERR_MODULE_NOT_FOUND' || !error.message.includes('@opentelemetry/')) throw error;
  throw new TracesNotInstalled(
    'OTEL_EXPORTER_OTLP_ENDPOINT is set, and OpenTelemetry is not installed. Install it, or unset the variable: npm install @opentelemetry/api @opentelemetry/core @opentelemetry/exporter-trace-otlp-http @opentelemetry/resources @opentelemetry/sdk-trace',
    { cause: error },
  );
}
