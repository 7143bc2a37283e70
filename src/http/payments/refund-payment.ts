import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Charge } from '../../payments/history/charge.js';
import { paymentJson } from '../../payments/history/payment-representation.js';
import type { RefundAnswer, RequestedRefund } from '../../payments/refund.js';
import { textProblem } from '../../payments/values/content.js';
import type { Money } from '../../payments/values/money.js';
import { afterWrite } from '../../platform/faults.js';
import { EXAMPLE_REFUND_ID, publicErrors } from '../errors/catalogue.js';
import { answerWith, sendError } from '../errors/error-answers.js';
import type { PublicError } from '../errors/public-error.js';
import { always, NO_STORE, REPLAYED, RETRY_AFTER, sometimes } from '../openapi/headers.js';
import { type RouteDescription, refusedBodies } from '../openapi/route-description.js';
import { visibleClient } from '../requests/access-check.js';
import { requiredBody } from '../requests/body-parser.js';
import { sendJson } from '../requests/json-answer.js';
import { type JsonBody, membersOf } from '../requests/json-body.js';
import { prefersRepresentation } from '../requests/prefer.js';
import {
  CLIENT,
  COMPUTED_KEY,
  createWithJudgedClient,
  KEY_HEADER,
  nameBy,
  type OperatedContext,
  PAYMENT_KEY,
  REFUND,
  RefundQuery,
  refundErrors,
  refundNameIn,
} from './named-payment.js';
import { AMOUNT, decimalsByCurrency, type Members, moneyIn, REFUSED_MONEY } from './pay.js';
import { PREFER, PREFERENCE_APPLIED, sendText, sentenceOrRecord, withPreference } from './payment-answers.js';
import { exampleRefund, PENDING_UNTIL_MS } from './shown-payment.js';

/** The key of the refund, which names it to an operator, and at the processor. */
const REFUND_KEY_HEADER = 'idempay-refund-key';
const MOST_REASON = 255;

/** Rule P26. */
export function refundPayment(
  app: FastifyInstance,
  { payments, paymentRecords: records, access }: OperatedContext,
): void {
  const withJudgedClient = createWithJudgedClient(access, records);

  app.post(
    '/api/refund',
    {
      onRequest: nameBy(app, (reference) => payments.computeKey(reference), 'refund'),
      schema: { querystring: RefundQuery },
      config: {
        operation: 'refund',
        scopes: ['refunds:write'],
        isPayment: true,
        tellsCharge: 'of refund',
        description,
      },
    },
    (request, reply) => {
      const name = refundNameIn(request.query);
      const requested = { name, ...readRefund(requiredBody(request)) };
      const { payment } = request;
      if (!payment) throw publicErrors.refundOfNoPayment(false);
      const refunding = withJudgedClient(request, reply, payment.reference, () =>
        payments.refund({ ...payment, by: request.caller?.client }, requested),
      );
      answerWith(reply, refunding, (answer) => answerRefund(request, reply, answer));
    },
  );

  async function answerRefund(request: FastifyRequest, reply: FastifyReply, answer: RefundAnswer): Promise<void> {
    if (!('key' in answer)) return void sendError(reply, refusalOf(answer));
    reply.header(REFUND_KEY_HEADER, answer.key);
    if (request.payment?.reference) reply.header(KEY_HEADER, answer.payment);
    if (answer.state === 'pending') return sendPendingRefund(request, reply, answer);
    if (answer.state !== 'final') return void sendError(reply, stateRefusalOf(answer));
    if (answer.isRepeat) reply.header('idempotent-replayed', 'true');
    return sendFinal(request, reply, answer);
  }

  async function sendFinal(
    request: FastifyRequest,
    reply: FastifyReply,
    { key, outcome, isRepeat }: RefundAnswer & { readonly state: 'final' },
  ): Promise<void> {
    if (outcome.state === 'DECLINED') {
      return void sendError(reply, publicErrors.refundDeclined(outcome.reason), { refund: await declinedAs(key) });
    }
    const record = prefersRepresentation(request.headers.prefer) ? await recordOf(request, key) : undefined;
    if (record !== undefined) return void sendJson(withPreference(reply, 'return=representation'), record);
    const sentence = `Transaction ID: ${outcome.transactionId}`;
    sendText(reply, isRepeat ? sentence : `Refund processed successfully with ${sentence}`);
  }

  /** The record with the processor's last word, which may have another time than the row. */
  async function sendPendingRefund(
    request: FastifyRequest,
    reply: FastifyReply,
    { key, untilMs, retryAfterSeconds }: RefundAnswer & { readonly state: 'pending' },
  ): Promise<void> {
    const found = await afterWrite(records.findOperation(key));
    // It was settled since: the next request gets its outcome.
    if (found?.pendingUntil === undefined) return void sendError(reply, publicErrors.refundInProgress(1));
    sendJson(
      reply.code(202).header('retry-after', String(retryAfterSeconds)),
      paymentJson({ ...found, pendingUntil: untilMs }, visibleClient(request)),
    );
  }

  async function recordOf(request: FastifyRequest, key: string): Promise<string | undefined> {
    const found = await records.findOperation(key).catch(() => undefined);
    return found?.state === 'COMPLETED' ? paymentJson(found, visibleClient(request)) : undefined;
  }

  /** An operator's decline is what a person found out: a refund that arrives late would contradict it. */
  async function declinedAs(key: string): Promise<Charge> {
    const found = await records.findOperation(key).catch(() => undefined);
    return found?.state === 'DECLINED' && found.resolution === undefined ? 'none' : 'unknown';
  }
}

