import { randomUUID } from 'node:crypto';
import { PublicError, publicErrors } from '../http/errors/public-errors.js';
import type { FakeAnswer, FakeCharge, FakeRequest } from './fake-exchange.js';
import { type FakeListener, listenWith } from './fake-listener.js';
import { FakePayments, type FakeProcessing } from './fake-payments.js';
import { answerError } from './fake-requests.js';
import { FakeTransactions } from './fake-transactions.js';

export interface FakeIdempayOptions {
  /** As `PAYLOAD_MISMATCH` of the service: `replay` by default. */
  readonly payloadMismatch?: 'replay' | 'reject';
  /** Where it is given, requests without it get 401. */
  readonly apiKey?: string;
  /** The time, in milliseconds since the epoch. */
  readonly now?: () => number;
  /** As `IDEMPOTENCY_TTL_SECONDS`, in milliseconds: a day by default. */
  readonly keyLifeMs?: number;
}

export type FakeOperation =
  | 'generateKey'
  | 'pay'
  | 'cancelPayment'
  | 'getPaymentStatus'
  | 'getPayment'
  | 'listPayments'
  | 'exportPayments'
  | 'resolvePayment'
  | 'createTransaction'
  | 'createTransactions'
  | 'listTransactions'
  | 'searchTransactions'
  | 'getTransaction'
  | 'changeTransactionStatus'
  | 'removeTransaction';

/** What becomes of one request. */
export type FakeFault =
  /** The connection fails before the request arrives, or after all its work was done. */
  | { readonly lose: 'request' | 'answer' }
  /** All the work is done, and half of the answer arrives. */
  | { readonly cut: true }
  /** Answered with this status, before anything is done, or after all of it. */
  | { readonly status: number; readonly after?: true; readonly retryAfterSeconds?: number }
  /** For `pay`: the processor declines for this reason. A reference may then be paid with the next attempt. */
  | { readonly decline: string }
  /** For `pay`: charged, but the processor's reply is lost. 504; the next repeat finds the charge. */
  | 'unknown';

const MESSAGES: Readonly<Record<number, PublicError>> = {
  409: publicErrors.paymentInProgress(1),
  429: publicErrors.tooManyRequests(60, 1),
  503: publicErrors.starting(),
  504: publicErrors.paymentOutcomeUnknown(),
};
const DAY_MS = 86_400_000;

/** Idempay in memory, for tests of what is built on its client: same answers, faults on demand, no service to start. */
export class FakeIdempay {
  readonly baseUrl = 'http://idempay.test';
  /** All that arrived, in its order. */
  readonly requests: FakeRequest[] = [];
  readonly #payments: FakePayments;
  readonly #transactions: FakeTransactions;
  readonly #apiKey: string | undefined;
  readonly #faults: { readonly operation: FakeOperation; readonly fault: FakeFault }[] = [];

  constructor(options: FakeIdempayOptions = {}) {
    const { payloadMismatch = 'replay', apiKey, now = Date.now, keyLifeMs = DAY_MS } = options;
    this.#payments = new FakePayments(now, keyLifeMs, payloadMismatch === 'reject');
    this.#transactions = new FakeTransactions(now, keyLifeMs);
    this.#apiKey = apiKey;
  }

  /** What was charged: never two for one key, and so for one attempt at a reference. */
  get charges(): readonly FakeCharge[] {
    return this.#payments.charges;
  }

  /** The next requests of this operation meet the fault. Faults of one operation are met in the order in which they were given. */
  next(operation: FakeOperation, fault: FakeFault, times = 1): void {
    for (let time = 0; time < times; time += 1) this.#faults.push({ operation, fault });
  }

  /** All keys that are not paid yet are unknown from now on, as after a loss of the key-value store. References are paid as before. */
  forgetKeys(): void {
    this.#payments.forgetKeys();
  }

  /** For `new Idempay({ baseUrl: fake.baseUrl, fetch: fake.fetch })`. */
  readonly fetch = async (url: string, init: RequestInit = {}): Promise<Response> => {
    init.signal?.throwIfAborted();
    const { pathname, searchParams } = new URL(url);
    const answer = this.handle({
      method: init.method ?? 'GET',
      path: pathname,
      query: Object.fromEntries(searchParams),
      headers: Object.fromEntries(new Headers(init.headers)),
      body: typeof init.body === 'string' ? init.body : '',
    });
    if (answer === 'lost') throw new TypeError('fetch failed', { cause: new Error('the fake lost the connection') });
    const { status, headers, body } = answer;
    return new Response(body === '' ? null : body, { status, headers });
  };

  /** Serves the same on a free port of 127.0.0.1. */
  listen(): Promise<FakeListener> {
    return listenWith((request) => this.handle(request));
  }

