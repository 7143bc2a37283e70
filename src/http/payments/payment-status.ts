import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { FinalOutcome } from '../../payments/values/payment.js';
import type { NamedPayment } from '../../payments/values/reference.js';
import { EXAMPLE_PAYMENT_ID, publicErrors } from '../errors/catalogue.js';
import { answerWith } from '../errors/error-answers.js';
import { NO_STORE } from '../openapi/headers.js';
import type { RouteDescription } from '../openapi/route-description.js';
import {
  CLIENT,
  COMPUTED_KEY,
  createWithJudgedClient,
  isAttemptNamed,
  KEY_HEADER,
  keyHeaderOf,
  type NamedReference,
  nameBy,
  OPERATED_REFERENCE,
  type OperatedContext,
  OperatedReferenceQuery,
  operatedReferenceErrors,
  PAYMENT_KEY,
  refuseOtherKey,
} from './named-payment.js';
import { createPaidRecord, PREFER, PREFERENCE_APPLIED, refuse, sendPaid, sentenceOrRecord } from './payment-answers.js';
import { examplePayment } from './shown-payment.js';

/** The payment that was asked about, and its outcome if it has one. */
interface Found {
  readonly payment: NamedPayment;
  readonly final: FinalOutcome | undefined;
}

/** Spec 4.1. */
export function paymentStatus(
  app: FastifyInstance,
  { payments, paymentRecords: records, access }: OperatedContext,
): void {
  const withJudgedClient = createWithJudgedClient(access, records);
  const paidRecord = createPaidRecord((key, client) => records.get(key, client));

  app.get(
    '/api/payment-status',
    {
      onRequest: nameBy(app, (reference) => payments.computeKey(reference), 'question'),
      schema: { querystring: OperatedReferenceQuery },
      config: {
        operation: 'payment status',
        scopes: ['payments:read', 'operations'],
        tellsCharge: true,
        description,
      },
    },
    (request, reply) => {
      const { payment } = request;
      if (!payment) throw publicErrors.paymentNotFound();
      const asked = withJudgedClient(request, reply, payment.reference, () =>
        payment.reference && !isAttemptNamed(request)
          ? outcomeOfNewest(request, reply, payment as NamedReference)
          : outcomeOf(payment),
      );
      answerWith(reply, asked, (found) => sendStatus(reply, found));
    },
  );

  async function outcomeOf(payment: NamedPayment): Promise<Found> {
    return { payment, final: await payments.outcome(payment.key, payment.client) };
  }

  async function outcomeOfNewest(request: FastifyRequest, reply: FastifyReply, first: NamedReference): Promise<Found> {
    const { key, final } = await payments.newestOutcome(first);
    refuseOtherKey(keyHeaderOf(request), key);
    reply.header(KEY_HEADER, key);
    return { payment: { ...first, key }, final };
  }

  async function sendStatus(reply: FastifyReply, { payment, final }: Found): Promise<void> {
    if (final?.outcome.state !== 'COMPLETED') return refuse(payments, reply, publicErrors.paymentNotFound(), payment);
    const { transactionId } = final.outcome;
    return sendPaid(paidRecord, reply, {
      key: payment.key,
      transactionId,
      sentence: `Transaction ID: ${transactionId}`,
    });
  }
}

const description: RouteDescription = {
  operationId: 'getPaymentStatus',
  tag: 'Payments',
  summary: 'The transaction id of a completed payment',
  text: '404 also while the payment is under way, declined or cancelled. `getPayment` tells these apart. With `reference` and without `attempt` it is of the newest attempt.',
  parameters: OPERATED_REFERENCE,
  anyAnswerHeaders: [COMPUTED_KEY, CLIENT],
  headers: [PAYMENT_KEY, PREFER],
  answers: {
    200: {
      text: 'The payment is completed.',
      headers: [NO_STORE, PREFERENCE_APPLIED],
      content: {
        mediaType: 'application/json',
        schema: sentenceOrRecord('^Transaction ID: TXN\\d+$'),
        examples: { completed: `Transaction ID: ${EXAMPLE_PAYMENT_ID}`, record: examplePayment() },
      },
    },
  },
  errors: ['missingIdempotencyKey', ...operatedReferenceErrors, 'paymentNotFound'],
};
