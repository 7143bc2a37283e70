import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { LRUCache } from 'lru-cache';
import type { Access } from '../../access/access.js';
import type { UnpaidKeys } from '../../limits/unpaid-keys.js';
import type { PayAnswer } from '../../payments/answers.js';
import type { PaymentRecords } from '../../payments/history/payment-records.js';
import type { Payments } from '../../payments/payments.js';
import { type Content, membersLikeCards } from '../../payments/values/content.js';
import { readKeyHeader } from '../../payments/values/idempotency-key.js';
import type { FinalOutcome } from '../../payments/values/payment.js';
import type { ComputeKey, NamedPayment } from '../../payments/values/reference.js';
import { answerWith, sendError } from '../errors/errors.js';
import type { PublicError } from '../errors/public-error.js';
import { publicErrors } from '../errors/public-errors.js';
import { prefersProblem } from '../requests/accept.js';
import { visibleClient } from '../requests/access-check.js';
import { requiredBody } from '../requests/body-parser.js';
import { whenClientIsGone } from '../requests/client-gone.js';
import type { HttpMeasures } from '../requests/measures.js';
import { preferredWaitSeconds, prefersRepresentation } from '../requests/prefer.js';
import * as descriptions from './description.js';
import { createJudgeOwner } from './operated-reference.js';
import { createPaidRecord } from './paid-record.js';
import {
  isAttemptNamed,
  type NamedReference,
  named,
  OperatedReferenceQuery,
  ReferenceQuery,
  referenceIn,
  refuseOtherKey,
} from './reference-request.js';
import { cancelRefusalOf, countedAs, faultCountedAs, refusalOf } from './refusals.js';
import { readPaymentRequest } from './request.js';

declare module 'fastify' {
  interface FastifyRequest {
    /** What the request names, at the routes that need a name; undefined where that is no key. */
    payment: NamedPayment | undefined;
  }
}

/** Beyond them the one that was given longest ago may be given again. */
const REMEMBERED_WARNINGS = 1_000;

interface PaymentRouteFeatures {
  readonly payments: Payments;
  readonly paymentRecords: PaymentRecords;
  readonly unpaidKeys: Pick<UnpaidKeys, 'take'>;
}

