import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { LRUCache } from 'lru-cache';
import type { PayAnswer } from '../../payments/answers.js';
import type { PaymentRecords } from '../../payments/history/payment-records.js';
import type { Payments } from '../../payments/payments.js';
import {
  type Content,
  type Metadata,
  MOST_DESCRIPTION,
  MOST_METADATA,
  MOST_METADATA_NAME,
  MOST_METADATA_VALUE,
  MOST_RETURN_URL,
  MOST_SOURCE,
  membersLikeCards,
  returnUrlProblem,
  sourceProblem,
  textProblem,
} from '../../payments/values/content.js';
import { MINOR_UNITS } from '../../payments/values/currencies.js';
import { type Money, type MoneyProblem, type PaymentRequest, readMoney } from '../../payments/values/money.js';
import type { NamedPayment } from '../../payments/values/reference.js';
import { EXAMPLE_PAYMENT_ID, publicErrors } from '../errors/catalogue.js';
import { answerWith, sendError } from '../errors/error-answers.js';
import { NO_STORE, REPLAYED, RETRY_AFTER, sometimes } from '../openapi/headers.js';
import { AT_MOST_15_DIGITS, NOT_ALL_ZEROS } from '../openapi/json-schema.js';
import { type RouteDescription, refusedBodies } from '../openapi/route-description.js';
import { visibleClient } from '../requests/access-check.js';
import { requiredBody } from '../requests/body-parser.js';
import { clientGone } from '../requests/client-gone.js';
import { type JsonBody, type JsonMember, membersOf } from '../requests/json-body.js';
import type { HttpMeasures } from '../requests/measures.js';
import { preferredWaitSeconds, prefersAsync } from '../requests/prefer.js';
import {
  COMPUTED_KEY,
  nameBy,
  PAYMENT_KEY,
  REFERENCE,
  ReferenceQuery,
  referenceErrors,
  turnErrors,
} from './named-payment.js';
import {
  createPaidRecord,
  createPendingRecord,
  type Paid,
  PREFER,
  PREFERENCE_APPLIED,
  refuse,
  sendPaid,
  sendPending,
  sentenceOrRecord,
  withPreference,
} from './payment-answers.js';
import { countedAs, faultCountedAs, refusalOf } from './refusals.js';
import { examplePayment, examplePending } from './shown-payment.js';

/** If more warnings than this are remembered, the oldest is forgotten, and may be logged again. */
const REMEMBERED_WARNINGS = 1_000;

