import { processorAnswerJson } from '../../payments/records/processor-answer-representation.js';
import { refuseUnknownParameters } from '../payment-record-request.js';
import { publicErrors } from '../public-errors.js';
import { EXAMPLE_KEY, refusalBy } from './examples.js';
import { NO_STORE } from './headers.js';
import type { ParameterDescription, RouteDescription } from './route-description.js';

const JSON_TYPE = 'application/json';
const MOMENT = { type: 'string', format: 'date-time' };
const UUID = { type: 'string', format: 'uuid' };
const ASKED_AT = Date.UTC(2026, 10, 20, 13);

/** With every member required and no other. */
const whole = (properties: Readonly<Record<string, object>>) => ({
  type: 'object',
  required: Object.keys(properties),
  properties,
  additionalProperties: false,
});

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

export const getProcessorAnswer: RouteDescription = {
  operationId: 'getProcessorAnswer',
  tag: 'Payment records',
  summary: 'Ask the processor now what it knows of a payment',
  text: 'For an operator, before a resolution. The processor is asked by a look-up: nothing is charged, and nothing is written. Also of a payment that is final. Each process asks for a few payments at once.',
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
          succeeded: answered('succeeded'),
          declined: answered('declined', 'insufficient funds'),
          noRecord: answered('no record'),
          unknown: answered('unknown', 'the processor answered 503 to a look-up, which settles nothing'),
        },
      },
    },
  },
  errors: {
    unknownParameter: refusalBy(() => refuseUnknownParameters({ processor: '' }, [])),
    paymentNotFound: publicErrors.paymentNotFound(),
    otherProcessor: publicErrors.otherProcessor('acme'),
    tooManyLookUps: publicErrors.tooManyLookUps(),
  },
};
