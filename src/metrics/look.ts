import type { Buckets, Look } from '../live/sample.js';
import type { Exposition } from './exposition.js';
import type { Labels } from './histogram.js';

/** What of the metrics the live view shows, from the same readings as the text of `/metrics`. */
export function lookAt(exposition: Exposition, deployment: 'embedded' | 'distributed'): Look {
  const by = (name: string, label: string) => numbersBy(exposition, name, (labels) => labels[label]);
  const only = (name: string) => numbersBy(exposition, name, () => '').get('');
  const paid = { method: 'POST', route: '/api/payment' };
  const lookUps = by('idempay_transaction_cache_lookups_total', 'result');
  const lists = numbersBy(exposition, 'idempay_http_requests_total', ({ method, route, status }) =>
    method === 'GET' && route === '/api/transactions' ? status : undefined,
  );
  const attempts = by('idempay_payment_attempts_in_flight', 'origin');
  const waiting = only('idempay_recovery_backlog_payments');
  const queues = numbersBy(exposition, 'idempay_store_queue_length', ({ store, queue }) => `${store} ${queue}`);
  const stores = by('idempay_store_up', 'store');
  return {
    totals: {
      payments: Object.fromEntries(by('idempay_payments_total', 'outcome')),
      latency: exposition.buckets('idempay_http_request_duration_seconds', paid),
      cache: {
        hit: lookUps.get('hit') ?? 0,
        miss: lookUps.get('miss') ?? 0,
        bypass: lookUps.get('bypass') ?? 0,
      },
      lists: { sent: lists.get('2xx') ?? 0, notModified: lists.get('3xx') ?? 0 },
      commit:
        deployment === 'embedded' ? exposition.buckets('idempay_store_commit_seconds') : claimsAndSettles(exposition),
      loopDelay: exposition.buckets('idempay_event_loop_delay_seconds'),
    },
    state: {
      attempts: { request: attempts.get('request') ?? 0, recovery: attempts.get('recovery') ?? 0 },
      waiters: only('idempay_payment_waiters') ?? 0,
      backlog:
        waiting === undefined
          ? null
          : {
              payments: waiting,
              oldestMs: Math.round((only('idempay_recovery_oldest_unknown_seconds') ?? 0) * 1000),
            },
      queues: Object.fromEntries(queues),
      stores: Object.fromEntries([...stores].map(([store, up]) => [store, up === 1])),
      processorUp: only('idempay_processor_up') === 1,
      memoryBytes: only('idempay_process_resident_memory_bytes') ?? 0,
    },
  };
}

/** What a payment waits for of PostgreSQL. */
function claimsAndSettles(exposition: Exposition): Buckets {
  const of = (operation: string) =>
    exposition.buckets('idempay_store_round_trip_seconds', { store: 'postgresql', operation });
  const claims = of('claim');
  const settles = [of('settle'), of('settle_noted')];
  return {
    bounds: claims.bounds,
    counts: claims.counts.map((count, bucket) =>
      settles.reduce((sum, { counts }) => sum + (counts[bucket] ?? 0), count),
    ),
  };
}

/** The values of a metric by what `nameOf` says, added up. Those for which it returns undefined are left out. */
function numbersBy(
  exposition: Exposition,
  metric: string,
  nameOf: (labels: Labels) => string | undefined,
): Map<string, number> {
  const numbers = new Map<string, number>();
  for (const [labels, value] of exposition.readings(metric)) {
    const name = nameOf(labels);
    if (name !== undefined) numbers.set(name, (numbers.get(name) ?? 0) + value);
  }
  return numbers;
}
