import type { FastifyInstance } from 'fastify';
import type { PaymentRecords } from '../../payments/history/payment-records.js';
import { paymentTag } from '../../payments/history/payment-representation.js';
import type { ResolveAnswer, Verdict } from '../../payments/history/resolve.js';
import type { PaymentRecord } from '../../payments/ports/payment-history.js';
import { codePointsIn, isPrinted } from '../../platform/printed-text.js';
import type { TagCondition } from '../../transactions/transactions.js';
import { publicErrors } from '../errors/catalogue.js';
import { answerWith } from '../errors/error-answers.js';
import { REQUEST_HEADERS } from '../openapi/headers.js';
import { PRINTED } from '../openapi/json-schema.js';
import { type RouteDescription, refusedBodies } from '../openapi/route-description.js';
import { requiredBody } from '../requests/body-parser.js';
import { type JsonBody, membersOf } from '../requests/json-body.js';
import type { ParametersProvider } from '../requests/parameter-schemas.js';
import { writeCondition } from '../requests/preconditions.js';
import { refuseUnknownParameters } from '../requests/query-parameters.js';
import { inUpperCase } from './list-payments.js';
import {
  examplePayment,
  keyIn,
  keyParameter,
  operatorsJson,
  PaymentPath,
  sendPayment,
  shownPayment,
} from './shown-payment.js';

const MAX_REASON_CODE_POINTS = 500;

/** The operator's resolution (docs/reference/processor.md). */
export function resolvePayment(
  server: FastifyInstance,
  { paymentRecords: records }: { readonly paymentRecords: PaymentRecords },
): void {
  const app = server.withTypeProvider<ParametersProvider>();

  app.post(
    '/api/payments/:key/resolution',
    {
      schema: { params: PaymentPath },
      config: { operation: 'resolve payment', scopes: ['operations'], description },
    },
    (request, reply) => {
      refuseUnknownParameters(request.query, []);
      const verdict = readVerdict(requiredBody(request));
      const condition = writeCondition(request.headers);
      answerWith(reply, resolveIf(condition, keyIn(request.params), verdict, request.caller?.client), (answer) => {
        sendPayment(reply, operatorsJson(resolvedPayment(answer)));
      });
    },
  );

  /** Checked just before (RFC 9110 13.2.1). The statement that resolves decides about later changes. */
  async function resolveIf(
    condition: TagCondition | undefined,
    key: string,
    verdict: Verdict,
    by: string | undefined,
  ): Promise<ResolveAnswer> {
    if (condition) {
      const payment = await records.findOperation(key);
      if (!payment) return { state: 'not found' };
      if (!condition(paymentTag(operatorsJson(payment)))) throw publicErrors.preconditionFailed('payment');
    }
    return records.resolve(key, verdict, by);
  }
}

function resolvedPayment(answer: ResolveAnswer): PaymentRecord {
  switch (answer.state) {
    case 'resolved':
      if (answer.payment) return answer.payment;
      throw publicErrors.paymentNotFound();
    case 'final':
      if (!answer.payment) throw publicErrors.paymentNotFound();
      throw publicErrors.paymentFinal(answer.payment.state);
    case 'in progress':
      throw publicErrors.paymentInProgress(answer.retryAfterSeconds);
    case 'too early':
      throw publicErrors.resolutionTooEarly(answer.retryAfterSeconds, answer.isPending);
    case 'not found':
      throw publicErrors.paymentNotFound();
  }
}

/** The outcome that an operator found out; throws the 400 that names the member. */
export function readVerdict(body: JsonBody): Verdict {
  const members = membersOf(body);
  if ('problem' in members) throw publicErrors.invalidBody(members.problem);
  const outcome = members.get('outcome');
  const state = outcome?.type === 'string' ? inUpperCase(outcome.text) : undefined;
  if (state !== 'COMPLETED' && state !== 'DECLINED') {
    throw publicErrors.invalidBody('\'outcome\' must be "completed" or "declined".');
  }
  const member = members.get('reason');
  const reason = member?.type === 'string' ? member.text.trim() : '';
  const length = codePointsIn(reason);
  if (length < 1 || length > MAX_REASON_CODE_POINTS || !isPrinted(reason)) {
    throw publicErrors.invalidBody(
      `'reason' must be a string of 1 to ${MAX_REASON_CODE_POINTS} characters on one line: how the outcome was found out.`,
    );
  }
  return { state, reason };
}

const { ifMatch, ifNoneMatch } = REQUEST_HEADERS;

const description: RouteDescription = {
  operationId: 'resolvePayment',
  tag: 'Payment records',
  summary: 'End a payment whose outcome stays unknown',
  text: 'For an operator who found out the outcome outside of the service. The processor is asked once more before. The same resolution may be sent again: it is kept once.',
  parameters: { key: keyParameter },
  headers: [ifMatch, ifNoneMatch],
  body: {
    text: 'At most 16 KiB.',
    required: true,
    schema: 'Resolution',
    examples: { completed: { outcome: 'completed', reason: 'on the bank statement of 2026-11-20' } },
  },
  answers: {
    200: shownPayment('The payment is final now.', {
      resolved: examplePayment({ resolution: 'on the bank statement of 2026-11-20' }),
    }),
  },
  errors: [
    { unknownParameter: () => refuseUnknownParameters({ outcome: '' }, []) },
    'emptyBody',
    refusedBodies(readVerdict, {
      notAnObject: '"completed"',
      memberTwice: '{"outcome":"completed","outcome":"declined","reason":"seen"}',
      invalidOutcome: '{"outcome":"paid","reason":"seen"}',
      invalidReason: '{"outcome":"completed"}',
    }),
    'paymentNotFound',
    'paymentFinal',
    {
      paymentDeclined: publicErrors.paymentFinal('DECLINED'),
      paymentCancelled: publicErrors.paymentFinal('CANCELLED'),
    },
    'paymentInProgress',
    'resolutionTooEarly',
    'resolutionTooEarlyPending',
    { preconditionFailed: publicErrors.preconditionFailed('payment') },
  ],
};

export const ResolutionSchema = {
  type: 'object',
  description: 'Unknown members are ignored. A repeated member is refused.',
  required: ['outcome', 'reason'],
  properties: {
    outcome: { description: 'Taken in any case.', type: 'string', enum: ['completed', 'declined'] },
    reason: {
      description: 'How the outcome was found out: 1 to 500 characters on one line, without the spaces around them.',
      type: 'string',
      pattern: `^\\s*(?!\\s)${PRINTED}(?:${PRINTED}{0,498}(?!\\s)${PRINTED})?\\s*$`,
      examples: ['on the bank statement of 2026-11-20'],
    },
  },
};