/** Spec 4.1. Rule P1: every answer is JSON text that no cache may store. */
export function registerPaymentRoutes(
  app: FastifyInstance,
  { payments, paymentRecords: records, unpaidKeys }: PaymentRouteFeatures,
  measures: Pick<HttpMeasures, 'paid'>,
  access: Access | undefined,
): void {
  app.decorateRequest('payment', undefined);
  // Asked for with a request only: the description is also made of a server that has no payments.
  const computeKey: ComputeKey = (reference) => payments.computeKey(reference);
  const warned = new LRUCache<string, true>({ max: REMEMBERED_WARNINGS });
  const judgeOwner = createJudgeOwner(access, records);
  const paidRecord = createPaidRecord((key, client) => records.get(key, client));

  /** Every answer is counted once: here, or where its exception is answered. */
  async function answerPayment(reply: FastifyReply, payment: NamedPayment, answer: PayAnswer): Promise<void> {
    const paid = paidIn(answer);
    measures.paid(countedAs(answer), paid?.transactionId);
    if (answer.state === 'replayed') reply.header('idempotent-replayed', 'true');
    if (paid) return sendPaid(reply, { key: payment.key, ...paid });
    const error = refusalOf(answer, payment.reference ? 'reference' : 'key');
    // The row is cancelled: what it says of the charge is not what the processor answered.
    if (answer.state !== 'charged after cancellation') return refuse(reply, error, payment);
    sendError(reply, error, 'made');
  }

  /**
   * What is known of the charge is read only for a program that asks for it (rule P20), and not where the refusal itself says that
   * it is not known: 409, and from 500 on.
   */
  async function refuse(reply: FastifyReply, error: PublicError, payment: NamedPayment): Promise<void> {
    const mayBeKnown = error.status < 500 && error.status !== 409;
    const isAsked = mayBeKnown && prefersProblem(reply.request.headers.accept);
    sendError(reply, error, isAsked ? await payments.tellCharge(payment) : undefined);
  }

  /** The record of what is paid, where the request prefers it (rule P20); else the sentence. */
  async function sendPaid(
    reply: FastifyReply,
    { key, transactionId, sentence }: Paid & { readonly key: string },
  ): Promise<void> {
    const { request } = reply;
    const record = prefersRepresentation(request.headers.prefer)
      ? await paidRecord(key, transactionId, visibleClient(request))
      : undefined;
    if (record === undefined) sendText(reply, sentence);
    else sendJson(withPreference(reply, 'return=representation'), record);
  }

  function countFault(_request: FastifyRequest, _reply: FastifyReply, fault: Error, done: () => void): void {
    measures.paid(faultCountedAs(fault));
    done();
  }

  app.get(
    '/api/server-generated/generate-key',
    {
      exposeHeadRoute: false,
      schema: { querystring: ReferenceQuery },
      config: {
        operation: 'generate key',
        scopes: ['payments:write'],
        tellsCharge: 'with reference',
        description: descriptions.generateKey,
      },
    },
    (request, reply) => {
      const asked = referenceIn(request);
      if (asked) {
        issueComputedKey(reply, named(asked, computeKey));
        return;
      }
      if (!unpaidKeys.take(request.caller?.client)) throw publicErrors.tooManyUnpaidKeys();
      answerWith(reply, payments.issueKey(request.caller?.client), (key) => {
        sendText(reply, key);
      });
    },
  );

  /** Once for each client and member, and never with the value. */
  function warnOfCards(request: FastifyRequest, content: Content): void {
    const client = request.caller?.client;
    for (const member of membersLikeCards(content)) {
      const warning = `${client ?? ''} ${member}`;
      if (warned.has(warning)) continue;
      warned.set(warning, true);
      request.log.warn(
        { client, member },
        'a number in this member looks like a card number, which never belongs here',
      );
    }
  }

  function issueComputedKey(reply: FastifyReply, { key, reference }: NamedReference): void {
    reply.header(KEY_HEADER, key);
    answerWith(reply, payments.issueComputedKey(key, reference), (answer) => {
      if (answer.state !== 'issued') return refuse(reply, refusalOf(answer, 'reference'), { key, reference });
      sendText(reply, key);
    });
  }

  app.post(
    '/api/payment',
    {
      onRequest: nameOf(computeKey, 'client'),
      onError: countFault,
      schema: { querystring: ReferenceQuery },
      config: {
        operation: 'pay',
        scopes: ['payments:write'],
        isPayment: true,
        tellsCharge: true,
        description: descriptions.pay,
      },
    },
    (request, reply) => {
      const payment = request.payment;
      const body = requiredBody(request);
      if (!payment) {
        measures.paid('invalid_key');
        sendError(reply, publicErrors.invalidIdempotencyKey());
        return;
      }
      const waitSeconds = preferredWaitSeconds(request.headers.prefer);
      const patience = waitSeconds === undefined ? undefined : { ms: waitSeconds * 1000, gone: clientGone(reply) };
      const asked = readPaymentRequest(body);
      if ('content' in asked && asked.content) warnOfCards(request, asked.content);
      answerWith(reply, payments.pay(payment, asked, patience), (answer) => {
        if (answer.waited) withPreference(reply, `wait=${waitSeconds}`);
        return answerPayment(reply, payment, answer);
      });
    },
  );

  app.get(
    '/api/payment-status',
    {
      onRequest: nameOf(computeKey, 'question'),
      schema: { querystring: OperatedReferenceQuery },
      config: {
        operation: 'payment status',
        scopes: ['payments:read', 'operations'],
        tellsCharge: true,
        description: descriptions.paymentStatus,
      },
    },
    (request, reply) => {
      const { payment } = request;
      if (!payment) throw publicErrors.paymentNotFound();
      const answer = () => {
        if (payment.reference && !isAttemptNamed(request)) answerNewest(request, reply, payment as NamedReference);
        else
          answerWith(reply, payments.outcome(payment.key, payment.client), (final) =>
            sendStatus(reply, payment, final),
          );
      };
      const judged = judgeOwner(request, reply, payment.reference);
      if (judged) answerWith(reply, judged, answer);
      else answer();
    },
  );

  function answerNewest(request: FastifyRequest, reply: FastifyReply, first: NamedReference): void {
    answerWith(reply, payments.newestOutcome(first), ({ key, final }) => {
      refuseOtherKey(keyHeaderOf(request), key);
      return sendStatus(reply.header(KEY_HEADER, key), { ...first, key }, final);
    });
  }

  async function sendStatus(
    reply: FastifyReply,
    payment: NamedPayment,
    final: FinalOutcome | undefined,
  ): Promise<void> {
    if (final?.outcome.state !== 'COMPLETED') return refuse(reply, publicErrors.paymentNotFound(), payment);
    const { transactionId } = final.outcome;
    return sendPaid(reply, { key: payment.key, transactionId, sentence: `Transaction ID: ${transactionId}` });
  }

  app.post(
    '/api/payment-cancellation',
    {
      onRequest: nameOf(computeKey, 'operator'),
      schema: { querystring: OperatedReferenceQuery },
      config: {
        operation: 'cancel payment',
        scopes: ['payments:write', 'operations'],
        tellsCharge: true,
        description: descriptions.cancelPayment,
      },
    },
    (request, reply) => {
      const { payment } = request;
      if (!payment) throw publicErrors.invalidIdempotencyKey();
      const judged = judgeOwner(request, reply, payment.reference);
      const cancelled = judged ? judged.then(() => payments.cancel(payment)) : payments.cancel(payment);
      answerWith(reply, cancelled, (answer) => {
        if (answer.state !== 'cancelled') {
          return refuse(reply, cancelRefusalOf(answer, payment.reference?.attempt), payment);
        }
        sendText(reply, 'Payment cancelled.');
      });
    },
  );
}

