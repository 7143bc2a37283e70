import { createServer as createHttpServer, type RequestListener, type Server } from 'node:http';
import { type FastifyBaseLogger, type FastifyInstance, fastify, LogController } from 'fastify';
import type { Access } from '../access/access.js';
import type { StoreUnavailable } from '../faults.js';
import type { Health } from '../health/health.js';
import type { Payments } from '../payments/payments.js';
import type { PaymentRecords } from '../payments/records/payment-records.js';
import type { Transactions } from '../transactions/transactions.js';
import { checkAccess } from './access-check.js';
import { BODY_LIMIT_BYTES, installBodyParser } from './body-parser.js';
import { answerMalformedHttp, guardConnections } from './connections.js';
import { installErrorHandler, publicErrorOf, sendError } from './errors.js';
import { answerExpectations } from './expectations.js';
import { registerHealthRoutes } from './health-routes.js';
import { registerPaymentRecordRoutes } from './payment-record-routes.js';
import { registerPaymentRoutes } from './payment-routes.js';
import { publicErrors } from './public-errors.js';
import { headProblem, isForThisMachine, originForm } from './request-head.js';
import { REQUEST_ID_HEADER, requestIdOf } from './request-id.js';
import { logRequests } from './request-log.js';
import { RequestsUnderWay } from './requests-under-way.js';
import { registerTransactionRoutes } from './transaction-routes.js';
import { watchMethods } from './wrong-methods.js';

/** A request that has not arrived whole by then is cut (408); the framework's own default is never. */
const REQUEST_TIMEOUT_MS = 30_000;
/** Longer than the idle time-out of the usual load balancers (60 s), so that it is never us who close under a request. */
const KEEP_ALIVE_TIMEOUT_MS = 72_000;
const HTTP_OPTIONS = {
  requireHostHeader: false,
  requestTimeout: REQUEST_TIMEOUT_MS,
  keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
};
/** As long as a header section may be, so that an over-long id or key is answered by its route. */
const MAX_PARAMETER_LENGTH = 16_384;

export interface Features {
  readonly payments: Payments;
  readonly paymentRecords: PaymentRecords;
  readonly transactions: Transactions;
  readonly health: Health;
}

export interface ServerRules {
  /** Undefined: everybody is served. */
  readonly access: Access | undefined;
  /** Only requests for a name of this machine are served. */
  readonly loopbackOnly: boolean;
}

/** The HTTP side of the service: routes to features, with one error body everywhere. Not yet listening. */
export function createServer(
  features: Features,
  { access, loopbackOnly }: ServerRules,
  logger: FastifyBaseLogger,
  onUnavailable: (fault: StoreUnavailable) => void,
): FastifyInstance {
  const app = fastify<Server>({
    loggerInstance: logger,
    logController: new LogController({ disableRequestLogging: true }),
    genReqId: requestIdOf,
    requestIdHeader: false,
    bodyLimit: BODY_LIMIT_BYTES,
    // A logger for each request would cost every request for the few that log; those name the request themselves.
    childLoggerFactory: (parent) => parent,
    return503OnClosing: false,
    // One server: where the name in HOST has two addresses the framework would make a second one without our listeners.
    serverFactory: (listener) => createHttpServer(HTTP_OPTIONS, inOriginForm(listener)),
    routerOptions: { maxParamLength: MAX_PARAMETER_LENGTH },
    ajv: { customOptions: { coerceTypes: false, removeAdditional: false } },
    clientErrorHandler: answerMalformedHttp,
    frameworkErrors: (error, request, reply) =>
      sendError(reply.header(REQUEST_ID_HEADER, request.id), publicErrorOf(error)),
  });

  app.decorate('requestsUnderWay', new RequestsUnderWay());
  app.addHook('onRequest', (request, reply, done) => {
    reply.header(REQUEST_ID_HEADER, request.id);
    const problem = headProblem(request.raw);
    if (problem?.framing) reply.header('connection', 'close');
    // Refused before the body is looked at, as a wrong method is.
    const misdirected = loopbackOnly && !isForThisMachine(request.raw) ? publicErrors.misdirected() : undefined;
    done(problem?.error ?? misdirected ?? (request.is404 ? publicErrors.unknownRoute() : undefined));
  });
  checkAccess(app, access);
  answerExpectations(app);
  logRequests(app);
  guardConnections(app);
  const answerWrongMethods = watchMethods(app);
  installBodyParser(app);
  installErrorHandler(app, onUnavailable);
  registerPaymentRoutes(app, features.payments);
  registerPaymentRecordRoutes(app, features.paymentRecords);
  registerTransactionRoutes(app, features.transactions);
  registerHealthRoutes(app, features.health);
  answerWrongMethods();
  return app;
}

/** The router knows paths only, and an origin server is also asked in absolute form. */
function inOriginForm(listener: RequestListener): RequestListener {
  return (request, response) => {
    request.url = originForm(request.url ?? '');
    listener(request, response);
  };
}
