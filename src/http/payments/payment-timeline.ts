import type { FastifyInstance } from 'fastify';
import { timelineJson } from '../../payments/history/payment-representation.js';
import { EVENT_NAMES, type FindTimeline, NEXT_STEPS, timelineOf } from '../../payments/history/timeline.js';
import type { ClaimedPayment, PaymentLife } from '../../payments/ports/payment-history.js';
import { publicErrors } from '../errors/catalogue.js';
import { answerWith } from '../errors/error-answers.js';
import { NO_STORE } from '../openapi/headers.js';
import { whole } from '../openapi/json-schema.js';
import type { RouteDescription } from '../openapi/route-description.js';
import { readableClient } from '../requests/access-check.js';
import { sendJson } from '../requests/json-answer.js';
import type { ParametersProvider } from '../requests/parameter-schemas.js';
import { refuseUnknownParameters } from '../requests/query-parameters.js';
import { completed, keyIn, keyParameter, PaymentPath, READ_BY_KEY, STATES } from './shown-payment.js';

/** The timeline that an operator reads alongside a payment, to decide about it (docs/reference/processor.md). */
export function paymentTimeline(
  server: FastifyInstance,
  { findTimeline }: { readonly findTimeline: FindTimeline },
): void {
  const app = server.withTypeProvider<ParametersProvider>();

  app.get(
    '/api/payments/:key/timeline',
    {
      schema: { params: PaymentPath },
      config: {
        ...READ_BY_KEY,
        description,
      },
    },
    (request, reply) => {
      refuseUnknownParameters(request.query, []);
      answerWith(reply, findTimeline(keyIn(request.params), readableClient(request)), (timeline) => {
        if (!timeline) throw publicErrors.paymentNotFound();
        sendJson(reply, timelineJson(timeline));
      });
    },
  );
}

export const PaymentTimelineSchema = whole({
  idempotencyKey: { type: 'string', format: 'uuid' },
  state: { type: 'string', enum: ['PENDING', ...STATES] },
  events: {
    type: 'array',
    description:
      'Oldest first. A key that is computed from a reference is not issued: before its payment there is none.',
    items: whole({
      at: {
        type: ['string', 'null'],
        format: 'date-time',
        description: 'Null: some time between its neighbours.',
      },
      event: {
        type: 'string',
        enum: EVENT_NAMES,
        description:
          '`charged`: the processor answered that it did. `not sent`: surely no charge left the process. `unknown`: it may have. `pending`: it did, and its outcome takes time. `taken over`: by another attempt, which looks the payment up first.',
      },
      execution: { type: ['integer', 'null'], minimum: 1, description: '1 is the first claim.' },
      process: { type: ['string', 'null'], description: 'The `instance` of the process, where it is known.' },
      by: {
        type: ['string', 'null'],
        description:
          'For callers who see all payments: the client that asked for a cancellation, a refund or a resolution.',
      },
      detail: { type: ['string', 'null'] },
    }),
  },
  omitted: { type: 'integer', minimum: 0 },
  next: whole({
    what: {
      type: 'string',
      enum: NEXT_STEPS,
    },
    at: { type: ['string', 'null'], format: 'date-time' },
    resolvableAt: {
      type: ['string', 'null'],
      format: 'date-time',
      description: 'When a resolution is first accepted, while the state is `PROCESSING`.',
    },
    text: { type: 'string', description: 'One sentence that explains `what` and `at`.' },
  }),
});

const ASKED_AT = Date.UTC(2026, 10, 20, 13);
const PROCESS = '5f0c3f0e-63a3-4c5c-9f51-0c1f3a7b8d21';
const CLAIMED_AT = ASKED_AT - 60_000;
const life: PaymentLife & { readonly payment: ClaimedPayment } = {
  payment: {
    ...completed,
    state: 'PROCESSING',
    processor: 'acme',
    executions: 2,
    claimedAt: CLAIMED_AT,
    settledAt: undefined,
  },
  now: ASKED_AT,
  epoch: 2,
  owner: `${PROCESS}:7`,
  unsent: false,
  chargedUnknownAmount: false,
  resolutionCountsFrom: CLAIMED_AT,
  leaseUntil: ASKED_AT + 29_000,
  recoverAt: ASKED_AT + 29_000,
  expiresAt: undefined,
  events: [
    {
      kind: 'taken over',
      at: ASKED_AT - 1_000,
      execution: 2,
      from: '0c8a2b62-6c43-4a5e-8d0a-7a1c9a2f4e10:41',
    },
  ],
  omitted: 0,
};
const exampleTimeline = (): unknown => {
  const rules = { processors: ['acme'], dedupMs: 72_000_000, idempotencyTtlMs: 86_400_000 };
  return JSON.parse(timelineJson(timelineOf(life, rules, undefined, undefined)));
};

const description: RouteDescription = {
  operationId: 'getPaymentTimeline',
  tag: 'Payment records',
  summary: 'What became of a payment step by step, and what happens next',
  text: "Out of the payment's row. An execution that was killed has written nothing more: the takeover that follows names its process. A payment that stays unknown for days keeps its first and last events; `omitted` counts the others.",
  parameters: { key: keyParameter },
  answers: {
    200: {
      text: 'The events in their order.',
      headers: [NO_STORE],
      content: {
        mediaType: 'application/json',
        schema: { $ref: '#/components/schemas/PaymentTimeline' },
        examples: {
          takenOver: exampleTimeline(),
        },
      },
    },
  },
  errors: [{ unknownParameter: () => refuseUnknownParameters({ limit: '' }, []) }, 'paymentNotFound'],
};
