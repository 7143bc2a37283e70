import { messageOf, provenMessageOf } from '@idempay/client/proof';
import { expect, test } from 'vitest';
import { CHUNK_EXTENSIONS_TOO_LARGE, HEADERS_TOO_LARGE, MALFORMED } from '#idempay/http/connections/parser-errors.js';
import { EXAMPLE_ERRORS, type Operation, publicErrors, storeRefusal } from '#idempay/http/errors/catalogue.js';
import { errorBody, type PublicError, problemBody } from '#idempay/http/errors/public-error.js';
import { readPaymentRequest } from '#idempay/http/payments/pay.js';
import { readJsonBody } from '#idempay/http/requests/json-body.js';
import { StoreUnavailable } from '#idempay/platform/faults.js';
import { REFUSED_CONTENT } from '../../../testkit/client/payment-bodies.js';

/** As the client sees an error of the service. */
function answer(
  { status, message }: PublicError,
  headers: Record<string, string> = { idempay: '1' },
  more: object = {},
) {
  const text = JSON.stringify({ ...errorBody(status, message), ...more });
  return { status, headers: new Headers(headers), text };
}

const unavailable = (effect: 'unchanged' | 'unknown', operation: Operation) =>
  storeRefusal(new StoreUnavailable(effect, 'away', undefined), operation);

function problemOf(content: string): string {
  const request = readPaymentRequest(readJsonBody(Buffer.from(`{"amount":"100.50","currency":"USD",${content}}`)));
  if (!('problem' in request)) throw new Error(`${content} is no problem`);
  return request.problem;
}

