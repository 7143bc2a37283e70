import type { Server } from 'node:http';
import { Server as TlsServer } from 'node:https';
import { type FastifyBaseLogger, type FastifyInstance, fastify, LogController } from 'fastify';
import type { Access } from '../access/access.js';
import type { Health } from '../health/health.js';
import type { Readiness } from '../health/readiness.js';
import { createBodyBudget } from '../limits/byte-budget.js';
import type { RequestLimit } from '../limits/request-limit.js';
import type { UnpaidKeys } from '../limits/unpaid-keys.js';
import type { LiveView } from '../live/live-view.js';
import type { AskProcessor } from '../payments/history/ask-processor.js';
import type { Activity } from '../payments/history/payment-activity.js';
import type { PaymentRecords } from '../payments/history/payment-records.js';
import type { FindTimeline } from '../payments/history/timeline.js';
import type { Payments } from '../payments/payments.js';
import type { SettlementFeed } from '../payments/settlement-feed.js';
import type { StoreUnavailable } from '../platform/faults.js';
import type { Transactions } from '../transactions/transactions.js';
import type { WebhookOperations } from '../webhooks/operations.js';
import { fixedHeaders } from './connections/fixed-headers.js';
import type { Listener } from './connections/listener.js';
import { headProblem, isForThisMachine } from './connections/request-head.js';
import { createAddressOf } from './connections/trusted-networks.js';
import { consolePages } from './console/console-pages.js';
import { publicErrors } from './errors/catalogue.js';
import { installErrorHandler, publicErrorOf, sendError } from './errors/error-answers.js';
import { problems } from './errors/problems-page.js';
import { describeRoutes } from './openapi/document.js';
import { openApiJson } from './openapi/openapi-json.js';
import { referencePage } from './openapi/reference-page.js';
import { keyValueStore } from './operations/key-value-store.js';
import { getLiveSamples } from './operations/live.js';
import { type Metrics, metricsText } from './operations/metrics.js';
import { probes } from './operations/probes.js';
import { type SessionFacts, session } from './operations/session.js';
import { cancelPayment } from './payments/cancel-payment.js';
import { exportPayments } from './payments/export-payments.js';
import { generateKey } from './payments/generate-key.js';
import { getPayment } from './payments/get-payment.js';
import { listPayments } from './payments/list-payments.js';
import { listRefunds } from './payments/list-refunds.js';
import { listSettlements } from './payments/list-settlements.js';
import { pay } from './payments/pay.js';
import { paymentActivity } from './payments/payment-activity.js';
import { paymentStatus } from './payments/payment-status.js';
import { paymentTimeline } from './payments/payment-timeline.js';
import { processorAnswer } from './payments/processor-answer.js';
import { refundPayment } from './payments/refund-payment.js';
import { resolvePayment } from './payments/resolve-payment.js';
import { checkCredentials, checkScopes } from './requests/access-check.js';
import { BODY_LIMIT_BYTES, installBodyParser } from './requests/body-parser.js';
import { type HttpMeasures, NO_ROUTE, NOT_MEASURED } from './requests/measures.js';
import { isOfOtherSite } from './requests/other-sites.js';
import { countRequests } from './requests/request-counts.js';
import { REQUEST_ID_HEADER, requestIdOf } from './requests/request-id.js';
import { limitRequests } from './requests/request-limit-hook.js';
import { logRequests } from './requests/request-log.js';
import { type RequestTraces, traceRequests } from './requests/request-traces.js';
import { RequestsUnderWay } from './requests/requests-under-way.js';
import { discardBody } from './requests/unread-bodies.js';
import { watchMethods } from './requests/wrong-methods.js';
import './route-options.js';
import { changeStatus } from './transactions/change-status.js';
import { createTransaction } from './transactions/create-transaction.js';
import { createTransactions } from './transactions/create-transactions.js';
import { deleteTransaction } from './transactions/delete-transaction.js';
import { getTransaction } from './transactions/get-transaction.js';
import { listTransactions } from './transactions/list-transactions.js';
import { searchTransactions } from './transactions/search-transactions.js';
import type { TransactionChanges } from './transactions/transaction-changes.js';
import { webhooks } from './webhooks/webhooks.js';

/** As long as a header section may be, so that an over-long id or key is answered by its route. */
const MAX_PARAMETER_LENGTH = 16_384;

declare module 'fastify' {
  interface FastifyRequest {
    /** The address that it comes from, in place of `ip`, which knows no proxies. */
    readonly address: string;
  }
}

export interface Features {
  /** If omitted, changes are not reported. */
  readonly transactionChanges?: TransactionChanges;
  readonly payments: Payments;
  readonly paymentRecords: PaymentRecords;
  readonly unpaidKeys: Pick<UnpaidKeys, 'take'>;
  readonly settlementFeed: Pick<SettlementFeed, 'read'>;
  readonly webhookOperations: WebhookOperations;
  readonly findTimeline: FindTimeline;
  readonly askProcessor: AskProcessor;
  readonly paymentActivity: () => Promise<Activity>;
  readonly transactions: Transactions;
  readonly health: Health;
  readonly readiness: Readiness;
  readonly metrics: Metrics;
  readonly session: SessionFacts;
  readonly live: LiveView;
}

