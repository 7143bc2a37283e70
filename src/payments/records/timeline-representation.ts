import type { Timeline } from './payment-timeline.js';

/** Every member always, null where there is nothing. */
export function timelineJson({ key, state, events, omitted, next }: Timeline): string {
  return JSON.stringify({
    idempotencyKey: key,
    state,
    events: events.map(({ at, event, attempt, process, detail }) => ({
      at: isoTime(at),
      event,
      attempt: attempt ?? null,
      process: process ?? null,
      detail: detail ?? null,
    })),
    omitted,
    next: { what: next.what, at: isoTime(next.at), text: next.text },
  });
}

/** A time that no date has is shown as none: a processor may deduplicate for ever. */
function isoTime(ms: number | undefined): string | null {
  return ms === undefined || !Number.isFinite(ms) ? null : new Date(ms).toISOString();
}
