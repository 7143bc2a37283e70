import { type FastifyBaseLogger, type FastifyInstance, fastify } from 'fastify';
import type { Health } from '../health/health.js';
import type { Payments } from '../payments/payments.js';
import type { Transactions } from '../transactions/transactions.js';
import { BODY_LIMIT_BYTES, installBodyParser } from './body-parser.js';
import { answerMalformedHttp, installErrorHandler, publicErrorOf, sendError } from './errors.js';
import { registerHealthRoutes } from './health-routes.js';
import { registerPaymentRoutes } from './payment-routes.js';
import { REQUEST_ID_HEADER, requestIdOf } from './request-id.js';
import { registerTransactionRoutes } from './transaction-routes.js';
import { watchMethods } from './wrong-methods.js';

/** A request that has not arrived whole by then is cut (408); the framework's own default is never. */
const REQUEST_TIMEOUT_MS = 30_000;
/** Longer than the idle time-out of the usual load balancers (60 s), so that it is never us who close under a request. */
const KEEP_ALIVE_TIMEOUT_MS = 72_000;
/** As long as a header section may be, so that an over-long id or key is answered by its route. */
const MAX_PARAMETER_LENGTH = 16_384;

export interface Features {
  readonly payments: Payments;
  readonly transactions: Transactions;
  readonly health: Health;
}

/** The HTTP side of the service: routes to features, with one error body everywhere. Not yet listening. */
export function createServer(features: Features, logger: FastifyBaseLogger): FastifyInstance {
  const app = fastify({
    loggerInstance: logger,
    disableRequestLogging: true,
    genReqId: requestIdOf,
    requestIdHeader: false,
    bodyLimit: BODY_LIMIT_BYTES,
    requestTimeout: REQUEST_TIMEOUT_MS,
    keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
    return503OnClosing: false,
    routerOptions: { maxParamLength: MAX_PARAMETER_LENGTH },
    ajv: { customOptions: { coerceTypes: false, removeAdditional: false } },
    clientErrorHandler: answerMalformedHttp,
    frameworkErrors: (error, _request, reply) => sendError(reply, publicErrorOf(error)),
  });

  app.addHook('onRequest', (request, reply, done) => {
    reply.header(REQUEST_ID_HEADER, request.id);
    done();
  });
  const answerWrongMethods = watchMethods(app);
  installBodyParser(app);
  installErrorHandler(app);
  registerPaymentRoutes(app, features.payments);
  registerTransactionRoutes(app, features.transactions);
  registerHealthRoutes(app, features.health);
  answerWrongMethods();
  return app;
}
