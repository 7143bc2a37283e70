import {
  DeclinedError,
  IdempayError,
  InvalidRequestError,
  MismatchError,
  NotAuthorizedError,
  NotFoundError,
  NotRefundedError,
  type RefundResult,
  UnavailableError,
  UnknownOutcomeError,
} from '@idempay/client';
import { describe, expect, expectTypeOf, test } from 'vitest';
import { publicErrors } from '#idempay/http/errors/catalogue.js';
import { type PublicError, problemBody } from '#idempay/http/errors/public-error.js';
import type { Charge } from '#idempay/payments/history/charge.js';
import {
  COMPUTED_KEY,
  failureOf,
  json,
  KEY,
  page,
  refused,
  reset,
  type Step,
  scripted,
} from '../../../testkit/client-library/scripted-fetch.js';

const REFUND_KEY = 'f3a7c1d0-52b4-8e19-9c6d-0f4b8e2a7d15';
const LINE = { reference: 'order-17', name: 'line-2', amount: '12.50', currency: 'usd', reason: 'returned' };
const OF_KEY = { key: KEY, name: 'line-2', amount: '12.50', currency: 'USD' };
const UNTIL = '2026-11-23T12:00:00.000Z';

/** The headers of an answer that the refund's own row gives. */
const ROW = { idempay: '1', 'idempay-refund-key': REFUND_KEY, 'idempotency-key': COMPUTED_KEY };
const FIRST = json('Refund processed successfully with Transaction ID: TXN9', 200, ROW);
const first = () => FIRST.clone();
const replay = (headers: Record<string, string> = ROW) => json('Transaction ID: TXN9', 200, headers);
const RECORD = {
  idempotencyKey: REFUND_KEY,
  state: 'PROCESSING',
  transactionId: null,
  amount: '12.50',
  currency: 'USD',
  pending: { until: UNTIL },
  refund: { payment: COMPUTED_KEY, name: 'line-2', reason: 'returned' },
};

/** An error in the form of RFC 9457. */
function problem(error: PublicError, refund: Charge = 'unknown', headers: Record<string, string> = ROW): Response {
  const own = { 'content-type': 'application/problem+json', idempay: '1', 'x-request-id': 'one' };
  return json(problemBody(error, { refund }), error.status, { ...own, ...error.headers, ...headers });
}
const bare = (error: PublicError) => problem(error, 'none', { idempay: '1' });

const refund = (steps: readonly Step[], deadlineMs = 5_000) =>
  scripted(steps, { deadlineMs }).idempay.payments.refund(LINE);

describe('a refund', () => {
  test('names the payment by its reference, and the refund by its name', async () => {
    const { idempay, sent } = scripted([first()]);
    expect(await idempay.payments.refund({ ...LINE, client: 'key:shop' })).toEqual({
      state: 'refunded',
      transactionId: 'TXN9',
      amount: '12.50',
      currency: 'USD',
      replayed: false,
      key: REFUND_KEY,
      attempts: 1,
    });
    const [{ method, path, headers, body } = { method: '', path: '', headers: new Headers(), body: '' }] = sent;
    expect([method, path]).toEqual(['POST', '/api/refund?reference=order-17&client=key%3Ashop&refund=line-2']);
    expect(headers.get('idempotency-key')).toBeNull();
    expect(JSON.parse(`${body}`)).toEqual({ amount: '12.50', currency: 'usd', reason: 'returned' });
  });

  test('names the payment by its key', async () => {
    const { idempay, sent } = scripted([replay({ idempay: '1', 'idempay-refund-key': REFUND_KEY })]);
    expect(await idempay.payments.refund(OF_KEY)).toMatchObject({ state: 'refunded', replayed: true });
    expect([sent[0]?.path, sent[0]?.headers.get('idempotency-key')]).toEqual(['/api/refund?refund=line-2', KEY]);
  });

  test('that is pending says until when, and makes a caller look', async () => {
    const pending = await refund([json(RECORD, 202, { ...ROW, 'retry-after': '7' })]);
    expect(pending).toEqual({ state: 'pending', until: UNTIL, retryAfterSeconds: 7, key: REFUND_KEY, attempts: 1 });
    expectTypeOf(pending).toEqualTypeOf<RefundResult>();
    // @ts-expect-error: a pending refund has none.
    expect(pending.transactionId).toBeUndefined();
  });

  test('is repeated as it was after everything that may pass', async () => {
    const momentary = [
      ...[reset(), refused(), page(502), page(501), problem(publicErrors.refundOutcomeUnknown())],
      ...[problem(publicErrors.refundInProgress(1)), bare(publicErrors.refundTooEarly())],
      ...[bare(publicErrors.tooManyRequests(60, 1)), bare(publicErrors.refundsUnchecked())],
      ...[bare(publicErrors.tooManyRefunds(1)), problem(publicErrors.refundNotSent()), page(408), page(425)],
    ];
    const { idempay, sent } = scripted([...momentary, replay()], { deadlineMs: 300_000 });
    const attempts = momentary.length + 1;
    expect(await idempay.payments.refund(LINE)).toMatchObject({ state: 'refunded', replayed: true, attempts });
    expect(new Set(sent.map(({ path, body }) => `${path} ${body}`)).size).toBe(1);
  });
});

