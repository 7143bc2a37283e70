import type { FastifyInstance, FastifyReply } from 'fastify';
import type { UnpaidKeys } from '../../limits/unpaid-keys.js';
import type { Payments } from '../../payments/payments.js';
import { EXAMPLE_KEY, publicErrors } from '../errors/catalogue.js';
import { answerWith } from '../errors/error-answers.js';
import { NO_STORE } from '../openapi/headers.js';
import type { RouteDescription } from '../openapi/route-description.js';
import {
  COMPUTED_KEY,
  KEY_HEADER,
  type NamedReference,
  named,
  REFERENCE,
  ReferenceQuery,
  referenceErrors,
  referenceIn,
  turnErrors,
} from './named-payment.js';
import { refuse, sendText } from './payment-answers.js';
import { refusalOf } from './refusals.js';

/** Spec 4.1. With a reference the key is computed, and its turn is judged (rule P18). */
export function generateKey(
  app: FastifyInstance,
  { payments, unpaidKeys }: { readonly payments: Payments; readonly unpaidKeys: Pick<UnpaidKeys, 'take'> },
): void {
  app.get(
    '/api/server-generated/generate-key',
    {
      exposeHeadRoute: false,
      schema: { querystring: ReferenceQuery },
      config: { operation: 'generate key', scopes: ['payments:write'], tellsCharge: 'with reference', description },
    },
    (request, reply) => {
      const asked = referenceIn(request);
      if (asked) {
        issueComputedKey(
          reply,
          named(asked, (reference) => payments.computeKey(reference)),
        );
        return;
      }
      if (!unpaidKeys.take(request.caller?.client)) throw publicErrors.tooManyUnpaidKeys();
      answerWith(reply, payments.issueKey(request.caller?.client), (key) => {
        sendText(reply, key);
      });
    },
  );

  function issueComputedKey(reply: FastifyReply, { key, reference }: NamedReference): void {
    reply.header(KEY_HEADER, key);
    answerWith(reply, payments.issueComputedKey(key, reference), (answer) => {
      if (answer.state !== 'issued') return refuse(payments, reply, refusalOf(answer, 'reference'), { key, reference });
      sendText(reply, key);
    });
  }
}

const description: RouteDescription = {
  operationId: 'generateKey',
  tag: 'Payments',
  summary: 'Issue an idempotency key',
  text: 'Ask for a key before each payment, keep it, and send it with every attempt at this payment. It expires `IDEMPOTENCY_TTL_SECONDS` after it was issued, or after its payment ended. With `AUTH=required` it belongs to the client that asked for it. With `reference` the key is the one of the reference, the same each time.',
  parameters: REFERENCE,
  anyAnswerHeaders: [COMPUTED_KEY],
  answers: {
    200: {
      text: 'The key, as a JSON string.',
      headers: [NO_STORE],
      content: {
        mediaType: 'application/json',
        schema: { type: 'string', format: 'uuid' },
        examples: { key: EXAMPLE_KEY },
      },
    },
  },
  errors: ['tooManyUnpaidKeys', ...referenceErrors, ...turnErrors, 'paymentCancelled'],
};
