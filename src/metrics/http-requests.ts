import { type HttpMeasures, PAYMENT_OUTCOMES, type PaymentOutcome, type RouteMeasure } from '../http/measures.js';
import type { Exposition, Reading } from './exposition.js';

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
/** Any other has one label: a client may send what it likes. */
const METHODS = ['DELETE', 'GET', 'HEAD', 'OPTIONS', 'PATCH', 'POST', 'PUT'];
const OTHER_METHOD = 'other';
const STATUS_CLASSES = ['1xx', '2xx', '3xx', '4xx', '5xx'];

interface Answers {
  /** By the first digit of the status, less one. */
  readonly byClass: number[];
  readonly took: (seconds: number) => void;
}

/** Requests by method, route and class of status, and the answers to payments. */
export function measureHttp(exposition: Exposition): HttpMeasures {
  const durations = exposition.histogram(
    'idempay_http_request_duration_seconds',
    'From the head of a request to the last byte of its answer.',
    SECONDS,
  );
  const byRoute = new Map<string, Map<string, Answers>>();
  const paid = Object.fromEntries(PAYMENT_OUTCOMES.map((outcome) => [outcome, 0])) as Record<PaymentOutcome, number>;

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
    ['method', 'route', 'status'],
    requests,
  );
  exposition.counter(
    'idempay_payments_total',
    'Answers to POST /api/payment by what they told the client.',
    ['outcome'],
    function* () {
      for (const outcome of PAYMENT_OUTCOMES) yield [{ outcome }, paid[outcome]];
    },
  );

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
  };
}
