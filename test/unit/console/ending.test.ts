import { afterEach, describe, expect, test, vi } from 'vitest';
import { publicErrors } from '#idempay/http/errors/catalogue.js';
import type { PublicError } from '#idempay/http/errors/public-error.js';
import type { Session } from '../../../console/src/access/session.js';
import { createHttp } from '../../../console/src/http/http.js';
import { mayEndAttempt, type Scope, sendEnding } from '../../../console/src/payments/ending.js';
import type { Payment } from '../../../console/src/payments/payment.js';
import { COMPUTED_KEY, json, OTHER_KEY, page, refusal } from '../../../testkit/client-library/scripted-fetch.js';

const ORDER = {
  idempotencyKey: COMPUTED_KEY,
  reference: 'order-17',
  attempt: 1,
  state: 'PROCESSING',
  pending: { until: '2026-11-29T12:00:00.000Z' },
} as Payment;
const OWN = { idempay: '1' };
const CANCELLED = 'Payment cancelled.';

afterEach(() => {
  vi.unstubAllGlobals();
});

/** Ends the payment at a service that gives this answer. */
async function end(answer: Response | Error, scope: Scope = 'order', payment: Payment = ORDER) {
  const sent: { readonly address: URL; readonly method: string | undefined; readonly headers: Headers }[] = [];
  vi.stubGlobal('document', { baseURI: 'http://idempay.test/prefix/console' });
  vi.stubGlobal('fetch', async (address: string, { method, headers }: RequestInit) => {
    sent.push({ address: new URL(address), method, headers: new Headers(headers) });
    if (answer instanceof Error) throw answer;
    return answer;
  });
  const http = createHttp(undefined, () => {});
  return { result: await sendEnding(http, payment, scope), sent };
}

const answered = ({ status, message, headers }: PublicError) => refusal(status, message, headers);

describe('a request of the console to end a payment', () => {
  test('names a payment by its key, so that its order is closed with it', async () => {
    const { result, sent } = await end(json(CANCELLED, 200, OWN));
    expect(sent.map(({ address, method }) => [method, address.pathname, address.search])).toEqual([
      ['POST', '/prefix/api/payment-cancellation', ''],
    ]);
    expect(sent[0]?.headers.get('idempotency-key')).toBe(COMPUTED_KEY);
    expect(result).toEqual({
      isEnded: true,
      sentence:
        'Attempt 1 is ended, and the order order-17 is closed. It charged nothing, and nothing that its payer was given can charge it any more.',
    });
  });

  test('names one attempt by its reference, its client and its key', async () => {
    const payment = { ...ORDER, client: 'key:shop' };
    const { result, sent } = await end(json(CANCELLED, 200, OWN), 'attempt', payment);
    expect(Object.fromEntries(sent[0]?.address.searchParams ?? [])).toEqual({
      reference: 'order-17',
      attempt: '1',
      client: 'key:shop',
      only: 'attempt',
    });
    expect(sent[0]?.headers.get('idempotency-key')).toBe(COMPUTED_KEY);
    expect(result.sentence).toMatch(/^Attempt 1 at the order order-17 is ended\. .* Attempt 2 may follow\.$/);
    const last = await end(json(CANCELLED, 200, OWN), 'attempt', { ...ORDER, attempt: 99 });
    expect(last.result.sentence).toMatch(/ It was the last one\.$/);
    const alone = await end(json(CANCELLED, 200, OWN), 'order', { ...ORDER, reference: null, attempt: null });
    expect(alone.result.sentence).toMatch(/^The payment is ended\. /);
  });

  test.each<[what: string, error: PublicError, sentence: RegExp]>([
    [
      'a payment that was completed meanwhile',
      publicErrors.cancelledTooLate('TXN1'),
      /^It was paid meanwhile, so nothing was ended\. The payment is completed with Transaction ID: TXN1\./,
    ],
    [
      'a payment that was declined meanwhile',
      publicErrors.cancelledAfterDecline(1),
      /^It was declined meanwhile, so nothing was ended\. Attempt 1 was declined\. To close the order, cancel attempt=2\./,
    ],
    [
      'a payment that cannot be ended now',
      publicErrors.cannotBeEnded(),
      /^It cannot be ended at the processor now, so it goes on as before, and its outcome will come\. Try again in \d+ /,
    ],
    [
      'a payment that an execution works on',
      publicErrors.paymentInProgress(3),
      /^Somebody works on it at this moment, so nothing was ended\. End it again in 3 sec\.$/,
    ],
    [
      'an unclear answer of the processor',
      publicErrors.paymentOutcomeUnknown('key'),
      /^The processor gave no clear answer, .* asks the processor for that again by itself, and sends no charge meanwhile\. You can also end it again\.$/,
    ],
    ['an unknown client', publicErrors.unknownClient(), /^'client' is not known/],
  ])('has a sentence for %s', async (_what, error, sentence) => {
    const { result } = await end(answered(error));
    expect(result.isEnded).toBe(false);
    expect(result.sentence).toMatch(sentence);
    expect(result.sentence).not.toContain('It may have been ended');
  });

  test.each<[what: string, answer: Response | Error]>([
    ['no answer', new TypeError('fetch failed')],
    ['the page of a gateway', page(502)],
    ['the 200 of a gateway', json('ok')],
    ['another answer of the service', json('Transaction ID: TXN1', 200, OWN)],
    ['another payment', json(CANCELLED, 200, { ...OWN, 'idempotency-key': OTHER_KEY })],
    ['a replaced sentence', refusal(409, 'Blocked')],
    ['a failed store', answered(publicErrors.storeOutcomeUnknown('cancel payment'))],
  ])('says after %s that the payment may have been ended', async (_what, answer) => {
    const { result } = await end(answer);
    expect(result.isEnded).toBe(false);
    expect(result.sentence).toMatch(/It may have been ended: end it again, which changes nothing then\.$/);
  });
});

describe('one attempt', () => {
  const may = (
    access: Session['access'],
    isOperator: boolean,
    client?: string,
    reference: string | null = 'order-17',
  ) =>
    mayEndAttempt(
      { ...ORDER, reference, ...(client !== undefined && { client }) },
      {
        session: { access } as Session,
        may: () => isOperator,
      },
    );

  test('is ended alone if its reference can be named', () => {
    expect(may('none', true)).toBe(true);
    expect(may('required', false)).toBe(true);
    expect(may('required', true, 'key:shop')).toBe(true);
  });

  test('is not ended alone if it has no reference, or a client that cannot be named', () => {
    expect(may('none', true, undefined, null)).toBe(false);
    expect(may('none', true, 'key:shop')).toBe(false);
    expect(may('required', true)).toBe(false);
  });
});