describe('an answer to a refund that proves nothing', () => {
  test.each([
    ['a page', page(200)],
    ['a success without the key of the refund', replay({ idempay: '1' })],
    ['a success with the key of something else', replay({ ...ROW, 'idempay-refund-key': KEY })],
    ['half of a success', new Response('"Transaction', { headers: { ...ROW, 'content-type': 'application/json' } })],
    ['the success of a payment', json('Payment processed successfully with Transaction ID: TXN9', 200, ROW)],
    ['a 202 of a gateway', page(202)],
    ['a 202 of another refund', json({ ...RECORD, refund: { ...RECORD.refund, name: 'line-3' } }, 202, ROW)],
    ['a 202 of another payment', json({ ...RECORD, refund: { ...RECORD.refund, payment: KEY } }, 202, ROW)],
    ['a 202 of a payment', json({ ...RECORD, refund: undefined }, 202, ROW)],
    ['a 202 of another key', json({ ...RECORD, idempotencyKey: KEY }, 202, ROW)],
    ['a decline without its keys', problem(publicErrors.refundDeclined('disputed'), 'none', { idempay: '1' })],
    [
      'a decline without the header of the service',
      problem(publicErrors.refundDeclined('no'), 'none', { idempay: '' }),
    ],
    ['a refusal in the words of a gateway', json({ status: 422, error: 'No', message: 'No.' }, 422, ROW)],
  ])('%s leaves it unknown', async (_what, answer) => {
    expect(await failureOf(UnknownOutcomeError, refund([answer], 100))).toMatchObject({ attempts: 1 });
  });

  test('of a refund of another payment than the key names leaves it unknown', async () => {
    const { idempay: other } = scripted([json(RECORD, 202, ROW)], { deadlineMs: 100 });
    await failureOf(UnknownOutcomeError, other.payments.refund(OF_KEY));
    const { idempay } = scripted([json(RECORD, 202, ROW)], { deadlineMs: 100 });
    const asked = { ...OF_KEY, key: COMPUTED_KEY.toUpperCase() };
    expect(await idempay.payments.refund(asked)).toMatchObject({ state: 'pending' });
  });

  test('of another refund in the middle of a call leaves it unknown', async () => {
    const other = { ...ROW, 'idempay-refund-key': REFUND_KEY.replace('f3', 'f4') };
    await failureOf(UnknownOutcomeError, refund([problem(publicErrors.refundOutcomeUnknown()), replay(other)], 3_000));
  });
});