  /** The answer to one request, or that there is none. */
  handle(request: FakeRequest): FakeAnswer | 'lost' {
    const route = ROUTES.find(({ method, path }) => method === request.method && path.test(request.path));
    const at = this.#faults.findIndex(({ operation }) => operation === route?.operation);
    const [{ fault } = { fault: undefined }] = at < 0 ? [] : this.#faults.splice(at, 1);
    if (isBefore(fault)) return fault.lose === 'request' ? 'lost' : answerBefore(fault, request);
    this.requests.push(request);
    const answer = withCommonHeaders(this.#answer(request, route, processingOf(fault)), request);
    if (typeof fault !== 'object' || 'decline' in fault) return answer;
    if ('lose' in fault) return 'lost';
    if ('cut' in fault) return { ...answer, body: answer.body.slice(0, answer.body.length / 2) };
    return faultAnswer(fault);
  }

  #answer(request: FakeRequest, route: Route | undefined, processing: FakeProcessing): FakeAnswer {
    try {
      if (!route) throw publicErrors.unknownRoute();
      const { authorization } = request.headers;
      if (this.#apiKey !== undefined && authorization !== `Bearer ${this.#apiKey}`) {
        throw authorization === undefined ? publicErrors.credentialsMissing() : publicErrors.credentialsInvalid();
      }
      const [, parameter = ''] = route.path.exec(request.path) ?? [];
      return this.#serve(route.operation, request, decodeURIComponent(parameter), processing);
    } catch (fault) {
      if (fault instanceof PublicError) return answerError(fault);
      throw fault;
    }
  }

  #serve(operation: FakeOperation, request: FakeRequest, id: string, processing: FakeProcessing): FakeAnswer {
    const [payments, transactions] = [this.#payments, this.#transactions];
    switch (operation) {
      case 'generateKey':
        return payments.issueKey(request);
      case 'pay':
        return payments.pay(request, processing);
      case 'cancelPayment':
        return payments.cancel(request);
      case 'getPaymentStatus':
        return payments.status(request);
      case 'getPayment':
        return payments.get(id, request);
      case 'listPayments':
        return payments.list(request);
      case 'exportPayments':
        return payments.export(request);
      case 'resolvePayment':
        return payments.resolve(id, request);
      case 'createTransaction':
        return transactions.create(request);
      case 'createTransactions':
        return transactions.createBatch(request);
      case 'listTransactions':
        return transactions.list(request);
      case 'searchTransactions':
        return transactions.search(request);
      case 'getTransaction':
        return transactions.get(id, request);
      case 'changeTransactionStatus':
        return transactions.changeStatus(id, request);
      case 'removeTransaction':
        return transactions.remove(id, request);
    }
  }
}

interface Route {
  readonly operation: FakeOperation;
  readonly method: string;
  readonly path: RegExp;
}

/** The first that fits. */
const ROUTES: readonly Route[] = [
  { operation: 'generateKey', method: 'GET', path: /^\/api\/server-generated\/generate-key$/ },
  { operation: 'pay', method: 'POST', path: /^\/api\/payment$/ },
  { operation: 'cancelPayment', method: 'POST', path: /^\/api\/payment-cancellation$/ },
  { operation: 'getPaymentStatus', method: 'GET', path: /^\/api\/payment-status$/ },
  { operation: 'exportPayments', method: 'GET', path: /^\/api\/payments\/export$/ },
  { operation: 'getPayment', method: 'GET', path: /^\/api\/payments\/([^/]+)$/ },
  { operation: 'listPayments', method: 'GET', path: /^\/api\/payments$/ },
  { operation: 'resolvePayment', method: 'POST', path: /^\/api\/payments\/([^/]+)\/resolution$/ },
  { operation: 'createTransactions', method: 'POST', path: /^\/api\/transactions\/batch$/ },
  { operation: 'createTransaction', method: 'POST', path: /^\/api\/transactions$/ },
  { operation: 'listTransactions', method: 'GET', path: /^\/api\/transactions$/ },
  { operation: 'searchTransactions', method: 'GET', path: /^\/api\/transactions\/search$/ },
  { operation: 'getTransaction', method: 'GET', path: /^\/api\/transactions\/([^/]+)$/ },
  { operation: 'changeTransactionStatus', method: 'PUT', path: /^\/api\/transactions\/([^/]+)\/status$/ },
  { operation: 'removeTransaction', method: 'DELETE', path: /^\/api\/transactions\/([^/]+)$/ },
];

type FaultBefore = { readonly lose?: 'request'; readonly status: number; readonly retryAfterSeconds?: number };

function isBefore(fault: FakeFault | undefined): fault is FakeFault & FaultBefore {
  if (typeof fault !== 'object') return false;
  return ('lose' in fault && fault.lose === 'request') || ('status' in fault && !fault.after);
}

function processingOf(fault: FakeFault | undefined): FakeProcessing {
  if (fault === 'unknown') return fault;
  return fault && 'decline' in fault ? fault : undefined;
}

/** As the service's own answer where it has one with this status, else as a gateway's. */
function answerBefore(fault: FaultBefore, request: FakeRequest): FakeAnswer {
  const answer = faultAnswer(fault);
  return fault.status in MESSAGES ? withCommonHeaders(answer, request) : answer;
}

/** With the service's own text, where a status has one that fits. */
function faultAnswer({ status, retryAfterSeconds }: { status: number; retryAfterSeconds?: number }): FakeAnswer {
  const { message, headers } = MESSAGES[status] ?? new PublicError(status, 'A fault that the test asked for.');
  if (retryAfterSeconds === undefined) return answerError(new PublicError(status, message, headers));
  return answerError(new PublicError(status, message, { ...headers, 'Retry-After': `${retryAfterSeconds}` }));
}

/** What every answer of the service has (decisions P23). A fault after the work has none: it stands for the answer of a gateway. */
function withCommonHeaders(answer: FakeAnswer, { headers }: FakeRequest): FakeAnswer {
  const common = { idempay: '1', 'x-request-id': headers['x-request-id'] ?? randomUUID() };
  return { ...answer, headers: { ...answer.headers, ...common } };
}