function refusalOf(answer: Exclude<RefundAnswer, { key: string }>): PublicError {
  switch (answer.state) {
    case 'no payment':
      return publicErrors.refundOfNoPayment(answer.mayBeLost);
    case 'not completed':
      return answer.payment.state === 'PROCESSING'
        ? publicErrors.refundTooEarly()
        : publicErrors.refundOfUnpaid(answer.payment.state);
    case 'other currency':
      return publicErrors.refundOfOtherCurrency(answer.currency);
    case 'too much':
      return publicErrors.refundTooLarge(answer.left, answer.currency);
    case 'other processor':
      return publicErrors.refundOfOtherProcessor(answer.processor);
    case 'too old':
      return publicErrors.refundTooLate();
    case 'not supported':
      return publicErrors.refundsNotSupported();
    case 'processor down':
      return publicErrors.refundsUnchecked();
    case 'busy':
      return publicErrors.tooManyRefunds(answer.retryAfterSeconds);
  }
}

function stateRefusalOf(
  answer: Extract<RefundAnswer, { key: string; state: 'in progress' | 'other amount' | 'unknown' | 'not sent' }>,
): PublicError {
  switch (answer.state) {
    case 'in progress':
      return publicErrors.refundInProgress(answer.retryAfterSeconds);
    case 'other amount':
      return publicErrors.refundMismatch();
    case 'unknown':
      return publicErrors.refundOutcomeUnknown();
    case 'not sent':
      return publicErrors.refundNotSent();
  }
}

/** The part that the body asks to be given back. Throws the 400 that says what is wrong. */
export function readRefund(body: JsonBody): Omit<RequestedRefund, 'name'> {
  const members = membersOf(body);
  if ('problem' in members) throw publicErrors.invalidBody(members.problem);
  const reason = members.get('reason');
  if (reason && reason.type !== 'string') {
    throw publicErrors.invalidBody("'reason' must be a string. Leave it out if there is none.");
  }
  const problem = reason && textProblem("'reason'", reason.text, MOST_REASON, 1);
  if (problem !== undefined) throw publicErrors.invalidBody(problem);
  return { ...refundedMoney(members), reason: reason?.text };
}

/** A payment of a currency that has ended is refunded in it all the same. */
function refundedMoney(members: Members): Money {
  const money = moneyIn(members);
  if (!('problem' in money)) return money;
  if (money.money) return money.money;
  throw publicErrors.invalidBody(money.problem);
}

