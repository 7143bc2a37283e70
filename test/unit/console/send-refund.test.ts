import { afterEach, describe, expect, test, vi } from 'vitest';
import { publicErrors } from '#idempay/http/errors/catalogue.js';
import type { PublicError } from '#idempay/http/errors/public-error.js';
import { createHttp } from '../../../console/src/http/http.js';
import type { Payment } from '../../../console/src/payments/payment.js';
import { sendRefund } from '../../../console/src/payments/refunds/send-refund.js';
import { COMPUTED_KEY, json, OTHER_KEY, page, refusal } from '../../../testkit/client-library/scripted-fetch.js';

const PAYMENT = { idempotencyKey: COMPUTED_KEY, amount: '100.00', currency: 'EUR', state: 'COMPLETED' } as Payment;
const REQUEST = { name: 'line-1', amount: '10.00', reason: '' };
const OWN = { idempay: '1' };
const OF_REFUND = { 'idempay-refund-key': OTHER_KEY };

afterEach(() => {
  vi.unstubAllGlobals();
});

/** Sends the refund to a service that gives this answer. `mayBeMade`: an earlier request had no clear answer. */
async function send(answer: Response | Error, mayBeMade: boolean) {
  vi.stubGlobal('document', { baseURI: 'http://idempay.test/console' });
  vi.stubGlobal('fetch', async () => {
    if (answer instanceof Error) throw answer;
    return answer.clone();
  });
  return sendRefund(
    createHttp(undefined, () => {}),
    PAYMENT,
    REQUEST,
    mayBeMade,
  );
}

const answered = ({ status, message, headers }: PublicError, more: Record<string, string> = {}) =>
  refusal(status, message, { ...headers, ...more });

/**
 * Bug: after an unclear answer a second send could free the name, so that another name refunded the same money again. Cause: each refusal
 * counted as the outcome of the refund, also one that the service gives before it looks the refund up, such as a limit of requests. Fix: only
 * an answer about this refund, or that there is no such refund, ends the doubt.
 */
describe('a refund that may have been made by an earlier request', () => {
  test.each<[what: string, error: PublicError]>([
    ['a limit of requests', publicErrors.tooManyRequests(60, 1)],
    ['an unknown credential', publicErrors.credentialsInvalid()],
    ['a missing scope', publicErrors.scopeMissing(['refunds:write'])],
    ['a payment that is not completed yet', publicErrors.refundTooEarly()],
    ['rows that were lost', publicErrors.refundOfNoPayment(true)],
    ['a decline without the key of the refund', publicErrors.refundDeclined('the charge is disputed')],
  ])('stays unclear after %s', async (_what, error) => {
    expect(await send(answered(error), false)).toMatchObject({ kind: 'refused' });
    const result = await send(answered(error), true);
    expect(result.kind).toBe('unclear');
    expect(result.sentence).toMatch(/Send it again with the same name and amount: nothing is given back twice\.$/);
  });

  test.each<[what: string, answer: Response]>([
    ['a decline', answered(publicErrors.refundDeclined('the charge is disputed'), OF_REFUND)],
    ['a refund of this name with another amount', answered(publicErrors.refundMismatch(), OF_REFUND)],
    ['too little left', answered(publicErrors.refundTooLarge('5.00', 'EUR'))],
    ['another currency', answered(publicErrors.refundOfOtherCurrency('USD'))],
    ['a payment that charged nothing', answered(publicErrors.refundOfUnpaid('DECLINED'))],
    ['another processor', answered(publicErrors.refundOfOtherProcessor('acme'))],
    ['a payment that is about to be removed', answered(publicErrors.refundTooLate())],
    ['an adapter without refunds', answered(publicErrors.refundsNotSupported())],
    ['an unknown payment', answered(publicErrors.refundOfNoPayment(false))],
    ['a name that is not permitted', answered(publicErrors.invalidRefund())],
    ['an amount that is not permitted', answered(publicErrors.invalidBody("'amount' must be a decimal number."))],
  ])('is refused after %s', async (_what, answer) => {
    expect(await send(answer, true)).toMatchObject({ kind: 'refused' });
  });

  test('is made after the answer of the first request, or of a repeat', async () => {
    for (const sentence of ['Transaction ID: TXN1', 'Refund processed successfully with Transaction ID: TXN1']) {
      expect(await send(json(sentence, 200, OWN), true)).toMatchObject({ kind: 'made' });
    }
  });
});

test.each<[what: string, answer: Response | Error]>([
  ['no answer', new TypeError('fetch failed')],
  ['the page of a gateway', page(502)],
  ['the 200 of a gateway', json('ok')],
  ['a replaced sentence', refusal(422, 'Blocked')],
  ['a refund that is being made', answered(publicErrors.refundInProgress(1), OF_REFUND)],
  ['a refund that was not sent yet', answered(publicErrors.refundNotSent(), OF_REFUND)],
  ['an unclear answer of the processor', answered(publicErrors.refundOutcomeUnknown(), OF_REFUND)],
])('a refund is unclear after %s, also at its first request', async (_what, answer) => {
  expect(await send(answer, false)).toMatchObject({ kind: 'unclear' });
});
