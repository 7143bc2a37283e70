import { processorAnswerJson, timelineJson } from '../../payments/history/payment-representation.js';
import { EVENT_NAMES, timelineOf } from '../../payments/history/timeline.js';
import type { ClaimedPayment, PaymentLife } from '../../payments/ports/payment-history.js';
import { EXAMPLE_KEY } from '../errors/public-errors.js';
import { NO_STORE } from '../openapi/headers.js';
import { whole } from '../openapi/json-schema.js';
import type { ParameterDescription, RouteDescription } from '../openapi/route-description.js';
import { refuseUnknownParameters } from '../requests/query-parameters.js';
import { completed } from './examples.js';
import { STATES } from './record-request.js';

const JSON_TYPE = 'application/json';
const MOMENT = { type: 'string', format: 'date-time' };
const UUID = { type: 'string', format: 'uuid' };
const ASKED_AT = Date.UTC(2026, 10, 20, 13);

const key: ParameterDescription = {
  text: 'The idempotency key, in any case.',
  schema: { type: 'string' },
  example: EXAMPLE_KEY,
};

const answered = (
  answer: 'succeeded' | 'declined' | 'no record' | 'unknown',
  reason?: string,
): Readonly<Record<string, unknown>> =>
  JSON.parse(
    processorAnswerJson(EXAMPLE_KEY, { state: 'answered', processor: 'acme', askedAt: ASKED_AT, answer, reason }),
  );

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

export const getPaymentTimeline: RouteDescription = {
  operationId: 'getPaymentTimeline',
  tag: 'Payment records',
  summary: 'What became of a payment step by step, and what happens next',
  text: "Out of the payment's row. An execution that was killed has written nothing more: the takeover that follows names its process. A payment that stays unknown for days keeps its first and last events; `omitted` counts the others.",
  parameters: { key },
  answers: {
    200: {
      text: 'The events in their order.',
      headers: [NO_STORE],
      content: {
        mediaType: JSON_TYPE,
        schema: whole({
          idempotencyKey: UUID,
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
                  '`charged`: the processor answered that it did. `not sent`: surely no charge left the process. `unknown`: it may have. `taken over`: by another attempt, which looks the payment up first.',
              },
              execution: { type: ['integer', 'null'], minimum: 1, description: '1 is the first claim.' },
              process: { type: ['string', 'null'], description: 'The `instance` of the process, where it is known.' },
              detail: { type: ['string', 'null'] },
            }),
          },
          omitted: { type: 'integer', minimum: 0 },
          next: whole({
            what: {
              type: 'string',
              enum: ['pay', 'under way', 'recovery', 'operator', 'replayed', 'superseded', 'expired', 'cancelled'],
            },
            at: { type: ['string', 'null'], format: 'date-time' },
            resolvableAt: {
              type: ['string', 'null'],
              format: 'date-time',
              description: 'When a resolution is first accepted, while the state is `PROCESSING`.',
            },
            text: { type: 'string', description: 'One sentence that explains `what` and `at`.' },
          }),
        }),
        examples: {
          takenOver: exampleTimeline(),
        },
      },
    },
  },
  errors: [{ unknownParameter: () => refuseUnknownParameters({ limit: '' }, []) }, 'paymentNotFound'],
};

export const getProcessorAnswer: RouteDescription = {
  operationId: 'getProcessorAnswer',
  tag: 'Payment records',
  summary: 'Ask the processor now what it knows of a payment',
  text: 'For an operator, before a resolution. The processor is asked by a look-up: nothing is charged, and nothing is written. Also of a payment that is final. Each process asks for a few payments at once. The simulated processor keeps no records: its answer is always `no record`.',
  parameters: { key },
  answers: {
    200: {
      text: "What it answered. `unknown`: it gave no clear answer in time, and `reason` says why. Of a decline `reason` is the processor's.",
      headers: [NO_STORE],
      content: {
        mediaType: JSON_TYPE,
        schema: whole({
          idempotencyKey: UUID,
          processor: { type: 'string' },
          askedAt: MOMENT,
          answer: { type: 'string', enum: ['succeeded', 'declined', 'no record', 'unknown'] },
          reason: { type: ['string', 'null'] },
        }),
        examples: {
          declined: answered('declined', 'insufficient funds'),
          unknown: answered('unknown', 'the processor answered 503 to a look-up, which settles nothing'),
        },
      },
    },
  },
  errors: [
    { unknownParameter: () => refuseUnknownParameters({ processor: '' }, []) },
    'paymentNotFound',
    'otherProcessor',
    'tooManyLookUps',
  ],
};
