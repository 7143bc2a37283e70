import { isoTime } from './payment-representation.js';
import type { Timeline } from './payment-timeline.js';

/** Every member always, null where there is nothing. */
export function timelineJson({ key, state, events, omitted, next }: Timeline): string {
  return JSON.stringify({
    idempotencyKey: key,
    state,
    events: events.map(({ at, event, execution, process, detail }) => ({
      at: isoTime(at),
      event,
      execution: execution ?? null,
      process: process ?? null,
      detail: detail ?? null,
    })),
    omitted,
    next: {
      what: next.what,
      at: isoTime(next.at),
      resolvableAt: isoTime(next.resolvableAt),
      text: next.text,
    },
  });
}
