import type { ConnectionCounts } from '../http/connections/connection-limits.js';
import {
  type HttpMeasures,
  PAYMENT_OUTCOMES,
  type PaymentOutcome,
  REFUSAL_REASONS,
  type RefusalReason,
  type RouteMeasure,
} from '../http/requests/measures.js';
import type { Totals } from '../live/sample.js';
import { type Exposition, type Reading, readingsOf } from './exposition.js';

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
/** Any other has one label: a client may send what it likes. */
const METHODS = ['DELETE', 'GET', 'HEAD', 'OPTIONS', 'PATCH', 'POST', 'PUT'];
const OTHER_METHOD = 'other';
const STATUS_CLASSES = ['1xx', '2xx', '3xx', '4xx', '5xx'];

export interface MeasuredHttp extends HttpMeasures {
  /** The part of it that the live view shows. */
  look(): Pick<Totals, 'payments' | 'latency' | 'lists'>;
}

interface Answers {
  /** By the first digit of the status, less one. */
  readonly byClass: number[];
  readonly took: (seconds: number) => void;
}

/** Requests by method, route and class of status, the answers to payments, refusals, and connections. */
export function measureHttp(exposition: Exposition, connections: ConnectionCounts): MeasuredHttp {
  const durations = exposition.histogram(
    'idempay_http_request_duration_seconds',
    'From the head of a request to the last byte of its answer.',
    SECONDS,
  );
  const byRoute = new Map<string, Map<string, Answers>>();
  const paid = Object.fromEntries(PAYMENT_OUTCOMES.map((outcome) => [outcome, 0])) as Record<PaymentOutcome, number>;
  const refused = Object.fromEntries(REFUSAL_REASONS.map((reason) => [reason, 0])) as Record<RefusalReason, number>;

  function* requests(): Iterable<Reading> {
    for (const [route, answers] of byRoute) {
      for (const [method, { byClass }] of answers) {
        for (const [index, status] of STATUS_CLASSES.entries()) {
          const count = byClass[index];
          if (count) yield [{ method, route, status }, count];
        }
      }
    }
  }
  exposition.counter(
    'idempay_http_requests_total',
    'Answered requests by method, pattern of the route ("none": there is none), and class of the status.',
    requests,
  );
  exposition.counter(
    'idempay_payments_total',
    'Answers to POST /api/payment by what they told the client.',
    function* () {
      for (const outcome of PAYMENT_OUTCOMES) yield [{ outcome }, paid[outcome]];
    },
  );

  exposition.counter(
    'idempay_requests_refused_total',
    'Requests refused for their credentials or because of a limit, by reason; also connections closed for MAX_CONNECTIONS.',
    // The listener counts its own: it is open before anything is measured.
    () => readingsOf('reason', { ...refused, connections: connections.refused }),
  );
  exposition.gauge('idempay_http_connections', 'Open connections, with TLS set up where there is any.', () => [
    [{}, connections.open],
  ]);

  function route(path: string): RouteMeasure {
    // Several routes of one path, such as its wrong methods, share their answers.
    const answers = byRoute.get(path) ?? new Map<string, Answers>();
    byRoute.set(path, answers);
    return {
      ended(method, status, ms) {
        const known = answers.get(method) ?? begin(answers, path, method);
        const index = Math.floor(status / 100) - 1;
        known.byClass[index] = (known.byClass[index] ?? 0) + 1;
        known.took(ms / 1000);
      },
    };
  }

  function begin(answers: Map<string, Answers>, path: string, sent: string): Answers {
    const method = METHODS.includes(sent) ? sent : OTHER_METHOD;
    const known = answers.get(method) ?? {
      byClass: [0, 0, 0, 0, 0],
      took: durations.of({ method, route: path }),
    };
    answers.set(method, known);
    return known;
  }

  return {
    route,
    paid(outcome) {
      paid[outcome] += 1;
    },
    refused(reason) {
      refused[reason] += 1;
    },
    look() {
      const [, sent = 0, notModified = 0] = byRoute.get('/api/transactions')?.get('GET')?.byClass ?? [];
      return {
        payments: { ...paid },
        latency: durations.buckets({ method: 'POST', route: '/api/payment' }),
        lists: { sent, notModified },
      };
    },
  };
}
