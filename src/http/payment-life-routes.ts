import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import type { AskProcessor } from '../payments/records/ask-processor.js';
import type { FindTimeline } from '../payments/records/find-timeline.js';
import { processorAnswerJson } from '../payments/records/processor-answer-representation.js';
import { timelineJson } from '../payments/records/timeline-representation.js';
import { visibleClient } from './access-check.js';
import * as descriptions from './description/payment-life.js';
import { answerWith } from './errors.js';
import { keyIn, refuseUnknownParameters } from './payment-record-request.js';
import { publicErrors } from './public-errors.js';

const PaymentPath = Type.Object({ key: Type.String() });

/** What an operator looks at beside a payment, to decide about it (docs/processor.md). */
export function registerPaymentLifeRoutes(
  server: FastifyInstance,
  { findTimeline, askProcessor }: { findTimeline: FindTimeline; askProcessor: AskProcessor },
): void {
  const app = server.withTypeProvider<TypeBoxTypeProvider>();

  app.get(
    '/api/payments/:key/timeline',
    {
      schema: { params: PaymentPath },
      config: {
        operation: 'payment status',
        scopes: ['payments:read', 'operations'],
        description: descriptions.getPaymentTimeline,
      },
    },
    (request, reply) => {
      refuseUnknownParameters(request.query, []);
      answerWith(reply, findTimeline(keyIn(request.params), visibleClient(request)), (timeline) => {
        if (!timeline) throw publicErrors.paymentNotFound();
        reply
          .header('content-type', 'application/json; charset=utf-8')
          .header('cache-control', 'no-store')
          .send(timelineJson(timeline));
      });
    },
  );

  app.get(
    '/api/payments/:key/processor-answer',
    {
      schema: { params: PaymentPath },
      // HEAD would ask the processor too, and show nothing.
      exposeHeadRoute: false,
      config: { operation: 'payment status', scopes: ['operations'], description: descriptions.getProcessorAnswer },
    },
    (request, reply) => {
      refuseUnknownParameters(request.query, []);
      const key = keyIn(request.params);
      answerWith(reply, askProcessor(key), (known) => {
        if (known.state === 'not found') throw publicErrors.paymentNotFound();
        if (known.state === 'busy') throw publicErrors.tooManyLookUps();
        if (known.state === 'of another processor') throw publicErrors.otherProcessor(known.processor);
        reply
          .header('content-type', 'application/json; charset=utf-8')
          .header('cache-control', 'no-store')
          .send(processorAnswerJson(key, known));
      });
    },
  );
}
