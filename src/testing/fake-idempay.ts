import { fixedHeaders } from '../http/connections/fixed-headers.js';
import { type NamedBy, publicErrors } from '../http/errors/catalogue.js';
import { formOf, type PublicError, type Told } from '../http/errors/public-error.js';
import { requestIdOf } from '../http/requests/request-id.js';
import { headersOf, type SentRequest, type WholeAnswer } from './fake-connection.js';
import type { FakeAnswer, FakeCharge, FakeListener, FakeRefund, FakeRequest, FakeScope } from './fake-exchange.js';
import { type FakeFault, type FakeOperation, requireFault } from './fake-fault.js';
import { listenWith } from './fake-listener.js';
import type { FakeProcessing } from './fake-processor.js';
import { createFakeService, type FakeService } from './fake-service.js';
import { workUnderWay } from './work-under-way.js';

export interface FakeIdempayOptions {
  /** As `PAYLOAD_MISMATCH` of the service: `replay` by default. */
  readonly payloadMismatch?: 'replay' | 'reject';
  /** If it is given, requests without it get 401. */
  readonly apiKey?: string;
  /** The scopes of `apiKey`: a request that needs another one gets 403. If omitted, the key may do everything. */
  readonly scopes?: readonly FakeScope[];
  /** The time, in milliseconds since the epoch. */
  readonly now?: () => number;
  /** As `IDEMPOTENCY_TTL_SECONDS`, in milliseconds: a day by default. */
  readonly keyLifeMs?: number;
}

type Messages = Readonly<Record<number, (by: NamedBy) => PublicError>>;
const MESSAGES: Messages = {
  409: () => publicErrors.paymentInProgress(1),
  429: () => publicErrors.tooManyRequests(60, 1),
  503: () => publicErrors.starting(),
  504: publicErrors.paymentOutcomeUnknown,
};
const REFUND_MESSAGES: Messages = {
  ...MESSAGES,
  409: () => publicErrors.refundInProgress(1),
  // An adapter of contract 1 or 2 has this answer.
  501: () => publicErrors.refundsNotSupported(),
  504: () => publicErrors.refundOutcomeUnknown(),
};
const messagesOf = ({ path }: FakeRequest) => (path === REFUND_PATH ? REFUND_MESSAGES : MESSAGES);
const REFUND_PATH = '/api/refund';
const TOLD: Readonly<Record<string, Told>> = {
  '/api/payment': { charge: 'unknown' },
  [REFUND_PATH]: { refund: 'unknown' },
};
/** The description calls it otherwise than the client does. */
const OPERATION_IDS: Partial<Record<FakeOperation, string>> = { removeTransaction: 'deleteTransaction' };
const DAY_MS = 86_400_000;
/** `Response` takes no body with them. */
const WITHOUT_BODY = new Set([204, 205, 304]);

/** Idempay in memory, for tests of programs that are built on its client: the service's own code, faults on demand, no service to start. */
export class FakeIdempay {
  readonly baseUrl = 'http://idempay.test';
  /** All that arrived, in its order. */
  readonly requests: FakeRequest[] = [];
  readonly #service: FakeService;
  readonly #faults: { readonly operationId: string; readonly fault: FakeFault }[] = [];

  constructor(options: FakeIdempayOptions = {}) {
    const { payloadMismatch = 'replay', apiKey, scopes, now = Date.now, keyLifeMs = DAY_MS } = options;
    if (scopes !== undefined && apiKey === undefined) {
      throw new TypeError("'scopes' are those of an 'apiKey': give both, because without a key everything is allowed.");
    }
    this.#service = createFakeService({ payloadMismatch, apiKey, scopes, now, keyLifeMs });
  }

  /** All charges: never two for one key, and so for one attempt at a reference. */
  get charges(): readonly FakeCharge[] {
    return this.#service.charges;
  }

  /** All refunds: never two for one key, and never more than was charged. */
  get refunds(): readonly FakeRefund[] {
    return this.#service.refunds;
  }

  /** The charges that wait for their payer, in the order in which they came. */
  get pendingCharges(): readonly FakeCharge[] {
    return this.#service.pendingCharges();
  }

  /** The refunds that take time, in the order in which they came. */
  get pendingRefunds(): readonly FakeRefund[] {
    return this.#service.pendingRefunds();
  }

  /** Confirms a pending payment as its payer, or a pending refund as the bank: the next request about it finds the charge, or the refund. */
  confirm(key: string): void {
    this.#service.decide((processor) => processor.confirm(key));
  }

  /** Refuses a pending payment as its payer, or a pending refund as the bank, and it is declined for this reason. */
  refuse(key: string, reason = 'the payer refused'): void {
    this.#service.decide((processor) => processor.refuse(key, reason));
  }

  /**
   * The next requests of this operation meet the fault. Faults of one operation are met in the order in which they were given. A fault that the
   * operation does not know is a TypeError.
   */
  next<Operation extends FakeOperation>(operation: Operation, fault: FakeFault<Operation>, times = 1): void {
    requireFault(operation, fault);
    const operationId = OPERATION_IDS[operation] ?? operation;
    for (let time = 0; time < times; time += 1) this.#faults.push({ operationId, fault });
  }

  /** All keys that are not paid yet are unknown from now on, as after a loss of the key-value store. References are paid as before. */
  forgetKeys(): void {
    this.#service.forgetKeys();
  }