export interface ServerRules {
  /** The number of requests of each client; undefined if there is no limit. */
  readonly requestLimit?: RequestLimit | undefined;
  /** The callers that are served; undefined if everybody is. */
  readonly access: Access | undefined;
  /** Only requests for a name of this machine are served. */
  readonly loopbackOnly: boolean;
  /** Proxies whose X-Forwarded-For names the client's address; without any it is the connection's. */
  readonly trustedNetworks: readonly string[] | undefined;
}

/** The parts that endpoints have; each names the ones that it takes. */
interface EndpointContext extends Features {
  readonly measures: HttpMeasures;
  readonly access: Access | undefined;
}

/** In the order of the description. A file has one endpoint, or a few that are one thought. */
const ENDPOINTS: readonly ((app: FastifyInstance, context: EndpointContext) => void)[] = [
  generateKey,
  pay,
  paymentStatus,
  cancelPayment,
  refundPayment,
  listPayments,
  exportPayments,
  getPayment,
  listRefunds,
  listSettlements,
  resolvePayment,
  paymentTimeline,
  processorAnswer,
  paymentActivity,
  listTransactions,
  getTransaction,
  changeStatus,
  deleteTransaction,
  createTransaction,
  createTransactions,
  searchTransactions,
  webhooks,
  keyValueStore,
  probes,
  metricsText,
  getLiveSamples,
  openApiJson,
  problems,
  referencePage,
  session,
  consolePages,
];

/** The HTTP side of the service: routes to features, with one error body everywhere. `routing` of it answers requests. */
export function createServer(
  listener: Pick<Listener, 'server'>,
  features: Features,
  { access, requestLimit, loopbackOnly, trustedNetworks }: ServerRules,
  logger: FastifyBaseLogger,
  onUnavailable: (fault: StoreUnavailable) => void,
  measures: HttpMeasures = NOT_MEASURED,
  traces?: RequestTraces,
): FastifyInstance {
  const sentAlways = lowerCase(fixedHeaders(listener.server instanceof TlsServer));
  const requestIdHeader = REQUEST_ID_HEADER.toLowerCase();
  const nowhere = measures.route(NO_ROUTE);
  const app = fastify<Server>({
    loggerInstance: sharedByRequests(logger),
    logController: new LogController({ disableRequestLogging: true }),
    genReqId: requestIdOf,
    requestIdHeader: false,
    bodyLimit: BODY_LIMIT_BYTES,
    return503OnClosing: false,
    // The listener was opened earlier, and itself handles bytes that never become a request.
    serverFactory: () => listener.server,
    clientErrorHandler: () => {},
    routerOptions: { maxParamLength: MAX_PARAMETER_LENGTH },
    // The schemas of the routes are ours. Each start would check them for as long as it takes to compile them.
    ajv: { customOptions: { coerceTypes: false, removeAdditional: false, validateSchema: false } },
    frameworkErrors(error, request, reply) {
      const answer = publicErrorOf(error);
      // A request that the router refuses has no decorations, and a long body takes turns by its address.
      Object.assign(request, { address: addressOf(request.raw) });
      sendError(reply.header(requestIdHeader, request.id).headers(sentAlways), answer);
      // No hook is called for it.
      nowhere.ended(request.method, answer.status, 0);
    },
  });

  const addressOf = createAddressOf(trustedNetworks);
  app.decorateRequest('address', {
    getter() {
      return addressOf(this.raw);
    },
  });
  app.decorate('requestsUnderWay', new RequestsUnderWay());
  if (traces) traceRequests(app, traces);
  app.addHook('onRequest', (request, reply, done) => {
    reply.header(requestIdHeader, request.id).headers(sentAlways);
    const problem = headProblem(request.raw);
    // A draining process closes its connections soon. A client that opens another one now meets no reset then.
    if (problem?.framing || features.readiness.isDraining) reply.raw.shouldKeepAlive = false;
    if (request.method === 'GET' || request.method === 'HEAD') discardBody(request);
    // Refused before the body is looked at, as a wrong method is.
    const misdirected = loopbackOnly && !isForThisMachine(request.raw) ? publicErrors.misdirected() : undefined;
    const otherSite = !access && isOfOtherSite(request) ? publicErrors.otherSite() : undefined;
    done(problem?.error ?? misdirected ?? otherSite ?? (request.is404 ? publicErrors.unknownRoute() : undefined));
  });
  checkCredentials(app, access);
  describeRoutes(app);
  limitRequests(app, requestLimit);
  checkScopes(app, access);
  logRequests(app);
  countRequests(app, measures);
  const answerWrongMethods = watchMethods(app);
  installBodyParser(app, createBodyBudget());
  installErrorHandler(app, onUnavailable, measures);
  for (const register of ENDPOINTS) register(app, { ...features, measures, access });
  answerWrongMethods();
  return app;
}

/**
 * A logger that is its own child. A child for each request costs time, and few requests log; those name the request
 * themselves. `childLoggerFactory` is not used: the framework checks its result in each request.
 */
function sharedByRequests(logger: FastifyBaseLogger): FastifyBaseLogger {
  const shared: FastifyBaseLogger = Object.assign(Object.create(logger), { child: () => shared });
  return shared;
}

/** The framework lower-cases names in each answer; a lower-case name needs no new string. */
function lowerCase(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}
