import { publicErrors } from '../errors/public-errors.js';
import { refusalBy, refusalsOf, throwProblem } from '../openapi/examples.js';
import { NO_STORE, REPLAYED, sometimes } from '../openapi/headers.js';
import type { ParameterDescription, RouteDescription } from '../openapi/route-description.js';
import { refuseUnknownParameters } from '../requests/query-parameters.js';
import { EXAMPLE_KEY, EXAMPLE_PAYMENT_ID, examplePayment } from './examples.js';
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

const referenceErrors = {
  invalidReference: publicErrors.invalidReference(),
  referenceWithoutNumber: publicErrors.referenceWithoutNumber('absent value'),
  referenceOfWordsAlone: publicErrors.referenceWithoutNumber('words alone'),
  invalidAttempt: refusalBy(() => attemptOf('0')),
  attemptWithoutReference: publicErrors.withoutReference('attempt'),
  unknownParameter: refusalBy(() => refuseUnknownParameters({ atempt: '' }, REFERENCE_PARAMETERS)),
};
const keyOfAnotherReference = publicErrors.keyOfAnotherReference();
const operatedReferenceErrors = {
  ...referenceErrors,
  keyOfAnotherReference,
  unknownParameter: refusalBy(() => refuseUnknownParameters({ atempt: '' }, OPERATED_REFERENCE_PARAMETERS)),
  invalidClient: publicErrors.clientForOperators(),
  unknownClient: publicErrors.unknownClient(),
  referenceOfAnotherClient: publicErrors.referenceOfAnotherClient('key:operator', 'key:shop'),
  clientMissing: clientMissing(),
  clientWithoutReference: publicErrors.withoutReference('client'),
};
const turnErrors = {
  attemptBeforeUnderWay: publicErrors.attemptBeforeUnderWay(2, 1),
  attemptBeforeAbsent: publicErrors.attemptOutOfTurn(2, 'absent'),
  attemptBeforeCompleted: publicErrors.attemptOutOfTurn(2, 'completed'),
  attemptBeforeCancelled: publicErrors.attemptOutOfTurn(2, 'cancelled'),
  attemptTooLate: publicErrors.attemptOutOfTurn(2, 'declined too long ago'),
  paymentCancelled: publicErrors.paymentCancelled(),
};

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
  errors: {
    tooManyUnpaidKeys: publicErrors.tooManyUnpaidKeys(),
    ...referenceErrors,
    ...turnErrors,
  },
};

const paymentProblems = refusalsOf((body) => throwProblem(readPaymentRequest(body)), {
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
  errors: {
    missingIdempotencyKey: publicErrors.missingIdempotencyKey(),
    invalidIdempotencyKey: publicErrors.invalidIdempotencyKey(),
    emptyBody: publicErrors.emptyBody(),
    ...paymentProblems,
    paymentDeclined: publicErrors.paymentDeclined('insufficient funds'),
    attemptDeclined: publicErrors.attemptDeclined('insufficient funds', 1),
    ...referenceErrors,
    keyOfAnotherReference,
    ...turnErrors,
    chargedAfterCancellation: publicErrors.chargedAfterCancellation(),
    attemptSuperseded: publicErrors.attemptSuperseded(1, {
      attempt: 2,
      state: 'COMPLETED',
      transactionId: EXAMPLE_PAYMENT_ID,
    }),
    attemptMayBeLost: publicErrors.attemptOutOfTurn(2, 'may be lost'),
    attemptSupersededAtProcessor: publicErrors.attemptSuperseded(1, { attempt: 2 }),
    rowsLost: publicErrors.rowsLost(40),
    otherProcessorBeforeLoss: publicErrors.otherProcessorBeforeLoss(),
    paymentInProgress: publicErrors.paymentInProgress(1),
    paymentMismatch: publicErrors.paymentMismatch(),
    referenceMismatch: publicErrors.referenceMismatch(),
    tooManyPayments: publicErrors.tooManyPayments(1, 'key'),
    paymentNotSent: publicErrors.paymentNotSent('key'),
    paymentOutcomeUnknown: publicErrors.paymentOutcomeUnknown('key'),
  },
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
  errors: {
    missingIdempotencyKey: publicErrors.missingIdempotencyKey(),
    ...operatedReferenceErrors,
    paymentNotFound: publicErrors.paymentNotFound(),
  },
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
  errors: {
    missingIdempotencyKey: publicErrors.missingIdempotencyKey(),
    invalidIdempotencyKey: publicErrors.invalidIdempotencyKey(),
    ...operatedReferenceErrors,
    attemptBeforeUnderWay: turnErrors.attemptBeforeUnderWay,
    attemptBeforeAbsent: turnErrors.attemptBeforeAbsent,
    attemptBeforeCompleted: turnErrors.attemptBeforeCompleted,
    attemptBeforeCancelled: turnErrors.attemptBeforeCancelled,
    attemptTooLate: turnErrors.attemptTooLate,
    completedBefore: publicErrors.cancelledTooLate(EXAMPLE_PAYMENT_ID),
    declinedBefore: publicErrors.cancelledAfterDecline(undefined),
    attemptDeclinedBefore: publicErrors.cancelledAfterDecline(1),
    chargedBefore: publicErrors.cancelledAtProcessor(),
    paymentInProgress: publicErrors.paymentInProgress(1),
    rowsLost: publicErrors.rowsLost(40),
    otherProcessorBeforeLoss: publicErrors.otherProcessorBeforeLoss(),
    paymentOutcomeUnknown: publicErrors.paymentOutcomeUnknown('key'),
  },
};
