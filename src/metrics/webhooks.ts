import type { WebhookCounts } from '../webhooks/webhook-events.js';
import type { Exposition } from './exposition.js';

/** Deliveries by this process, and of the endpoints that it serves how far they are behind. */
export function showWebhooks(exposition: Exposition, counts: ReadonlyMap<string, WebhookCounts>): void {
  const served = (of: (count: WebhookCounts) => number) => () =>
    [...counts].flatMap(([endpoint, count]) => (count.isServed ? [[{ endpoint }, of(count)] as const] : []));
  exposition.counter(
    'idempay_webhook_deliveries_total',
    'Tries to deliver a settlement by this process; refused: no 2xx within 15 seconds.',
    () =>
      [...counts].flatMap(([endpoint, { deliveries }]) => [
        [{ endpoint, result: 'taken' }, deliveries.taken] as const,
        [{ endpoint, result: 'refused' }, deliveries.refused] as const,
      ]),
  );
  exposition.gauge(
    'idempay_webhook_behind_seconds',
    'Since the oldest settlement that the endpoint has not taken and that is not set aside, 0 if there is none; only the process that serves the endpoint shows it.',
    served(({ behindMs }) => behindMs / 1_000),
  );
  exposition.gauge(
    'idempay_webhook_set_aside',
    'Settlements that the endpoint refused again and again; at 1,000 it gets no others. Only the process that serves the endpoint shows it.',
    served(({ setAside }) => setAside),
  );
  exposition.gauge(
    'idempay_webhook_stopped',
    '1 if the endpoint was stopped, by its receiver (410) or by an operator; every process shows it, so use max and not sum.',
    () => [...counts].map(([endpoint, { isStopped }]) => [{ endpoint }, isStopped ? 1 : 0] as const),
  );
}