  /** For `new Idempay({ baseUrl: fake.baseUrl, fetch: fake.fetch })`. */
  readonly fetch = async (url: string, init: RequestInit = {}): Promise<Response> => {
    init.signal?.throwIfAborted();
    const answer = await this.#meet(await requestOf(url, init));
    init.signal?.throwIfAborted();
    if (answer === 'lost') throw new TypeError('fetch failed', { cause: new Error('the fake lost the connection') });
    const { status, headers, body } = answer;
    return new Response(WITHOUT_BODY.has(status) ? null : new Uint8Array(body), { status, headers });
  };

  /** Serves the same on a free port of 127.0.0.1. */
  listen(): Promise<FakeListener> {
    return listenWith((request) => this.#meet(request));
  }

  /** The answer to one request, or that there is none. */
  async handle({ method, path, query, headers, body }: FakeRequest): Promise<FakeAnswer | 'lost'> {
    const search = `${new URLSearchParams(query)}`;
    const url = search === '' ? path : `${path}?${search}`;
    const rawHeaders = Object.entries({ host: new URL(this.baseUrl).host, ...headers }).flat();
    const answer = await this.#meet({ method, url, rawHeaders, body: Buffer.from(body) });
    return answer === 'lost' ? answer : { ...answer, body: answer.body.toString() };
  }

  #meet(request: SentRequest): Promise<WholeAnswer | 'lost'> {
    return workUnderWay.during(() => this.#answer(request, readRequest(request)));
  }

  async #answer(sent: SentRequest, request: FakeRequest): Promise<WholeAnswer | 'lost'> {
    const operation = this.#service.operationOf(request);
    const at = this.#faults.findIndex(({ operationId }) => operationId === operation?.id);
    const [{ fault } = { fault: undefined }] = at < 0 ? [] : this.#faults.splice(at, 1);
    if (isBefore(fault)) return fault.lose === 'request' ? 'lost' : answerBefore(fault, request);
    this.requests.push(request);
    const answer = await this.#service.answer(sent, operation, processingOf(fault));
    if (typeof fault !== 'object' || isOfProcessor(fault)) return answer;
    if ('lose' in fault) return 'lost';
    if ('cut' in fault) return { ...answer, body: answer.body.subarray(0, answer.body.length / 2) };
    return faultAnswer(fault, request);
  }
}

/** The request as the `fetch` of Node.js sends it: a body that is an object of the platform brings its media type. */
async function requestOf(url: string, { method = 'GET', headers: given, body }: RequestInit): Promise<SentRequest> {
  const { host, pathname, search } = new URL(url);
  const headers = new Headers(given);
  // The usual one has its media type, and a `Response` costs more than the payment.
  const isUsual = typeof body === 'string' && headers.has('content-type');
  const sent = isUsual || !body ? undefined : new Response(body);
  const mediaType = headers.get('content-type') ?? sent?.headers.get('content-type');
  if (mediaType) headers.set('content-type', mediaType);
  return {
    method,
    url: `${pathname}${search}`,
    rawHeaders: ['host', host, ...[...headers].flat()],
    body: isUsual ? Buffer.from(body) : Buffer.from((await sent?.arrayBuffer()) ?? new ArrayBuffer(0)),
  };
}

function readRequest({ method, url, rawHeaders, body }: SentRequest): FakeRequest {
  const { pathname: path, searchParams } = new URL(url, 'http://any');
  const query = Object.fromEntries(searchParams);
  return { method, path, query, headers: headersOf(rawHeaders), body: body.toString() };
}

type FaultBefore = { readonly lose?: 'request'; readonly status: number; readonly retryAfterSeconds?: number };

function isBefore(fault: FakeFault | undefined): fault is FakeFault & FaultBefore {
  if (typeof fault !== 'object') return false;
  return ('lose' in fault && fault.lose === 'request') || ('status' in fault && !fault.after);
}

type OfProcessor = Extract<FakeFault, { decline: string } | { pending: object }>;
const isOfProcessor = (fault: object): fault is OfProcessor => 'decline' in fault || 'pending' in fault;

function processingOf(fault: FakeFault | undefined): FakeProcessing {
  if (typeof fault !== 'object') return fault;
  return isOfProcessor(fault) ? fault : undefined;
}

/** The service's own answer if it has one with this status, else a gateway's. */
function answerBefore(fault: FaultBefore, request: FakeRequest): WholeAnswer {
  const answer = faultAnswer(fault, request);
  if (!(fault.status in messagesOf(request))) return answer;
  return { ...answer, headers: { ...answer.headers, ...fixedHeaders(false), 'x-request-id': requestIdOf(request) } };
}

/** With the service's own text, if a status has one that fits. A fault after the work is no more than this: the answer of a gateway. */
function faultAnswer(
  { status, retryAfterSeconds }: { status: number; retryAfterSeconds?: number },
  request: FakeRequest,
): WholeAnswer {
  const { path, query, headers: asked } = request;
  const by = query.reference === undefined ? 'key' : 'reference';
  const error = messagesOf(request)[status]?.(by) ?? publicErrors.refused(status, 'A fault that the test asked for.');
  const { contentType, text } = formOf(error, asked.accept, TOLD[path]);
  return {
    status,
    headers: {
      'content-type': contentType,
      'cache-control': 'no-store',
      ...error.headers,
      ...(retryAfterSeconds !== undefined && { 'Retry-After': `${retryAfterSeconds}` }),
    },
    body: Buffer.from(text),
  };
}