/** The service's answers to a request that would change something, and that it refuses for good. */
const REFUSALS: Partial<Record<keyof typeof publicErrors, readonly PublicError[]>> = {
  missingIdempotencyKey: [publicErrors.missingIdempotencyKey()],
  invalidIdempotencyKey: [publicErrors.invalidIdempotencyKey()],
  paymentInProgress: [publicErrors.paymentInProgress(1)],
  paymentNotFound: [publicErrors.paymentNotFound()],
  keyEndedUnpaid: [publicErrors.keyEndedUnpaid()],
  recordNotFound: [publicErrors.recordNotFound()],
  paymentMismatch: [publicErrors.paymentMismatch()],
  paymentDeclined: [publicErrors.paymentDeclined('lost card')],
  attemptDeclined: [publicErrors.attemptDeclined('lost card', 1), publicErrors.attemptDeclined('lost card', 99)],
  invalidReference: [publicErrors.invalidReference()],
  referenceWithoutNumber: (['absent value', 'words alone'] as const).map((lost) =>
    publicErrors.referenceWithoutNumber(lost),
  ),
  withoutReference: [publicErrors.withoutReference('attempt'), publicErrors.withoutReference('only')],
  clientForOperators: [publicErrors.clientForOperators()],
  unknownClient: [publicErrors.unknownClient()],
  referenceOfAnotherClient: ['key:shop', undefined].map((other) =>
    publicErrors.referenceOfAnotherClient('key:operator', other),
  ),
  keyOfAnotherReference: [publicErrors.keyOfAnotherReference()],
  referenceMismatch: [publicErrors.referenceMismatch()],
  paymentCancelled: [publicErrors.paymentCancelled()],
  chargedAfterCancellation: [publicErrors.chargedAfterCancellation()],
  attemptBeforeUnderWay: [publicErrors.attemptBeforeUnderWay(2, 1)],
  attemptBeforePending: [publicErrors.attemptBeforePending(2)],
  cannotBeEnded: [publicErrors.cannotBeEnded()],
  nothingToEnd: [publicErrors.nothingToEnd(2)],
  attemptOutOfTurn: (['absent', 'completed', 'cancelled', 'declined too long ago'] as const).map((previous) =>
    publicErrors.attemptOutOfTurn(2, previous),
  ),
  attemptSuperseded: [publicErrors.attemptSuperseded(1, { attempt: 2, state: 'DECLINED' })],
  cancelledTooLate: [publicErrors.cancelledTooLate('TXN1')],
  cancelledAfterDecline: [publicErrors.cancelledAfterDecline(undefined), publicErrors.cancelledAfterDecline(1)],
  cancelledAtProcessor: [publicErrors.cancelledAtProcessor()],
  invalidRefund: [publicErrors.invalidRefund()],
  refundOfNoPayment: [publicErrors.refundOfNoPayment(false), publicErrors.refundOfNoPayment(true)],
  refundOfUnpaid: [publicErrors.refundOfUnpaid('DECLINED')],
  refundTooEarly: [publicErrors.refundTooEarly()],
  refundOfOtherCurrency: [publicErrors.refundOfOtherCurrency('EUR')],
  refundTooLarge: [publicErrors.refundTooLarge('12.50', 'USD'), publicErrors.refundTooLarge('0', 'JPY')],
  refundMismatch: [publicErrors.refundMismatch()],
  refundDeclined: [publicErrors.refundDeclined('the charge is disputed')],
  refundInProgress: [publicErrors.refundInProgress(1)],
  refundTooLate: [publicErrors.refundTooLate()],
  refundOfOtherProcessor: [publicErrors.refundOfOtherProcessor('acme')],
  refundsNotSupported: [publicErrors.refundsNotSupported()],
  settlementsIncarnation: [publicErrors.settlementsIncarnation('2026-11-20T12:50:02.000000Z')],
  settlementsRemoved: [publicErrors.settlementsRemoved('2026-11-20T13:00:02.000001Z')],
  paymentFinal: [publicErrors.paymentFinal('COMPLETED')],
  resolutionTooEarly: [publicErrors.resolutionTooEarly(1, false), publicErrors.resolutionTooEarly(1, true)],
  otherProcessor: [publicErrors.otherProcessor('one')],
  invalidCreationKey: [publicErrors.invalidCreationKey()],
  creationMismatch: [publicErrors.creationMismatch()],
  transactionNotFound: [publicErrors.transactionNotFound('7')],
  webhookNotFound: [publicErrors.webhookNotFound('shop')],
  invalidTransactionId: [publicErrors.invalidTransactionId()],
  transactionFinal: [publicErrors.transactionFinal('FAILED')],
  preconditionFailed: [publicErrors.preconditionFailed('transaction'), publicErrors.preconditionFailed('payment')],
  invalidBody: [
    "'amount' must be more than 0.",
    "transactions[1]: 'amount' must be more than 0.",
    'transactions[1]: must be a JSON object.',
    'The body must be a JSON object.',
    ...REFUSED_CONTENT.map(([content]) => problemOf(content)),
  ].map(publicErrors.invalidBody),
  unreadableBody: [publicErrors.unreadableBody('it is not valid UTF-8.')],
  emptyBody: [publicErrors.emptyBody()],
  unsupportedMediaType: [publicErrors.unsupportedMediaType()],
  bodyTooLarge: [publicErrors.bodyTooLarge(16_384)],
  invalidRequest: [
    "'x' is not a query parameter of this path. Send it without parameters.",
    "A refund names its payment by the Idempotency-Key header or by 'reference', and not by both. Nothing was given back.",
    'HTTP/1.0 has no Transfer-Encoding.',
    'The last transfer coding must be chunked.',
  ].map(publicErrors.invalidRequest),
  invalidFraming: [publicErrors.invalidFraming('HTTP/1.0 has no Transfer-Encoding.')],
  invalidHost: [publicErrors.invalidHost()],
  repeatedHeader: [publicErrors.repeatedHeader()],
  invalidPath: [publicErrors.invalidPath()],
  invalidQuery: [publicErrors.invalidQuery()],
  unknownRoute: [publicErrors.unknownRoute()],
  methodNotAllowed: [publicErrors.methodNotAllowed('GET')],
  uriTooLong: [publicErrors.uriTooLong(16_384)],
  expectationFailed: [publicErrors.expectationFailed()],
  credentialsMissing: [publicErrors.credentialsMissing()],
  credentialsInvalid: [publicErrors.credentialsInvalid()],
  scopeMissing: [publicErrors.scopeMissing(['payments:write'])],
  otherSite: [publicErrors.otherSite()],
  misdirected: [publicErrors.misdirected()],
};
/** It did nothing, and may be sent again. */
const NOTHING_BEGUN: Partial<Record<keyof typeof publicErrors, readonly PublicError[]>> = {
  tooManyRequests: [publicErrors.tooManyRequests(60, 1)],
  rowsLost: [publicErrors.rowsLost(1)],
  otherProcessorBeforeLoss: [publicErrors.otherProcessorBeforeLoss()],
  tooManyConnections: [publicErrors.tooManyConnections()],
  tooManyUnpaidKeys: [publicErrors.tooManyUnpaidKeys()],
  tooManyBodies: [publicErrors.tooManyBodies()],
  starting: [publicErrors.starting()],
  credentialsUnchecked: [publicErrors.credentialsUnchecked()],
  storeUnavailable: (
    [
      'create transaction',
      'create once',
      'create transactions',
      'change status',
      'delete transaction',
      'resolve payment',
      'cancel payment',
      'refund',
    ] as const
  ).map((operation) => unavailable('unchanged', operation)),
};
/** Answers to reads alone, and those that a client repeats whatever they say. */
const OTHERS: readonly (keyof typeof publicErrors)[] = [
  'tooManyPayments',
  'paymentNotSent',
  'pendingUnanswered',
  'refundsUnchecked',
  'tooManyRefunds',
  'refundNotSent',
  'refundOutcomeUnknown',
  'paymentOutcomeUnknown',
  'tooManyLookUps',
  'noConsole',
  'unknownMethod',
  'unknownVersion',
  'unknownTransferCoding',
  'keyNotFound',
  'tooManyLists',
  'draining',
  'storeOfRecordAway',
  'storeOutcomeUnknown',
  'refused',
  'storeUnreachable',
  'internal',
];