describe('a refund that is refused', () => {
  test('finally, is declined with the reason of the processor', async () => {
    const error = await failureOf(
      DeclinedError,
      refund([reset(), problem(publicErrors.refundDeclined('the charge is disputed'), 'none')]),
    );
    expect(error).toMatchObject({
      ...{ reason: 'the charge is disputed', nextAttempt: undefined, status: 402, charge: undefined, refund: 'none' },
      ...{ key: COMPUTED_KEY, reference: 'order-17', refundName: 'line-2', refundKey: REFUND_KEY },
      type: '/problems#refund-declined',
    });
  });

  test('because its name has another amount, is a mismatch also after a lost answer', async () => {
    const error = await failureOf(MismatchError, refund([reset(), problem(publicErrors.refundMismatch())]));
    expect([error.refundName, error.key, error.status]).toEqual(['line-2', COMPUTED_KEY, 422]);
  });

  test('because less is left, says how much', async () => {
    const error = await failureOf(NotRefundedError, refund([bare(publicErrors.refundTooLarge('7.50', 'USD'))]));
    expect(error).toMatchObject({ why: 'too-much', left: '7.50', currency: 'USD', status: 422, refund: 'none' });
    expect([error.key, error.reference, error.refundName]).toEqual([undefined, 'order-17', 'line-2']);
  });

  test.each([
    ['other-currency', publicErrors.refundOfOtherCurrency('EUR'), 'EUR'],
    ['not-paid', publicErrors.refundOfUnpaid('DECLINED'), undefined],
    ['other-processor', publicErrors.refundOfOtherProcessor('acme'), undefined],
    ['too-late', publicErrors.refundTooLate(), undefined],
    ['not-supported', publicErrors.refundsNotSupported(), undefined],
  ] as const)('because of %s, says why, and is not repeated', async (why, refusal, currency) => {
    const { idempay, sent } = scripted([bare(refusal)]);
    const error = await failureOf(NotRefundedError, idempay.payments.refund(OF_KEY));
    expect([error.why, error.currency, error.left, error.key]).toEqual([why, currency, undefined, KEY]);
    expect([error.status, error.message, sent.length]).toEqual([refusal.status, refusal.message, 1]);
  });

  test.each([
    [NotFoundError, publicErrors.refundOfNoPayment(false)],
    [NotFoundError, publicErrors.refundOfNoPayment(true)],
    [NotAuthorizedError, publicErrors.scopeMissing(['refunds:write'])],
    [NotAuthorizedError, publicErrors.credentialsInvalid()],
    [InvalidRequestError, publicErrors.invalidRefund()],
    [InvalidRequestError, publicErrors.invalidBody("'amount' must be more than 0.")],
    [InvalidRequestError, publicErrors.referenceOfAnotherClient('key:operator', 'key:shop')],
    [InvalidRequestError, publicErrors.missingIdempotencyKey()],
  ])('with %o is not repeated', async (kind, refusal) => {
    const { idempay, sent } = scripted([bare(refusal)]);
    const error = await failureOf(IdempayError, idempay.payments.refund(LINE));
    expect(error).toBeInstanceOf(kind);
    expect([error.status, sent.length]).toEqual([refusal.status, 1]);
    expect(error.message).toContain(refusal.message);
  });

  /** Rows that were lost would be answered so too. */
  test.each([
    publicErrors.refundTooLarge('7.50', 'USD'),
    publicErrors.refundOfNoPayment(false),
    publicErrors.refundsNotSupported(),
    publicErrors.refundOfOtherProcessor('acme'),
    publicErrors.scopeMissing(['refunds:write']),
  ])('after an attempt that may have arrived, is unknown', async (refusal) => {
    const error = await failureOf(UnknownOutcomeError, refund([reset(), bare(refusal)]));
    expect(error).toMatchObject({ attempts: 2, refundName: 'line-2', refund: undefined });
    expect(error.message).toContain('with the same name');
    expect(error.message).toContain(refusal.message);
  });

  test('for its content, is no unknown outcome after a lost answer', async () => {
    const refusal = publicErrors.invalidBody("'amount' must be more than 0.");
    await failureOf(InvalidRequestError, refund([reset(), bare(refusal)]));
  });
});

