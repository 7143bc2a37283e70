import { ExportResultCode } from '@opentelemetry/core';
import type { SpanExporter } from '@opentelemetry/sdk-trace';
import { decorated } from '../platform/decorated.js';

export interface ExportEvents {
  /** An export failed, and the one before did not. */
  down(reason: string): void;
  /** An export succeeded again; `lostSpans` were lost meanwhile. */
  back(lostSpans: number): void;
}

/** The same exporter, which tells when the collector goes and comes back. */
export function reportExports(exporter: SpanExporter, events: ExportEvents): SpanExporter {
  let isDown = false;
  let lost = 0;
  return decorated(exporter, {
    export: (next) => (spans, done) =>
      next(spans, (result) => {
        if (result.code !== ExportResultCode.SUCCESS) {
          lost += spans.length;
          if (!isDown) events.down(reasonOf(result.error));
          isDown = true;
        } else if (isDown) {
          events.back(lost);
          isDown = false;
          lost = 0;
        }
        done(result);
      }),
  });
}

function reasonOf(error: Error | undefined): string {
  const { code, message } = (error ?? {}) as NodeJS.ErrnoException;
  return [code, message].filter(Boolean).join(': ') || 'unknown';
}
