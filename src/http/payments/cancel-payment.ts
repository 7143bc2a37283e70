import type { FastifyInstance } from 'fastify';
import { publicErrors } from '../errors/catalogue.js';
import { answerWith } from '../errors/error-answers.js';
import { NO_STORE } from '../openapi/headers.js';
import type { RouteDescription } from '../openapi/route-description.js';
import {
  CANCELLATION,
  CancellationQuery,
  CLIENT,
  COMPUTED_KEY,
  cancellationErrors,
  createWithJudgedClient,
  nameBy,
  type OperatedContext,
  PAYMENT_KEY,
  scopeOf,
  turnErrors,
} from './named-payment.js';
import { refuse, sendText } from './payment-answers.js';
import { cancelRefusalOf } from './refusals.js';

/** Rules P22 and P25. */
export function cancelPayment(
  app: FastifyInstance,
  { payments, paymentRecords: records, access }: OperatedContext,
): void {
  const withJudgedClient = createWithJudgedClient(access, records);

  app.post(
    '/api/payment-cancellation',
    {
      onRequest: nameBy(app, (reference) => payments.computeKey(reference), 'cancellation'),
      schema: { querystring: CancellationQuery },
      config: {
        operation: 'cancel payment',
        scopes: ['payments:write', 'operations'],
        tellsCharge: true,
        description,
      },
    },
    (request, reply) => {
      const { payment } = request;
      if (!payment) throw publicErrors.invalidIdempotencyKey();
      const cancelled = withJudgedClient(request, reply, payment.reference, () =>
        payments.cancel({ ...payment, by: request.caller?.client }, scopeOf(request.query)),
      );
      answerWith(reply, cancelled, (answer) => {
        if (answer.state !== 'cancelled') {
          return refuse(payments, reply, cancelRefusalOf(answer, payment.reference?.attempt), payment);
        }
        sendText(reply, 'Payment cancelled.');
      });
    },
  );
}

const description: RouteDescription = {
  operationId: 'cancelPayment',
  tag: 'Payments',
  summary: 'Close a payment that is not to be made',
  text: 'For an order that was paid otherwise, or given up: a late worker, a queue or a stale page can then never charge it. Of a cancellation and a payment exactly one succeeds. A payment that is under way, or pending, is ended at the processor first. Repeat the same request after 408, 409, 429, any 5xx, or no answer. A payment with the key, or the reference and attempt, is answered with 410 from then on; one that was ended with 402. With `only=attempt` one attempt is ended, and the next one may follow.',
  parameters: CANCELLATION,
  anyAnswerHeaders: [COMPUTED_KEY, CLIENT],
  headers: [PAYMENT_KEY],
  answers: {
    200: {
      text: 'The payment is cancelled: by this request, or by one before.',
      headers: [NO_STORE],
      content: {
        mediaType: 'application/json',
        schema: { const: 'Payment cancelled.' },
        examples: { cancelled: 'Payment cancelled.' },
      },
    },
  },
  errors: [
    'missingIdempotencyKey',
    'invalidIdempotencyKey',
    ...cancellationErrors,
    ...turnErrors,
    'attemptMayBeLost',
    'attemptSupersededAtProcessor',
    'completedBefore',
    'declinedBefore',
    'attemptDeclinedBefore',
    'chargedBefore',
    'nothingToEnd',
    'cannotBeEnded',
    'paymentInProgress',
    'rowsLost',
    'otherProcessorBeforeLoss',
    'paymentOutcomeUnknown',
  ],
};