/**
 * Bug: the client repeated an attempt that the processor has a later one of, until its time was over. Cause: an entry has two sentences, and the
 * samples here had one of them. Fix: the examples of the description are samples too.
 */
function withExamples(samples: readonly PublicError[]): readonly PublicError[] {
  const problems = new Set(samples.map(({ problem }) => problem));
  return [...samples, ...Object.values(EXAMPLE_ERRORS).filter(({ problem }) => problems.has(problem))];
}

test('each refusal of the catalogue is known by its header, its status and its sentence', () => {
  const all = [...withExamples(Object.values(REFUSALS).flat()), ...Object.values(NOTHING_BEGUN).flat()];
  for (const error of [...all, MALFORMED, CHUNK_EXTENSIONS_TOO_LARGE, HEADERS_TOO_LARGE]) {
    expect(provenMessageOf(answer(error)), error.message).toBe(error.message);
    expect(provenMessageOf(answer(error, {})), 'without the header').toBeUndefined();
    expect(provenMessageOf(answer(error, { idempay: '1' }, { status: 418 })), 'of another status').toBeUndefined();
  }
  for (const error of all) {
    const asProblem = (more: object = {}) => ({
      ...answer(error),
      text: JSON.stringify({ ...problemBody(error), ...more }),
    });
    expect(provenMessageOf(asProblem()), 'as RFC 9457').toBe(error.message);
    expect(provenMessageOf(asProblem({ status: 418 })), 'of another status').toBeUndefined();
    expect(provenMessageOf(asProblem({ type: 'about:blank' })), 'of no type').toBeUndefined();
  }
  const named = [...Object.keys(REFUSALS), ...Object.keys(NOTHING_BEGUN), ...OTHERS];
  expect(named.sort(), 'sort a new error of the catalogue into one of the three').toEqual(
    Object.keys(publicErrors).sort(),
  );
});

test('an effect that is not known is no refusal', () => {
  for (const operation of [
    'pay',
    'create transaction',
    'create once',
    'change status',
    'delete transaction',
    'cancel payment',
    'refund',
  ] as const) {
    expect(provenMessageOf(answer(unavailable('unknown', operation)))).toBeUndefined();
  }
});

test('what a gateway writes over an answer proves nothing, also where it keeps the header and has the three members', () => {
  for (const status of [400, 401, 402, 403, 404, 405, 409, 412, 413, 422, 429, 431, 501, 503]) {
    const text = JSON.stringify(errorBody(status, 'Response blocked'));
    expect(provenMessageOf({ status, headers: new Headers({ idempay: '1' }), text })).toBeUndefined();
  }
});

test("an error by RFC 9457 is the service's own by its type", () => {
  const problem = (type: string) => ({
    ...{ status: 404, headers: new Headers({ idempay: '1' }) },
    text: JSON.stringify({ type, title: 'Not Found', status: 404, detail: 'There is nothing at this path.' }),
  });
  expect(messageOf(problem('/problems#unknown-route'))).toBe('There is nothing at this path.');
  expect(messageOf(problem('https://example.com/idempay/problems#unknown-route'))).toBeDefined();
  for (const type of ['about:blank', '/problems', 'https://example.com/errors#1'])
    expect(messageOf(problem(type))).toBeUndefined();
});