/** Spec 4.1. */
export function pay(
  app: FastifyInstance,
  {
    payments,
    paymentRecords: records,
    measures,
  }: {
    readonly payments: Payments;
    readonly paymentRecords: PaymentRecords;
    readonly measures: Pick<HttpMeasures, 'paid'>;
  },
): void {
  const warned = new LRUCache<string, true>({ max: REMEMBERED_WARNINGS });
  const paidRecord = createPaidRecord((key, client) => records.get(key, client));
  const pendingRecord = createPendingRecord((key, client) => records.get(key, client));

  app.post(
    '/api/payment',
    {
      onRequest: nameBy(app, (reference) => payments.computeKey(reference), 'payment'),
      onError: countFault,
      schema: { querystring: ReferenceQuery },
      config: {
        operation: 'pay',
        scopes: ['payments:write'],
        isPayment: true,
        tellsCharge: true,
        description,
      },
    },
    (request, reply) => {
      const payment = request.payment;
      const body = requiredBody(request);
      if (!payment) {
        measures.paid('invalid_key');
        sendError(reply, publicErrors.invalidIdempotencyKey());
        return;
      }
      const waitSeconds = preferredWaitSeconds(request.headers.prefer);
      const patience = waitSeconds === undefined ? undefined : { ms: waitSeconds * 1000, gone: clientGone(reply) };
      const asked = readPaymentRequest(body);
      if ('content' in asked && asked.content) warnOfCards(request, asked.content);
      const isPendingTaken = takesPending(request, asked);
      const paying = payments.pay(payment, asked, patience);
      const answering = isPendingTaken
        ? paying.then((answer) => withRecord(answer, visibleClient(request), () => payments.pay(payment, asked)))
        : paying;
      answerWith(reply, answering, (answer: Answered) => {
        if (answer.waited) withPreference(reply, `wait=${waitSeconds}`);
        return answerPayment(reply, payment, answer, isPendingTaken);
      });
    },
  );

  /** A row that became final after it was read may have been reported to another request, so its outcome is the answer (rule P17). */
  async function withRecord(
    answer: PayAnswer,
    client: string | undefined,
    payAgain: () => Promise<PayAnswer>,
  ): Promise<Answered> {
    if (answer.state !== 'pending') return answer;
    const record = await pendingRecord(answer, client);
    return record === undefined ? payAgain() : { ...answer, record };
  }

  /** Every answer is counted once: here, or in the answer to its exception. */
  async function answerPayment(
    reply: FastifyReply,
    payment: NamedPayment,
    answer: Answered,
    isPendingTaken: boolean,
  ): Promise<void> {
    const paid = paidIn(answer);
    measures.paid(countedAs(answer), paid?.transactionId);
    if (answer.state === 'replayed') reply.header('idempotent-replayed', 'true');
    if (paid) return sendPaid(paidRecord, reply, { key: payment.key, ...paid });
    if (answer.state === 'pending' && answer.record !== undefined) {
      sendPending(reply, answer.record, answer.retryAfterSeconds);
      return;
    }
    const by = payment.reference ? 'reference' : 'key';
    const isUnanswered = answer.state === 'pending without answer' && isPendingTaken;
    const error = isUnanswered ? publicErrors.pendingUnanswered(by) : refusalOf(answer, by);
    // The row is cancelled, so it does not have the charge that the processor answered.
    if (answer.state !== 'charged after cancellation') return refuse(payments, reply, error, payment);
    sendError(reply, error, { charge: 'made' });
  }

  function countFault(_request: FastifyRequest, _reply: FastifyReply, fault: Error, done: () => void): void {
    measures.paid(faultCountedAs(fault));
    done();
  }

  /** Once for each client and member, and never with the value. */
  function warnOfCards(request: FastifyRequest, content: Content): void {
    const client = request.caller?.client;
    for (const member of membersLikeCards(content)) {
      const warning = `${client ?? ''} ${member}`;
      if (warned.has(warning)) continue;
      warned.set(warning, true);
      request.log.warn(
        { client, member },
        'a number in this member looks like a card number, which never belongs here',
      );
    }
  }
}

/** A pending payment has its record if the request takes it. */
type Answered = PayAnswer & { readonly record?: string };

/** Only a caller that understands pending payments gets a 202 (rule P24): a payer is present, or the request prefers it. */
function takesPending({ headers }: FastifyRequest, asked: PaymentRequest): boolean {
  return ('content' in asked && asked.content?.returnUrl !== undefined) || prefersAsync(headers.prefer);
}

function paidIn(answer: PayAnswer): Paid | undefined {
  if (answer.state !== 'processed' && answer.state !== 'replayed') return undefined;
  const { outcome } = answer.final;
  if (outcome.state !== 'COMPLETED') return undefined;
  const sentence = `Transaction ID: ${outcome.transactionId}`;
  return {
    transactionId: outcome.transactionId,
    sentence: answer.state === 'processed' ? `Payment processed successfully with ${sentence}` : sentence,
  };
}

export type Members = ReadonlyMap<string, JsonMember>;

/** The payment that the body asks for, or the problem with its content (rules P4 and P19). Unknown members are ignored. */
export function readPaymentRequest(body: JsonBody): PaymentRequest {
  const members = membersOf(body);
  if ('problem' in members) return members;
  const money = moneyIn(members);
  if ('problem' in money) return money;
  const content = contentIn(members);
  if (content === undefined) return money;
  return 'problem' in content ? { ...content, money } : { ...money, content };
}