describe('a refund without an answer until the deadline', () => {
  test.each([
    ['of the connection', reset()],
    ['of the processor', problem(publicErrors.refundOutcomeUnknown())],
    ['of the attempt that makes it', problem(publicErrors.refundInProgress(60))],
    ['of the attempt that is to make it', problem(publicErrors.refundNotSent())],
    ['of a busy service', bare(publicErrors.tooManyRefunds(60))],
    ['of a gateway', page(503, { 'retry-after': '60' })],
  ])('%s is unknown, and asks for the same name', async (_whose, answer) => {
    const error = await failureOf(UnknownOutcomeError, refund([answer], 100));
    expect(error).toMatchObject({ attempts: 1, reference: 'order-17', refundName: 'line-2', record: undefined });
    expect(error.message).toMatch(/^It is not known whether the refund line-2 was made: .* with the same name: /);
  });

  test('names the keys that an answer named', async () => {
    const error = await failureOf(UnknownOutcomeError, refund([problem(publicErrors.refundOutcomeUnknown())], 100));
    expect([error.key, error.refundKey]).toEqual([COMPUTED_KEY, REFUND_KEY]);
  });

  test.each([
    ['was never sent', refused()],
    ['has a payment that is under way', bare(publicErrors.refundTooEarly())],
    ['meets the limit of requests', bare(publicErrors.tooManyRequests(60, 60))],
  ])('that %s is not possible now', async (_why, answer) => {
    await failureOf(UnavailableError, refund([answer], 100));
  });

  test('that its caller aborts is unknown', async () => {
    const { idempay } = scripted(['never']);
    const signal = AbortSignal.timeout(10);
    await failureOf(UnknownOutcomeError, idempay.payments.refund(LINE, { signal }));
  });
});

describe('before anything is sent', () => {
  test.each([
    ['neither reference nor key', { ...OF_KEY, key: undefined }],
    ['both', { ...LINE, key: KEY }],
    ['an order without its number', { ...LINE, reference: 'order-' }],
    ['an undefined reference', { ...LINE, reference: undefined }],
    ['a key that is none', { ...OF_KEY, key: 'order-17' }],
    ['a client of a key', { ...OF_KEY, client: 'key:shop' }],
    ['no name', { ...LINE, name: undefined }],
    ['an empty name', { ...LINE, name: '' }],
    ['a name without its number', { ...LINE, name: 'line-' }],
    ['a name of a missing value', { ...LINE, name: 'line-undefined' }],
    ['an amount that is a number', { ...LINE, amount: 12.5 }],
    ['no currency', { ...LINE, currency: undefined }],
    ['a reason that is no text', { ...LINE, reason: 1 }],
    ['a misspelt member', { ...LINE, resaon: 'returned' }],
    ['an attempt', { ...LINE, attempt: 2 }],
  ])('%s is refused', async (_what, wrong) => {
    const { idempay, sent } = scripted([]);
    await failureOf(InvalidRequestError, idempay.payments.refund(wrong as never));
    expect(sent).toEqual([]);
  });
});

describe('the refunds of a payment', () => {
  const DONE = { ...RECORD, state: 'COMPLETED', transactionId: 'TXN9', pending: undefined };

  test('are read by the key of the payment', async () => {
    const { idempay, sent } = scripted([json([DONE])]);
    expect(await idempay.payments.refunds(COMPUTED_KEY.toUpperCase())).toMatchObject([{ refund: { name: 'line-2' } }]);
    expect(sent[0]?.path).toBe(`/api/payments/${COMPUTED_KEY.toUpperCase()}/refunds`);
    expect(await scripted([json([])]).idempay.payments.refunds(KEY)).toEqual([]);
  });

  test.each([
    ['of another payment', json([{ ...DONE, refund: { ...DONE.refund, payment: KEY } }])],
    ['that are payments', json([{ ...DONE, refund: undefined }])],
    ['that are no list', json(DONE)],
  ])('%s are not believed', async (_which, answer) => {
    await expect(scripted([answer]).idempay.payments.refunds(COMPUTED_KEY)).rejects.toMatchObject({
      name: 'UnexpectedAnswerError',
    });
  });

  test('are in lists and exports that ask for them', async () => {
    const end = '{"end":true,"count":0,"sums":{},"refundSums":{}}\n';
    const { idempay, sent } = scripted([
      json([]),
      new Response(end, { headers: { 'content-type': 'application/x-ndjson' } }),
    ]);
    for await (const each of idempay.payments.list({ kind: 'refund' })) expect(each).toBeUndefined();
    for await (const each of idempay.payments.export('2026-11-25', { kind: 'all' })) expect(each).toBeUndefined();
    const [list, exported] = sent.map(({ path }) => path);
    expect([list, exported]).toEqual(['/api/payments?kind=refund', '/api/payments/export?day=2026-11-25&kind=all']);
  });
});
