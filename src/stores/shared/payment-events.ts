import type { PaymentEvent } from '../../payments/ports/payment-history.js';
import type { ExecutionNote, Fence } from '../../payments/values/payment.js';

/**
 * A row's events are a JSON array of `PaymentEvent`. Its statements append to it, and keep the first 8 and the last 40, because
 * a payment that stays unknown is tried again every minute, for days. Between them one element counts those left out.
 */
type KeptEvent = PaymentEvent | { readonly omitted: number };

/** Characters of a cause, each of which may take three bytes in UTF-8. With this limit an event has at most 500 bytes, and all of a row 25 kB. */
const MAX_CAUSE_LENGTH = 90;

/** As JSON. The statement adds the members `at` and `execution`. */
export function abandonedEvent({ owner }: Pick<Fence, 'owner'>, { lookedUp, sent, cause = '' }: ExecutionNote): string {
  return JSON.stringify({ kind: 'given up', sent, lookedUp, owner, cause: shortened(cause) || undefined });
}

/** As JSON. The statement adds the members `at` and `execution`. */
export function settledEvent({ owner }: Pick<Fence, 'owner'>, { lookedUp }: ExecutionNote): string {
  return JSON.stringify({ kind: 'settled', lookedUp, owner });
}

/** Well-formed and without control characters: a database refuses to keep anything else. */
function shortened(cause: string): string {
  const line = cause
    .replace(/\p{Cc}/gu, ' ')
    .toWellFormed()
    .trimEnd();
  return line.length <= MAX_CAUSE_LENGTH ? line : `${line.slice(0, MAX_CAUSE_LENGTH - 1).toWellFormed()}…`;
}

/** What was kept, oldest first, and how many were left out between the first ones and the last. */
export function readEvents(text: string | null): { events: readonly PaymentEvent[]; omitted: number } {
  const kept = JSON.parse(text ?? '[]') as readonly KeptEvent[];
  const events = kept.filter((event): event is PaymentEvent => !('omitted' in event));
  return { events, omitted: kept.find((event) => 'omitted' in event)?.omitted ?? 0 };
}