export function moneyIn(members: Members): Money | MoneyProblem {
  const amount = members.get('amount');
  if (amount === undefined) return { problem: '\'amount\' is missing. Send it as a string such as "100.50".' };
  if (!('text' in amount)) return { problem: "'amount' must be a string holding a decimal number." };
  const currency = members.get('currency');
  if (currency === undefined) return { problem: '\'currency\' is missing. Send an ISO 4217 code such as "USD".' };
  if (currency.type !== 'string') return { problem: "'currency' must be a string holding an ISO 4217 code." };
  return readMoney(amount.text, currency.text);
}

/** Undefined if the body has none of its members, as most. */
function contentIn(members: Members): Content | { readonly problem: string } | undefined {
  const source = members.get('source');
  const description = members.get('description');
  const metadata = members.get('metadata');
  const returnUrl = members.get('returnUrl');
  if (!source && !description && !metadata && !returnUrl) return undefined;
  const problem =
    (source && problemOfText("'source'", source, sourceProblem)) ??
    (description && problemOfText("'description'", description, descriptionProblem)) ??
    (metadata && problemOfMetadata(metadata)) ??
    (returnUrl && problemOfText("'returnUrl'", returnUrl, returnUrlProblem));
  if (problem !== undefined) return { problem };
  return {
    source: textOf(source),
    description: textOf(description),
    metadata: metadata && metadataIn(metadata),
    ...(returnUrl && { returnUrl: textOf(returnUrl) }),
  };
}

function problemOfText(what: string, member: JsonMember, judge: (text: string) => string | undefined) {
  return member.type === 'string' ? judge(member.text) : `${what} must be a string. Leave it out if there is none.`;
}

const descriptionProblem = (text: string) => textProblem("'description'", text, MOST_DESCRIPTION, 1);

