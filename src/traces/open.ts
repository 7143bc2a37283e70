import type { Logger } from 'pino';
import type { TraceSettings } from './trace-settings.js';
import type { Traces } from './traces.js';

/** Loads what traces need, only where they are exported (decisions O3). `log` is asked for when there is something to say. */
export async function openTraces(
  settings: TraceSettings | undefined,
  log: () => Pick<Logger, 'info' | 'warn'>,
): Promise<Traces | undefined> {
  if (!settings) return undefined;
  const { createTraces } = await import('./traces.js');
  return createTraces(settings, {
    away: (reason) => log().warn({ reason }, 'traces cannot be exported; the service goes on without them'),
    back: (lostSpans) => log().info({ lostSpans }, 'traces are exported again'),
  });
}