const KEY_HEADER = 'idempotency-key';
const APPLIED_HEADER = 'preference-applied';

/**
 * Rule 1 of spec 4.1 comes before the body is read, so it wins over a fault of the body (rule P3). A reference stands for the key, which
 * every answer from here on names.
 */
function nameOf(computeKey: ComputeKey, by: 'client' | 'operator' | 'question') {
  return (request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void): void => {
    try {
      request.payment = namedPayment(request, reply, computeKey, by);
      done();
    } catch (problem) {
      done(problem as Error);
    }
  };
}

/** Undefined for a header that holds no key. Throws for a request that names nothing, or in the wrong way. */
function namedPayment(
  request: FastifyRequest,
  reply: FastifyReply,
  computeKey: ComputeKey,
  by: 'client' | 'operator' | 'question',
): NamedPayment | undefined {
  const header = keyHeaderOf(request);
  const asked = referenceIn(request, by !== 'client');
  if (asked) {
    const payment = named(asked, computeKey);
    // A question without an attempt is about the newest, which is not known yet.
    if (asked.attempt !== undefined || by !== 'question') refuseOtherKey(header, payment.key);
    reply.header(KEY_HEADER, payment.key);
    return payment;
  }
  const read = readKeyHeader(header);
  if (read.state === 'missing') throw publicErrors.missingIdempotencyKey();
  const client = by === 'client' ? request.caller?.client : visibleClient(request);
  return read.state === 'present' ? { key: read.key, client } : undefined;
}

/** Aborted when the connection ends before the answer. */
function clientGone(reply: FastifyReply): AbortSignal {
  const gone = new AbortController();
  whenClientIsGone(reply, () => gone.abort());
  return gone.signal;
}

/** A payment that is completed, and the sentence of spec 2.4. */
interface Paid {
  readonly transactionId: string;
  readonly sentence: string;
}

function paidIn(answer: PayAnswer): Paid | undefined {
  if (answer.state !== 'processed' && answer.state !== 'replayed') return undefined;
  const { outcome } = answer.final;
  if (outcome.state !== 'COMPLETED') return undefined;
  const sentence = `Transaction ID: ${outcome.transactionId}`;
  return {
    transactionId: outcome.transactionId,
    sentence: answer.state === 'processed' ? `Payment processed successfully with ${sentence}` : sentence,
  };
}

/** Names a preference of the request that was applied, after those that were named before. */
function withPreference(reply: FastifyReply, applied: string): FastifyReply {
  const before = reply.getHeader(APPLIED_HEADER);
  return reply.header(APPLIED_HEADER, before === undefined ? applied : `${before}, ${applied}`);
}

/** A JSON document of one string (spec 2.4). The texts are ours and hold nothing that would need escaping. */
function sendText(reply: FastifyReply, text: string): FastifyReply {
  return sendJson(reply, `"${text}"`);
}

function sendJson(reply: FastifyReply, json: string): FastifyReply {
  return reply.header('content-type', 'application/json; charset=utf-8').header('cache-control', 'no-store').send(json);
}

/** Node joins a header that was sent twice with a comma, so there is only ever one string. */
function keyHeaderOf(request: FastifyRequest): string | undefined {
  return request.headers['idempotency-key'] as string | undefined;
}
