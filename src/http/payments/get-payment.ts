import type { FastifyInstance } from 'fastify';
import type { PaymentRecords, ShownPayment } from '../../payments/history/payment-records.js';
import { paymentJson, paymentTag } from '../../payments/history/payment-representation.js';
import { EXAMPLE_KEY, publicErrors } from '../errors/catalogue.js';
import { answerWith } from '../errors/error-answers.js';
import { ETAG, REQUEST_HEADERS, REVALIDATE } from '../openapi/headers.js';
import type { RouteDescription } from '../openapi/route-description.js';
import { readableClient } from '../requests/access-check.js';
import type { ParametersProvider } from '../requests/parameter-schemas.js';
import { evaluateRead, sendNotModified } from '../requests/preconditions.js';
import {
  examplePayment,
  examplePending,
  keyIn,
  keyParameter,
  PaymentPath,
  READ_BY_KEY,
  sendPayment,
  shown,
  shownPayment,
  withTag,
} from './shown-payment.js';

/** The record of one payment (docs/reference/api.md). */
export function getPayment(
  server: FastifyInstance,
  { paymentRecords: records }: { readonly paymentRecords: PaymentRecords },
): void {
  const app = server.withTypeProvider<ParametersProvider>();

  app.get(
    '/api/payments/:key',
    {
      schema: { params: PaymentPath },
      config: { ...READ_BY_KEY, description },
    },
    (request, reply) => {
      const client = readableClient(request);
      answerWith(reply, shownOrRefused(keyIn(request.params, publicErrors.recordNotFound), client), (payment) => {
        const json = paymentJson(payment, client);
        switch (evaluateRead(request.headers, paymentTag(json))) {
          case 'proceed':
            sendPayment(reply, json);
            return;
          case 'not modified':
            sendNotModified(withTag(reply, json));
            return;
          case 'failed':
            throw publicErrors.preconditionFailed('payment');
        }
      });
    },
  );

  async function shownOrRefused(key: string, client: string | undefined): Promise<ShownPayment> {
    const payment = await records.get(key, client);
    if (payment.state !== 'ABSENT') return payment;
    throw payment.endedUnpaid ? publicErrors.keyEndedUnpaid() : publicErrors.recordNotFound();
  }
}

const { ifMatch, ifNoneMatch } = REQUEST_HEADERS;

const description: RouteDescription = {
  operationId: 'getPayment',
  tag: 'Payment records',
  summary: 'Read a payment by its key',
  text: 'Also one that is issued and not paid with yet. This is how an unknown outcome is looked up: `COMPLETED` and `DECLINED` are final. It changes while the payment is under way, and its tag with it. A 404 says in `Idempay-Key-State` whether it is certain that nothing was and nothing can be charged with the key.',
  parameters: { key: keyParameter },
  headers: [ifNoneMatch, ifMatch],
  answers: {
    200: shownPayment('The payment.', {
      completed: examplePayment(),
      declined: examplePayment({ state: 'DECLINED', reason: 'insufficient funds' }),
      pending: examplePending(),
      issued: shown({ state: 'PENDING', key: EXAMPLE_KEY }),
    }),
    304: { text: 'It has a tag of `If-None-Match`.', headers: [ETAG, REVALIDATE] },
  },
  errors: ['keyEndedUnpaid', 'recordNotFound', { preconditionFailed: publicErrors.preconditionFailed('payment') }],
};