const refundProblems = refusedBodies(readRefund, {
  ...REFUSED_MONEY,
  reasonNotText: '{"amount":"1.00","currency":"USD","reason":1}',
  reasonEmpty: '{"amount":"1.00","currency":"USD","reason":""}',
  reasonBroken: '{"amount":"1.00","currency":"USD","reason":"\\u0000"}',
});

const REFUND_KEY = sometimes(
  always('Idempay-Refund-Key', 'The key of the refund: it names it in the list of refunds, and at the processor.', {
    type: 'string',
    format: 'uuid',
  }),
);

export const RefundRequestSchema = {
  type: 'object',
  description: 'The part of a payment that is given back. Unknown members are ignored.',
  required: ['amount', 'currency'],
  properties: {
    amount: AMOUNT,
    currency: {
      type: 'string',
      pattern: '^[A-Za-z]{3}$',
      description: 'The currency of the payment.',
      examples: ['USD'],
    },
    reason: {
      type: 'string',
      minLength: 1,
      maxLength: MOST_REASON,
      description: 'For the processor, and in the record.',
    },
  },
  allOf: decimalsByCurrency,
};

const description: RouteDescription = {
  operationId: 'refund',
  tag: 'Payments',
  summary: 'Give back a part of a payment, once for each name',
  text: 'The payment is named by its key, or by the `reference` of its order, and the refund by `refund`, which the caller chooses. Every repeat gets the stored result with `Idempotent-Replayed: true`, and nothing is given back again. Repeat the **same** request, with the same name, after 202, 408, 409, 429, any 5xx, or no answer: another name is another refund. A name never expires. A payment can be refunded for as long as its record is kept, also if its key has expired. All refunds of a payment together never give back more than was paid. A decline (402) frees its part.',
  parameters: REFUND,
  anyAnswerHeaders: [COMPUTED_KEY, CLIENT, REFUND_KEY],
  headers: [PAYMENT_KEY, PREFER],
  body: {
    text: 'Amount and currency are both required.',
    required: true,
    schema: 'RefundRequest',
    examples: { line: { amount: '12.50', currency: 'USD', reason: 'returned' } },
  },
  answers: {
    200: {
      text: 'Given back: by this request, or by an earlier one with the same name.',
      headers: [NO_STORE, sometimes(REPLAYED), PREFERENCE_APPLIED],
      content: {
        mediaType: 'application/json',
        schema: sentenceOrRecord('^(Refund processed successfully with )?Transaction ID: TXN\\d+$'),
        examples: {
          first: `Refund processed successfully with Transaction ID: ${EXAMPLE_REFUND_ID}`,
          repeat: `Transaction ID: ${EXAMPLE_REFUND_ID}`,
          record: exampleRefund(),
        },
      },
    },
    202: {
      text: 'Pending: the processor has accepted it, and takes time. Repeat the same request after `Retry-After` seconds.',
      headers: [NO_STORE, RETRY_AFTER],
      content: {
        mediaType: 'application/json',
        schema: { $ref: '#/components/schemas/Payment' },
        examples: {
          pending: exampleRefund({ state: 'PROCESSING', settledAt: undefined, pendingUntil: PENDING_UNTIL_MS }),
        },
      },
    },
  },
  errors: [
    'missingIdempotencyKey',
    'emptyBody',
    refundProblems,
    ...refundErrors,
    'refundDeclined',
    'refundOfNoPayment',
    'refundOfLostPayment',
    'refundOfUnpaid',
    'refundTooEarly',
    'refundOfOtherCurrency',
    'refundTooLarge',
    'refundMismatch',
    'refundInProgress',
    'refundTooLate',
    'refundOfOtherProcessor',
    'refundsNotSupported',
    // The operation has a 501 of its own, so the one of every request stands next to it.
    'unknownTransferCoding',
    'refundsUnchecked',
    'tooManyRefunds',
    'refundNotSent',
    'refundOutcomeUnknown',
  ],
};
