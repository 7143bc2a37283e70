import { publicErrors } from '../errors/public-errors.js';
import { EXAMPLE_KEY, EXAMPLE_PAYMENT_ID, refusalsOf, throwProblem } from '../openapi/examples.js';
import { NO_STORE, PREFERENCE_APPLIED, REPLAYED, REQUEST_HEADERS, sometimes } from '../openapi/headers.js';
import type { RouteDescription } from '../openapi/route-description.js';
import { readPaymentRequest } from './request.js';

const { idempotencyKey, prefer } = REQUEST_HEADERS;

export const generateKey: RouteDescription = {
  operationId: 'generateKey',
  tag: 'Payments',
  summary: 'Issue an idempotency key',
  text: 'Ask for a key before each payment, keep it, and send it with every attempt at this payment. It expires `IDEMPOTENCY_TTL_SECONDS` after it was issued, or after its payment ended. With `AUTH=required` it belongs to the client that asked for it.',
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

export const pay: RouteDescription = {
  operationId: 'pay',
  tag: 'Payments',
  summary: 'Pay, once for each key',
  text: `The first request with a key processes the payment. Every repeat gets the stored result with \`Idempotent-Replayed: true\`, and nothing is processed again. Repeat with the **same** key after 409, 429, 503, 504 and when no answer came: such an answer never means that the payment failed. After 402 the payment is declined for good. A 400 for the body spends nothing: correct it and use the same key. A 400 for the key does not say that nothing was charged: a key is invalid also when its life is over and it was paid. Once a request with it may have arrived, take a new key only when \`getPayment\` answers 404 with \`Idempay-Key-State: expired-unpaid\`, or the payment is \`DECLINED\`.`,
  headers: [idempotencyKey, prefer],
  body: {
    text: 'At most 16 KiB.',
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
        schema: { type: 'string', pattern: '^(Payment processed successfully with )?Transaction ID: TXN\\d+$' },
        examples: {
          first: `Payment processed successfully with Transaction ID: ${EXAMPLE_PAYMENT_ID}`,
          repeat: `Transaction ID: ${EXAMPLE_PAYMENT_ID}`,
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
    paymentInProgress: publicErrors.paymentInProgress(1),
    paymentMismatch: publicErrors.paymentMismatch(),
    tooManyPayments: publicErrors.tooManyPayments(1),
    paymentNotSent: publicErrors.paymentNotSent(),
    paymentOutcomeUnknown: publicErrors.paymentOutcomeUnknown(),
  },
  errorHeaders: {
    402: [sometimes(REPLAYED), PREFERENCE_APPLIED],
    400: [PREFERENCE_APPLIED],
    409: [PREFERENCE_APPLIED],
    422: [PREFERENCE_APPLIED],
    503: [PREFERENCE_APPLIED],
    504: [PREFERENCE_APPLIED],
  },
};

export const paymentStatus: RouteDescription = {
  operationId: 'getPaymentStatus',
  tag: 'Payments',
  summary: 'The transaction id of a completed payment',
  text: '404 also while the payment is under way or declined. `getPayment` tells these apart.',
  headers: [idempotencyKey],
  answers: {
    200: {
      text: 'The payment is completed.',
      headers: [NO_STORE],
      content: {
        mediaType: 'application/json',
        schema: { type: 'string', pattern: '^Transaction ID: TXN\\d+$' },
        examples: { completed: `Transaction ID: ${EXAMPLE_PAYMENT_ID}` },
      },
    },
  },
  errors: {
    missingIdempotencyKey: publicErrors.missingIdempotencyKey(),
    paymentNotFound: publicErrors.paymentNotFound(),
  },
};
