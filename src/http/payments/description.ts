import { EXAMPLE_KEY, EXAMPLE_PAYMENT_ID, publicErrors } from '../errors/public-errors.js';
import { NO_STORE, REPLAYED, sometimes } from '../openapi/headers.js';
import {
  type ParameterDescription,
  type RouteDescription,
  type RouteErrors,
  refusedBodies,
} from '../openapi/route-description.js';
import type { JsonBody } from '../requests/json-body.js';
import { refuseUnknownParameters } from '../requests/query-parameters.js';
import { examplePayment } from './examples.js';
import { CLIENT, COMPUTED_KEY, PAYMENT_REQUEST_HEADERS, PREFERENCE_APPLIED } from './headers.js';
import { attemptOf, clientMissing, OPERATED_REFERENCE_PARAMETERS, REFERENCE_PARAMETERS } from './reference-request.js';
import { readPaymentRequest } from './request.js';

const { idempotencyKey, prefer } = PAYMENT_REQUEST_HEADERS;

const reference: ParameterDescription = {
  text: 'Names what is to be paid once, such as an order: 1 to 128 of `A-Z a-z 0-9 - . _ ~ : / @`, but no name that lost its number (`order-`). The key is computed from it, the same each time, so that the same request can be sent again whenever there was no clear answer. It belongs to the client that sends it.',
  schema: { type: 'string', pattern: '^[A-Za-z0-9._~:/@-]{1,128}$' },
};
const attempt: ParameterDescription = {
  text: 'After a decline that was answered, 2 for the next try, and so on: counted by the caller, so that nothing that repeats by itself ever charges again.',
  schema: { type: 'string', pattern: '^[1-9][0-9]?$' },
};
const client: ParameterDescription = {
  text: 'For operators: whose reference it is, such as `key:shop`, exactly as the records have it. Without it an operator that pays too means itself.',
  schema: { type: 'string', minLength: 1 },
};

const referenceErrors: RouteErrors = [
  'invalidReference',
  'referenceWithoutNumber',
  'referenceOfWordsAlone',
  { invalidAttempt: () => attemptOf('0') },
  'attemptWithoutReference',
  { unknownParameter: () => refuseUnknownParameters({ atempt: '' }, REFERENCE_PARAMETERS) },
];
const operatedReferenceErrors: RouteErrors = [
  ...referenceErrors,
  'keyOfAnotherReference',
  { unknownParameter: () => refuseUnknownParameters({ atempt: '' }, OPERATED_REFERENCE_PARAMETERS) },
  'invalidClient',
  'unknownClient',
  'referenceOfAnotherClient',
  { clientMissing: clientMissing() },
  'clientWithoutReference',
];
const turnErrors: RouteErrors = [
  'attemptBeforeUnderWay',
  'attemptBeforeAbsent',
  'attemptBeforeCompleted',
  'attemptBeforeCancelled',
  'attemptTooLate',
];

export const generateKey: RouteDescription = {
  operationId: 'generateKey',
  tag: 'Payments',
  summary: 'Issue an idempotency key',
  text: 'Ask for a key before each payment, keep it, and send it with every attempt at this payment. It expires `IDEMPOTENCY_TTL_SECONDS` after it was issued, or after its payment ended. With `AUTH=required` it belongs to the client that asked for it. With `reference` the key is the one of the reference, the same each time.',
  parameters: { reference, attempt },
  anyAnswerHeaders: [sometimes(COMPUTED_KEY)],
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

const paymentProblems = refusedBodies(readBody, {
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
});

function readBody(body: JsonBody): void {
  const request = readPaymentRequest(body);
  if ('problem' in request) throw publicErrors.invalidBody(request.problem);
}

/** With `Prefer: return=representation` the record, where its row can be read. */
const sentenceOrRecord = (pattern: string) => ({
  anyOf: [{ type: 'string', pattern }, { $ref: '#/components/schemas/Payment' }],
});

export const pay: RouteDescription = {
  operationId: 'pay',
  tag: 'Payments',
  summary: 'Pay, once for each key, or for each order',
  text: `With \`reference\` one request does everything. The first request with a key processes the payment. Every repeat gets the stored result with \`Idempotent-Replayed: true\`, and nothing is processed again. Repeat the **same** request after 408, 409, 429, any 5xx, or no answer: that never means that the payment failed. After 402 the payment is declined for good. A 400 for the body spends nothing: correct it and use the same key. A 400 for the key does not say that nothing was charged: a key is invalid also when its life is over and it was paid. Once a request with it may have arrived, take a new key only when \`getPayment\` answers 404 with \`Idempay-Key-State: expired-unpaid\`, or the payment is \`DECLINED\`.`,
  parameters: { reference, attempt },
  anyAnswerHeaders: [sometimes(COMPUTED_KEY)],
  headers: [idempotencyKey, prefer],
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
    'paymentOutcomeUnknown',
  ],
  errorHeaders: {
    ...Object.fromEntries([400, 409, 410, 422, 503, 504].map((status) => [status, [PREFERENCE_APPLIED]])),
    402: [sometimes(REPLAYED), PREFERENCE_APPLIED],
  },
};

export const paymentStatus: RouteDescription = {
  operationId: 'getPaymentStatus',
  tag: 'Payments',
  summary: 'The transaction id of a completed payment',
  text: '404 also while the payment is under way, declined or cancelled. `getPayment` tells these apart. With `reference` and without `attempt` it is of the newest attempt.',
  parameters: { reference, attempt, client },
  anyAnswerHeaders: [sometimes(COMPUTED_KEY), CLIENT],
  headers: [idempotencyKey, prefer],
  answers: {
    200: {
      text: 'The payment is completed.',
      headers: [NO_STORE, PREFERENCE_APPLIED],
      content: {
        mediaType: 'application/json',
        schema: sentenceOrRecord('^Transaction ID: TXN\\d+$'),
        examples: { completed: `Transaction ID: ${EXAMPLE_PAYMENT_ID}`, record: examplePayment() },
      },
    },
  },
  errors: ['missingIdempotencyKey', ...operatedReferenceErrors, 'paymentNotFound'],
};

export const cancelPayment: RouteDescription = {
  operationId: 'cancelPayment',
  tag: 'Payments',
  summary: 'Close a payment that is not to be made',
  text: 'For an order that was paid otherwise, or given up: a late worker, a queue or a stale page can then never charge it. Of a cancellation and a payment exactly one succeeds. Repeat the same request after 408, 409, 429, any 5xx, or no answer. A payment with the key, or the reference and attempt, is answered with 410 from then on.',
  parameters: { reference, attempt, client },
  anyAnswerHeaders: [sometimes(COMPUTED_KEY), CLIENT],
  headers: [idempotencyKey],
  answers: {
    200: {
      text: 'The payment is cancelled: by this request, or by one before.',
      headers: [NO_STORE],
      content: {
        mediaType: 'application/json',
        schema: { const: 'Payment cancelled.' },
        examples: { cancelled: 'Payment cancelled.' },
      },
    },
  },
  errors: [
    'missingIdempotencyKey',
    'invalidIdempotencyKey',
    ...operatedReferenceErrors,
    ...turnErrors,
    'completedBefore',
    'declinedBefore',
    'attemptDeclinedBefore',
    'chargedBefore',
    'paymentInProgress',
    'rowsLost',
    'otherProcessorBeforeLoss',
    'paymentOutcomeUnknown',
  ],
};
