import type { FastifyInstance } from 'fastify';
import type { PaymentRecords } from '../../payments/history/payment-records.js';
import { paymentJson } from '../../payments/history/payment-representation.js';
import { MOST_REFUNDS } from '../../payments/ports/payment-history.js';
import { publicErrors } from '../errors/catalogue.js';
import { answerWith } from '../errors/error-answers.js';
import { NO_STORE } from '../openapi/headers.js';
import type { RouteDescription } from '../openapi/route-description.js';
import { readableClient } from '../requests/access-check.js';
import { sendJson } from '../requests/json-answer.js';
import type { ParametersProvider } from '../requests/parameter-schemas.js';
import { refuseUnknownParameters } from '../requests/query-parameters.js';
import { exampleRefund, keyIn, keyParameter, PaymentPath, READ_BY_KEY } from './shown-payment.js';

/** The refunds of one payment (rule P26). */
export function listRefunds(
  server: FastifyInstance,
  { paymentRecords: records }: { readonly paymentRecords: PaymentRecords },
): void {
  const app = server.withTypeProvider<ParametersProvider>();

  app.get(
    '/api/payments/:key/refunds',
    {
      schema: { params: PaymentPath },
      config: { ...READ_BY_KEY, description },
    },
    (request, reply) => {
      refuseUnknownParameters(request.query, []);
      const client = readableClient(request);
      answerWith(reply, records.refundsOf(keyIn(request.params), client), (refunds) => {
        if (!refunds) throw publicErrors.paymentNotFound();
        sendJson(reply, `[${refunds.map((refund) => paymentJson(refund, client)).join(',')}]`);
      });
    },
  );
}

const description: RouteDescription = {
  operationId: 'listRefunds',
  tag: 'Payment records',
  summary: 'List the refunds of a payment',
  text: `The oldest first, of any state; of more than ${MOST_REFUNDS} the newest.`,
  parameters: { key: keyParameter },
  answers: {
    200: {
      text: 'The refunds, each as `listPayments` has it with `kind=refund`.',
      headers: [NO_STORE],
      content: {
        mediaType: 'application/json',
        schema: { type: 'array', items: { $ref: '#/components/schemas/Payment' } },
        examples: { refunds: [exampleRefund()] },
      },
    },
  },
  errors: ['paymentNotFound', { unknownParameter: () => refuseUnknownParameters({ state: '' }, []) }],
};
