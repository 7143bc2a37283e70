import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import type { AskProcessor } from '../../payments/history/ask-processor.js';
import { processorAnswerJson, timelineJson } from '../../payments/history/payment-representation.js';
import type { FindTimeline } from '../../payments/history/timeline.js';
import { answerWith } from '../errors/errors.js';
import { publicErrors } from '../errors/public-errors.js';
import { visibleClient } from '../requests/access-check.js';
import { refuseUnknownParameters } from '../requests/query-parameters.js';
import * as descriptions from './life-description.js';
import { keyIn } from './record-request.js';

const PaymentPath = Type.Object({ key: Type.String() });

/** What an operator looks at alongside a payment, to decide about it (docs/reference/processor.md). */
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