function problemOfMetadata(metadata: JsonMember): string | undefined {
  if (metadata.type !== 'object') return "'metadata' must be an object of strings. Leave it out if there is none.";
  const { members, duplicate } = metadata.object;
  if (duplicate !== undefined) return "'metadata' has a name more than once.";
  if (members.size > MOST_METADATA) return `'metadata' must have at most ${MOST_METADATA} members.`;
  // Frameworks of processors refuse a whole request that has it, and the payment would stay unknown.
  if (members.has('__proto__')) return "'metadata' must not have the name '__proto__'.";
  for (const [name, value] of members) {
    if (value.type !== 'string') return "'metadata' values must be strings.";
    const problem =
      textProblem("'metadata' names", name, MOST_METADATA_NAME, 1) ??
      textProblem("'metadata' values", value.text, MOST_METADATA_VALUE);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

/** After `problemOfMetadata`. */
function metadataIn(metadata: JsonMember): Metadata {
  const members = metadata.type === 'object' ? [...metadata.object.members] : [];
  return Object.fromEntries(members.map(([name, value]) => [name, textOf(value) ?? '']));
}

function textOf(member: JsonMember | undefined): string | undefined {
  return member?.type === 'string' ? member.text : undefined;
}

/** Bodies whose amount or currency is refused. */
export const REFUSED_MONEY = {
  notAnObject: '[]',
  memberTwice: '{"amount":"1.00","amount":"2.00","currency":"USD"}',
  amountMissing: '{"currency":"USD"}',
  amountNotText: '{"amount":true,"currency":"USD"}',
  amountNotPlain: '{"amount":"1e2","currency":"USD"}',
  amountTooLong: '{"amount":"1234567890123456","currency":"USD"}',
  amountHasMoreDecimals: '{"amount":"1.005","currency":"USD"}',
  amountIsZero: '{"amount":"0.00","currency":"USD"}',
  currencyMissing: '{"amount":"1.00"}',
  currencyNotText: '{"amount":"1.00","currency":840}',
  currencyUnknown: '{"amount":"1.00","currency":"XXX"}',
};

const withMoney = (members: string) => `{"amount":"1.00","currency":"USD",${members}}`;

const paymentProblems = refusedBodies(readBody, {
  ...REFUSED_MONEY,
  sourceNotText: withMoney('"source":{"id":"tok"}'),
  sourceTooShort: withMoney('"source":""'),
  sourceNotAscii: withMoney('"source":"tok 1"'),
  sourceIsCardNumber: withMoney('"source":"4242424242424242"'),
  descriptionNotText: withMoney('"description":1'),
  descriptionTooShort: withMoney('"description":""'),
  descriptionBroken: withMoney('"description":"\\u0000"'),
  metadataNotAnObject: withMoney('"metadata":[]'),
  metadataTwice: withMoney('"metadata":{"size":"9","size":"10"}'),
  metadataTooMany: withMoney(`"metadata":{${Array.from({ length: MOST_METADATA + 1 }, (_, n) => `"${n}":""`)}}`),
  metadataProto: withMoney('"metadata":{"__proto__":""}'),
  metadataValueNotText: withMoney('"metadata":{"size":9}'),
  metadataNameTooShort: withMoney('"metadata":{"":"9"}'),
  metadataNameBroken: withMoney('"metadata":{"\\u0000":"9"}'),
  metadataValueTooLong: withMoney(`"metadata":{"size":"${'x'.repeat(MOST_METADATA_VALUE + 1)}"}`),
  metadataValueBroken: withMoney('"metadata":{"size":"\\u0000"}'),
  returnUrlNotText: withMoney('"returnUrl":1'),
  returnUrlNotAUrl: withMoney('"returnUrl":"shop"'),
});

const description: RouteDescription = {
  operationId: 'pay',
  tag: 'Payments',
  summary: 'Pay, once for each key, or for each order',
  text: `With \`reference\` one request does everything. The first request with a key processes the payment. Every repeat gets the stored result with \`Idempotent-Replayed: true\`, and nothing is processed again. Repeat the **same** request after 408, 409, 429, any 5xx, or no answer: that never means that the payment failed. After 202 it is pending: repeat it too. After 402 the payment is declined for good. A 400 for the body spends nothing: correct it and use the same key. A 400 for the key does not say that nothing was charged: a key is invalid also when its life is over and it was paid. Once a request with it may have arrived, take a new key only when \`getPayment\` answers 404 with \`Idempay-Key-State: expired-unpaid\`, or the payment is \`DECLINED\`.`,
  parameters: REFERENCE,
  anyAnswerHeaders: [COMPUTED_KEY],
  headers: [PAYMENT_KEY, PREFER],
  body: {
    text: 'At most 16 KiB with the whole body in UTF-8, so not every member can have its greatest length.',
    required: true,
    schema: 'PaymentRequest',
    examples: { dollars: { amount: '100.50', currency: 'USD' }, yen: { amount: '1200', currency: 'JPY' } },
  },
  answers: {
    200: {
      text: 'Paid: by this request, or by an earlier one with the same key.',
      headers: [NO_STORE, sometimes(REPLAYED), PREFERENCE_APPLIED],
      content: {
        mediaType: 'application/json',
        schema: sentenceOrRecord('^(Payment processed successfully with )?Transaction ID: TXN\\d+$'),
        examples: {
          first: `Payment processed successfully with Transaction ID: ${EXAMPLE_PAYMENT_ID}`,
          repeat: `Transaction ID: ${EXAMPLE_PAYMENT_ID}`,
          record: examplePayment(),
        },
      },
    },
    202: {
      text: 'Pending, for a request with a `returnUrl` or `Prefer: respond-async`: the payer has to confirm it, or the processor takes time. Send the payer to `pending.action.url`, and repeat the same request after `Retry-After` seconds, or when the payer has come back.',
      headers: [NO_STORE, RETRY_AFTER, PREFERENCE_APPLIED],
      content: {
        mediaType: 'application/json',
        schema: { $ref: '#/components/schemas/PendingPayment' },
        examples: {
          confirmation: examplePending({ url: 'https://bank.example/confirm/8f2c' }),
          waiting: examplePending(),
        },
      },
    },
  },
  errors: [
    'missingIdempotencyKey',
    'invalidIdempotencyKey',
    'emptyBody',
    paymentProblems,
    'paymentDeclined',
    'attemptDeclined',
    ...referenceErrors,
    'keyOfAnotherReference',
    ...turnErrors,
    'paymentCancelled',
    'chargedAfterCancellation',
    'attemptSuperseded',
    'attemptMayBeLost',
    'attemptSupersededAtProcessor',
    'rowsLost',
    'otherProcessorBeforeLoss',
    'paymentInProgress',
    'paymentMismatch',
    'referenceMismatch',
    'tooManyPayments',
    'paymentNotSent',
    'pendingUnanswered',
    'paymentOutcomeUnknown',
  ],
  errorHeaders: {
    ...Object.fromEntries([400, 409, 410, 422, 503, 504].map((status) => [status, [PREFERENCE_APPLIED]])),
    402: [sometimes(REPLAYED), PREFERENCE_APPLIED],
  },
};

function readBody(body: JsonBody): void {
  const request = readPaymentRequest(body);
  if ('problem' in request) throw publicErrors.invalidBody(request.problem);
}

/**
 * The members that bodies of requests may hold, for readers and for clients that are generated. They never judge a request: number text and
 * repeated members are lost on a schema, so the bodies are read by hand (rules P4 and T2). The test `unit/described-bodies` holds both
 * against each other.
 */

const currencies = [...MINOR_UNITS.keys()].sort();

/** The decimals that a currency allows in an amount; `pattern` applies to strings only. */
export const decimalsByCurrency = [...new Set(MINOR_UNITS.values())].sort().map((decimals) => ({
  if: {
    properties: { currency: { enum: currencies.filter((code) => MINOR_UNITS.get(code) === decimals) } },
    required: ['currency'],
  },
  // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema.
  then: {
    properties: {
      amount: { pattern: decimals === 0 ? '^\\d+$' : `^\\d+(?:\\.\\d{1,${decimals}})?$` },
      currency: {},
    },
  },
}));

export const CurrencySchema = {
  description:
    'An ISO 4217 code of money in use, with decimals or, such as JPY, without. Taken in any case, and kept in upper case.',
  type: 'string',
  enum: currencies,
  examples: ['USD'],
};

export const AMOUNT = {
  description:
    'More than 0, plain digits, at most 15 in all. Send it as a string. A JSON number is taken where its text obeys the rules of the string: `100.50` is, `1e2` is not.',
  anyOf: [
    { type: 'string', pattern: `^${NOT_ALL_ZEROS}${AT_MOST_15_DIGITS}(?:0|[1-9]\\d*)(?:\\.\\d+)?$` },
    { type: 'number', exclusiveMinimum: 0 },
  ],
  examples: ['100.50'],
};

export const PaymentRequestSchema = {
  type: 'object',
  description:
    'Unknown members are ignored. A repeated member is refused. An amount has no more decimals than its currency.',
  required: ['amount', 'currency'],
  properties: {
    amount: AMOUNT,
    currency: { $ref: '#/components/schemas/Currency' },
    source: {
      description:
        'Stands for the payer at your processor; never a card number. It is sent with the charge, and erased when the payment is final.',
      type: 'string',
      pattern: `^[!-~]{1,${MOST_SOURCE}}$`,
      examples: ['tok_1a2b3c'],
    },
    description: {
      description:
        'What is paid. A repeat may have another one, and another `source` and `metadata`: those of the first claim are charged.',
      type: 'string',
      minLength: 1,
      maxLength: MOST_DESCRIPTION,
    },
    metadata: {
      type: 'object',
      maxProperties: MOST_METADATA,
      propertyNames: { minLength: 1, maxLength: MOST_METADATA_NAME },
      additionalProperties: { type: 'string', maxLength: MOST_METADATA_VALUE },
    },
    returnUrl: {
      description:
        'A payer is present, and comes back to this address after a confirmation: `https`, or `http` on a loopback name. The answer may then be a 202. It is sent with the charge, kept as `source` is, and shown nowhere.',
      type: 'string',
      maxLength: MOST_RETURN_URL,
      pattern: '^[hH][tT][tT][pP][sS]?://[!-\\[\\]-~]+$',
      examples: ['https://shop.example/orders/17/paid'],
    },
  },
  allOf: decimalsByCurrency,
};
