import type { FastifyInstance } from 'fastify';
import type { AskProcessor } from '../../payments/history/ask-processor.js';
import { processorAnswerJson } from '../../payments/history/payment-representation.js';
import { EXAMPLE_KEY, publicErrors } from '../errors/catalogue.js';
import { answerWith } from '../errors/error-answers.js';
import { NO_STORE } from '../openapi/headers.js';
import { whole } from '../openapi/json-schema.js';
import type { RouteDescription } from '../openapi/route-description.js';
import { sendJson } from '../requests/json-answer.js';
import type { ParametersProvider } from '../requests/parameter-schemas.js';
import { refuseUnknownParameters } from '../requests/query-parameters.js';
import { keyIn, keyParameter, PaymentPath } from './shown-payment.js';

/** An operator's question to the processor, to decide about a payment (docs/reference/processor.md). */
export function processorAnswer(
  server: FastifyInstance,
  { askProcessor }: { readonly askProcessor: AskProcessor },
): void {
  const app = server.withTypeProvider<ParametersProvider>();

  app.get(
    '/api/payments/:key/processor-answer',
    {
      schema: { params: PaymentPath },
      // HEAD would ask the processor too, and show nothing.
      exposeHeadRoute: false,
      config: { operation: 'payment status', scopes: ['operations'], description },
    },
    (request, reply) => {
      refuseUnknownParameters(request.query, []);
      const key = keyIn(request.params);
      answerWith(reply, askProcessor(key), (known) => {
        if (known.state === 'not found') throw publicErrors.paymentNotFound();
        if (known.state === 'busy') throw publicErrors.tooManyLookUps();
        if (known.state === 'of another processor') throw publicErrors.otherProcessor(known.processor);
        sendJson(reply, processorAnswerJson(key, known));
      });
    },
  );
}

export const ProcessorAnswerSchema = whole({
  idempotencyKey: { type: 'string', format: 'uuid' },
  processor: { type: 'string' },
  askedAt: { type: 'string', format: 'date-time' },
  answer: { type: 'string', enum: ['succeeded', 'declined', 'pending', 'no record', 'unknown'] },
  reason: { type: ['string', 'null'] },
});

const ASKED_AT = Date.UTC(2026, 10, 20, 13);

const answered = (
  answer: 'succeeded' | 'declined' | 'pending' | 'no record' | 'unknown',
  reason?: string,
): Readonly<Record<string, unknown>> =>
  JSON.parse(
    processorAnswerJson(EXAMPLE_KEY, { state: 'answered', processor: 'acme', askedAt: ASKED_AT, answer, reason }),
  );

const description: RouteDescription = {
  operationId: 'getProcessorAnswer',
  tag: 'Payment records',
  summary: 'Ask the processor now what it knows of a payment',
  text: 'For an operator, before a resolution. The processor is asked by a look-up: nothing is charged, and nothing is written. Also of a payment that is final. Each process asks for a few payments at once. The simulated processor keeps no records: its answer is always `no record`.',
  parameters: { key: keyParameter },
  answers: {
    200: {
      text: "What it answered. `unknown`: it gave no clear answer in time, and `reason` says why. Of a decline `reason` is the processor's.",
      headers: [NO_STORE],
      content: {
        mediaType: 'application/json',
        schema: { $ref: '#/components/schemas/ProcessorAnswer' },
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
