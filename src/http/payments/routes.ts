import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { PayAnswer } from '../../payments/answers.js';
import type { Payments } from '../../payments/payments.js';
import { isKeyHeaderMissing, readKeyHeader } from '../../payments/values/idempotency-key.js';
import type { FinalOutcome } from '../../payments/values/payment.js';
import { answerWith, sendError } from '../errors/errors.js';
import { type PublicError, publicErrors } from '../errors/public-errors.js';
import { visibleClient } from '../requests/access-check.js';
import { requiredBody } from '../requests/body-parser.js';
import type { HttpMeasures } from '../requests/measures.js';
import { preferredWaitSeconds } from '../requests/prefer.js';
import * as descriptions from './description.js';
import { outcomeOf, outcomeOfFault } from './outcome.js';
import { readPaymentRequest } from './request.js';

/** Spec 4.1. Decisions P1: every answer is JSON text that no cache may store. */
export function registerPaymentRoutes(
  app: FastifyInstance,
  payments: Payments,
  measures: Pick<HttpMeasures, 'paid'>,
): void {
  /** Every answer is counted once: here, or where its exception is answered. */
  function answerPayment(reply: FastifyReply, answer: PayAnswer): void {
    measures.paid(outcomeOf(answer));
    sendAnswer(reply, answer);
  }

  function countFault(_request: FastifyRequest, _reply: FastifyReply, fault: Error, done: () => void): void {
    measures.paid(outcomeOfFault(fault));
    done();
  }

  app.get(
    '/api/server-generated/generate-key',
    {
      exposeHeadRoute: false,
      config: { operation: 'generate key', scopes: ['payments:write'], description: descriptions.generateKey },
    },
    (request, reply) => {
      answerWith(reply, payments.issueKey(request.caller?.client), (key) => {
        sendText(reply, key);
      });
    },
  );

  app.post(
    '/api/payment',
    {
      onRequest: requireKeyHeader,
      onError: countFault,
      config: { operation: 'pay', scopes: ['payments:write'], description: descriptions.pay },
    },
    (request, reply) => {
      const header = readKeyHeader(keyHeaderOf(request));
      const body = requiredBody(request);
      if (header.state !== 'present') {
        answerPayment(reply, { state: 'invalid key' });
        return;
      }
      const waitSeconds = preferredWaitSeconds(request.headers.prefer);
      const patience = waitSeconds === undefined ? undefined : { ms: waitSeconds * 1000, gone: clientGone(reply) };
      answerWith(
        reply,
        payments.pay(header.key, readPaymentRequest(body), patience, request.caller?.client),
        (answer) => {
          if (answer.waited) reply.header('preference-applied', `wait=${waitSeconds}`);
          answerPayment(reply, answer);
        },
      );
    },
  );

  app.get(
    '/api/payment-status',
    {
      onRequest: requireKeyHeader,
      config: {
        operation: 'payment status',
        scopes: ['payments:read', 'operations'],
        description: descriptions.paymentStatus,
      },
    },
    (request, reply) => {
      const header = readKeyHeader(keyHeaderOf(request));
      if (header.state !== 'present') throw publicErrors.paymentNotFound();
      answerWith(reply, payments.outcome(header.key, visibleClient(request)), (final) => {
        if (final?.outcome.state !== 'COMPLETED') throw publicErrors.paymentNotFound();
        sendText(reply, `Transaction ID: ${final.outcome.transactionId}`);
      });
    },
  );
}

/** Rule 1 of spec 4.1 comes before the body is read, so it wins over a fault of the body (decisions P3). */
function requireKeyHeader(request: FastifyRequest, _reply: FastifyReply, done: (error?: Error) => void): void {
  done(isKeyHeaderMissing(keyHeaderOf(request)) ? publicErrors.missingIdempotencyKey() : undefined);
}

/** Aborted when the connection ends before the answer. */
function clientGone(reply: FastifyReply): AbortSignal {
  const gone = new AbortController();
  reply.raw.once('close', () => gone.abort());
  return gone.signal;
}

function sendAnswer(reply: FastifyReply, answer: PayAnswer): void {
  if (answer.state === 'processed' || answer.state === 'replayed') sendOutcome(reply, answer.state, answer.final);
  else sendError(reply, refusalOf(answer));
}

function sendOutcome(reply: FastifyReply, state: 'processed' | 'replayed', final: FinalOutcome): FastifyReply {
  if (state === 'replayed') reply.header('idempotent-replayed', 'true');
  if (final.outcome.state === 'DECLINED') return sendError(reply, publicErrors.paymentDeclined(final.outcome.reason));
  const { transactionId } = final.outcome;
  return sendText(
    reply,
    state === 'processed'
      ? `Payment processed successfully with Transaction ID: ${transactionId}`
      : `Transaction ID: ${transactionId}`,
  );
}

function refusalOf(answer: Exclude<PayAnswer, { state: 'processed' | 'replayed' }>): PublicError {
  switch (answer.state) {
    case 'in progress':
      return publicErrors.paymentInProgress(answer.retryAfterSeconds);
    case 'busy':
      return publicErrors.tooManyPayments(answer.retryAfterSeconds);
    case 'invalid key':
      return publicErrors.invalidIdempotencyKey();
    case 'invalid content':
      return publicErrors.invalidBody(answer.problem);
    case 'mismatch':
      return publicErrors.paymentMismatch();
    case 'not sent':
      return publicErrors.paymentNotSent();
    case 'unknown':
      return publicErrors.paymentOutcomeUnknown();
  }
}

/** A JSON document of one string (spec 2.4). The texts are ours and hold nothing that would need escaping. */
function sendText(reply: FastifyReply, text: string): FastifyReply {
  return reply
    .header('content-type', 'application/json; charset=utf-8')
    .header('cache-control', 'no-store')
    .send(`"${text}"`);
}

/** Node joins a header that was sent twice with a comma, so there is only ever one string. */
function keyHeaderOf(request: FastifyRequest): string | undefined {
  return request.headers['idempotency-key'] as string | undefined;
}
