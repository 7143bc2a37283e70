import {
  CancelledError,
  DeadKeyError,
  DeclinedError,
  InvalidRequestError,
  MismatchError,
  NotAuthorizedError,
  NotCancelledError,
  NotFoundError,
  OutOfTurnError,
  UnavailableError,
  UnexpectedAnswerError,
  UnknownChangeError,
  UnknownOutcomeError,
} from '@idempay/client';
import { describe, expect, test } from 'vitest';
import { publicErrors } from '#idempay/http/errors/catalogue.js';
import type { PublicError } from '#idempay/http/errors/public-error.js';
import { NAMES_WITH_ABSENT_VALUE, NAMES_WITH_NUMBER, NAMES_WITHOUT_NUMBER } from '../../../testkit/client/orders.js';
import {
  allOf,
  COMPUTED_KEY,
  failureOf,
  HUNDRED,
  json,
  KEY,
  KEY_REFUSED,
  NOTHING_PAID,
  PAID,
  page,
  REPLAYED,
  refusal,
  refused,
  reset,
  type Step,
  scripted,
} from '../../../testkit/client-library/scripted-fetch.js';

const REFERENCE = 'order-17';
const ORDER = { reference: REFERENCE };
const OTHER_COMPUTED_KEY = COMPUTED_KEY.replace(/7$/, '8');
const CANCELLED = 'Payment cancelled.';

/** An answer that names the key of the reference. */
const named = (body: unknown, key = COMPUTED_KEY) => json(body, 200, { 'idempotency-key': key });
/** The same for an error of the service, with its own headers. */
function about({ status, message, headers }: PublicError, more: Record<string, string> = {}): Response {
  return refusal(status, message, { 'idempotency-key': COMPUTED_KEY, ...headers, ...more });
}
const without = (name: string, answer: Response) => {
  answer.headers.delete(name);
  return answer;
};
const record = (state: string, more: object = {}) =>
  json({ idempotencyKey: COMPUTED_KEY, state, ...NOTHING_PAID, ...more });

describe('pay with a reference', () => {
  test('is one request, without a key', async () => {
    const { idempay, sent } = scripted([named(PAID)]);
    expect(await idempay.payments.pay({ amount: '100.50', currency: 'usd' }, ORDER)).toEqual({
      transactionId: 'TXN1',
      replayed: false,
      key: COMPUTED_KEY,
      attempts: 1,
      ...HUNDRED,
    });
    expect(sent.map(({ method, path }) => `${method} ${path}`)).toEqual(['POST /api/payment?reference=order-17']);
    expect(sent[0]?.body).toBe('{"amount":"100.50","currency":"usd"}');
    expect(sent[0]?.headers.get('idempotency-key')).toBeNull();
    expect(sent[0]?.headers.get('prefer')).toBe('wait=10');
  });

  test('names a later attempt, and every character of the alphabet as it is', async () => {
    const { idempay, sent } = scripted([named(PAID), named(REPLAYED)]);
    await idempay.payments.pay(HUNDRED, { reference: 'Az09-._~:/@', attempt: 2 });
    const query = new URL(`http://any${sent[0]?.path}`).searchParams;
    expect([...query]).toEqual([
      ['reference', 'Az09-._~:/@'],
      ['attempt', '2'],
    ]);
    // Somebody else had paid it: another amount would have been refused.
    expect(await idempay.payments.pay(HUNDRED, ORDER)).toMatchObject({ replayed: true, attempts: 1, ...HUNDRED });
  });

  test.each([
    ['undefined', undefined],
    ['null', null],
    ['empty', ''],
    ['a number', 17],
    ['with a blank', 'order 17'],
    ['with a plus', 'order+17'],
    ['with a letter of another alphabet', 'bestellung-ü'],
    ['with a line end', 'order-17\n'],
    ['longer than 128', 'a'.repeat(129)],
  ])(
    'of a reference that is %s is refused before anything is sent, in the words of the service',
    async (_, reference) => {
      const { idempay, sent } = scripted([]);
      const wrong = { reference } as never;
      const calls = [
        () => idempay.payments.pay(HUNDRED, wrong),
        () => idempay.payments.cancel(wrong),
        () => idempay.payments.status(wrong),
        () => allOf(idempay.payments.list(wrong)),
      ];
      for (const call of calls) {
        expect((await failureOf(InvalidRequestError, call())).message).toBe(publicErrors.invalidReference().message);
      }
      expect(sent).toEqual([]);
    },
  );

  test('an order without its number is refused before anything is sent', async () => {
    const { idempay, sent } = scripted([]);
    for (const reference of NAMES_WITH_ABSENT_VALUE) {
      const { message } = await failureOf(InvalidRequestError, idempay.payments.pay(HUNDRED, { reference }));
      expect(message).toBe(publicErrors.referenceWithoutNumber('absent value').message);
      await failureOf(InvalidRequestError, allOf(idempay.payments.list({ reference })));
    }
    for (const reference of NAMES_WITHOUT_NUMBER) {
      for (const call of [
        () => idempay.payments.pay(HUNDRED, { reference }),
        () => idempay.payments.cancel({ reference }),
        () => idempay.payments.status({ reference }),
      ]) {
        const { message } = await failureOf(InvalidRequestError, call());
        expect(message).toBe(publicErrors.referenceWithoutNumber('words alone').message);
      }
    }
    expect(sent).toEqual([]);
    for (const reference of NAMES_WITH_NUMBER) {
      const other = scripted([about(publicErrors.paymentCancelled())]);
      await failureOf(CancelledError, other.idempay.payments.pay(HUNDRED, { reference }));
    }
  });

  test('a misspelt option is refused before anything is sent', async () => {
    const { idempay, sent } = scripted([]);
    for (const wrong of [{ refrence: 'order-17' }, { reference: 'order-17', atempt: 2 }]) {
      const { message } = await failureOf(InvalidRequestError, idempay.payments.pay(HUNDRED, wrong as never));
      expect(message).toMatch(/is no option of pay/);
    }
    const { payments, transactions } = idempay;
    const misspelt = { ...ORDER, atempt: 2 } as never;
    const calls = {
      cancel: [() => payments.cancel(misspelt), () => payments.cancel({ key: KEY, refrence: 'order-17' } as never)],
      status: [() => payments.status(misspelt)],
      list: [() => allOf(payments.list({ refrence: 'order-17' } as never)), () => allOf(transactions.list(misspelt))],
      ids: [() => transactions.ids({ form: 'alice' } as never)],
      search: [() => allOf(transactions.search({ form: 'alice' } as never))],
    };
    for (const [method, wrong] of Object.entries(calls)) {
      for (const call of wrong) {
        const { message } = await failureOf(InvalidRequestError, call());
        expect(message).toContain(`is no option of ${method}.`);
      }
    }
    expect(sent).toEqual([]);
  });

  test('of an attempt that is none, or without a reference, or with onKey, is refused before anything is sent', async () => {
    const { idempay, sent } = scripted([]);
    for (const attempt of [0, 100, 1.5, '2', null, Number.NaN]) {
      const paying = idempay.payments.pay(HUNDRED, { reference: REFERENCE, attempt: attempt as never });
      expect((await failureOf(InvalidRequestError, paying)).message).toBe(
        "'attempt' must be a whole number from 1 to 99, sent once.",
      );
    }
    const alone = await failureOf(InvalidRequestError, idempay.payments.pay(HUNDRED, { attempt: 2 } as never));
    expect(alone.message).toBe(publicErrors.withoutReference('attempt').message);
    const both = { reference: REFERENCE, onKey: () => {} } as never;
    expect((await failureOf(InvalidRequestError, idempay.payments.pay(HUNDRED, both))).message).toMatch(/^'onKey'/);
    expect(sent).toEqual([]);
  });

  const NOT_CLEAR: readonly (readonly [string, () => Step])[] = [
    ['a lost connection', reset],
    ['409', () => about(publicErrors.paymentInProgress(1))],
    ['409 of the attempt before', () => about(publicErrors.attemptBeforeUnderWay(2, 1))],
    ['500', () => refusal(500)],
    ['503', () => about(publicErrors.paymentNotSent('reference'))],
    ['504', () => about(publicErrors.paymentOutcomeUnknown('reference'))],
    ['a refused key, which is never that of a reference', () => refusal(400, KEY_REFUSED)],
    ['a page', () => page(422)],
    ['a redirect', () => page(308, { location: 'https://other' })],
    ['a 200 whose key was removed', () => json(PAID)],
    ['a 200 with a key that is not computed', () => named(PAID, KEY)],
    ['a 402 whose key was removed', () => without('idempotency-key', about(publicErrors.attemptDeclined('none', 1)))],
    ['a 410 whose key was removed', () => without('idempotency-key', about(publicErrors.paymentCancelled()))],
    ['a 422 without its reason', () => without('idempay-attempt-state', about(publicErrors.referenceMismatch()))],
    [
      'a 422 whose reason is not known',
      () => about(publicErrors.referenceMismatch(), { 'idempay-attempt-state': 'x' }),
    ],
    ['no answer in time', () => 'never'],
  ];
  test.each(NOT_CLEAR)('after %s sends the same again', async (_, step) => {
    const { idempay, payments } = scripted([step(), step(), named(REPLAYED)]);
    expect(await idempay.payments.pay(HUNDRED, ORDER)).toMatchObject({ transactionId: 'TXN1', attempts: 3 });
    const [first, ...others] = payments().map(({ path, body, headers }) => [path, body, ...headers].join());
    expect(others).toEqual([first, first]);
  });

  test.each(NOT_CLEAR)('whose deadline ends after %s is unknown, and names the reference', async (_, step) => {
    const { idempay } = scripted(Array.from({ length: 60 }, step));
    const paying = idempay.payments.pay(HUNDRED, { ...ORDER, attempt: 2, deadlineMs: 30_000 });
    const error = await failureOf(UnknownOutcomeError, paying);
    expect(error).toMatchObject({ reference: REFERENCE, attempt: 2, record: undefined });
    expect(error.message).toContain('order-17 (attempt 2)');
    expect(error.message).toContain('Pay the same reference and attempt again.');
    expect(error.message).not.toContain('Resume it');
  });

  test('that never arrived is unavailable; the deadline says nothing about other calls', async () => {
    const { idempay } = scripted([refusal(429), refused(), refusal(429, undefined, { 'retry-after': '90' })]);
    const error = await failureOf(UnavailableError, idempay.payments.pay(HUNDRED, ORDER));
    expect(error.retryAfterSeconds).toBe(90);
    const { idempay: closed } = scripted([refusal(401)]);
    await failureOf(NotAuthorizedError, closed.payments.pay(HUNDRED, ORDER));
  });

  test('keeps to the key that the first answer names: another one is of another service', async () => {
    const other = () => named(PAID, OTHER_COMPUTED_KEY);
    const steps = [about(publicErrors.paymentOutcomeUnknown('reference')), ...Array.from({ length: 60 }, other)];
    const { idempay } = scripted(steps);
    const error = await failureOf(UnknownOutcomeError, idempay.payments.pay(HUNDRED, ORDER));
    expect(error.key).toBe(COMPUTED_KEY);
  });

  test('that is declined says which attempt it was, the reason, and the next one', async () => {
    for (const [attempt, nextAttempt] of [
      [1, 2],
      [98, 99],
      [99, undefined],
    ] as const) {
      const reason = 'limit reached (attempt 1).';
      const { idempay } = scripted([reset(), about(publicErrors.attemptDeclined(reason, attempt))]);
      const error = await failureOf(DeclinedError, idempay.payments.pay(HUNDRED, { ...ORDER, attempt }));
      expect(error).toMatchObject({ ...ORDER, reason, attempt, nextAttempt, key: COMPUTED_KEY, status: 402 });
    }
    const { idempay } = scripted([about(publicErrors.paymentDeclined('lost card'))]);
    const plain = await failureOf(DeclinedError, idempay.payments.pay(HUNDRED, ORDER));
    expect(plain).toMatchObject({ reason: 'lost card', attempt: 1, nextAttempt: 2 });
  });

  const NO_TURN: readonly (readonly [string, PublicError, isFinal: boolean])[] = [
    ['previous-absent', publicErrors.attemptOutOfTurn(2, 'absent'), false],
    ['previous-too-old', publicErrors.attemptOutOfTurn(2, 'declined too long ago'), false],
    ['previous-completed', publicErrors.attemptOutOfTurn(2, 'completed'), true],
    ['previous-cancelled', publicErrors.attemptOutOfTurn(2, 'cancelled'), true],
    ['superseded', publicErrors.attemptSuperseded(2, { attempt: 3, state: 'DECLINED' }), true],
    ['superseded', publicErrors.attemptSuperseded(2, { attempt: 3 }), true],
  ];
  test.each(NO_TURN)('whose turn it is not says why: %s', async (why, refusalOfTurn, isFinal) => {
    const pay = (steps: Step[]) => scripted(steps).idempay.payments.pay(HUNDRED, { ...ORDER, attempt: 2 });
    const error = await failureOf(OutOfTurnError, pay([about(refusalOfTurn)]));
    expect(error).toMatchObject({ ...ORDER, why, attempt: 2, key: COMPUTED_KEY, status: 422 });
    // If rows may have been lost, the answer says nothing about the request before it.
    const later = pay([reset(), about(refusalOfTurn)]);
    if (isFinal) expect(await failureOf(OutOfTurnError, later)).toMatchObject({ why });
    else expect(await failureOf(UnknownOutcomeError, later)).toMatchObject({ ...ORDER, attempt: 2 });
  });

  test('that is cancelled, or of another amount, ends there', async () => {
    const cancelled = scripted([reset(), about(publicErrors.paymentCancelled())]).idempay.payments.pay(HUNDRED, ORDER);
    expect(await failureOf(CancelledError, cancelled)).toMatchObject({ ...ORDER, attempt: 1, status: 410 });
    const other = scripted([reset(), about(publicErrors.referenceMismatch())]).idempay.payments.pay(HUNDRED, ORDER);
    expect(await failureOf(MismatchError, other)).toMatchObject({ ...ORDER, key: COMPUTED_KEY, status: 422 });
    const content = scripted([reset(), refusal(400, "'amount' must be more than 0.")]);
    await failureOf(InvalidRequestError, content.idempay.payments.pay(HUNDRED, ORDER));
  });

  test('whose query is removed on the way, or not known to the service, says so', async () => {
    const steps = [about(publicErrors.missingIdempotencyKey())];
    const error = await failureOf(InvalidRequestError, scripted(steps).idempay.payments.pay(HUNDRED, ORDER));
    expect(error.message).toMatch(/did not see 'reference'/);
    const later = scripted([reset(), about(publicErrors.missingIdempotencyKey())]);
    await failureOf(UnknownOutcomeError, later.idempay.payments.pay(HUNDRED, ORDER));
  });

  test('a key of a reference that is resumed is refused in the same words', async () => {
    const resume = (step: Step) => scripted([step]).idempay.payments.resume(COMPUTED_KEY, HUNDRED);
    const declined = await failureOf(DeclinedError, resume(about(publicErrors.attemptDeclined('lost card', 3))));
    expect(declined).toMatchObject({ reason: 'lost card', attempt: 3, nextAttempt: 4 });
    await failureOf(MismatchError, resume(about(publicErrors.referenceMismatch())));
    for (const [, refusalOfTurn] of NO_TURN.filter(([, , isFinal]) => isFinal)) {
      await failureOf(OutOfTurnError, resume(about(refusalOfTurn)));
    }
  });
});

test('a key without a reference that was cancelled is cancelled, also by its record', async () => {
  const cancelled = [refusal(410, publicErrors.paymentCancelled().message)];
  const direct = await failureOf(CancelledError, scripted(cancelled).idempay.payments.resume(KEY, HUNDRED));
  expect(direct).toMatchObject({ key: KEY, reference: undefined });
  const byRecord = [refusal(400, KEY_REFUSED), json({ idempotencyKey: KEY, state: 'CANCELLED', ...NOTHING_PAID })];
  await failureOf(CancelledError, scripted(byRecord).idempay.payments.resume(KEY, HUNDRED));
});

test('a payment that was charged although it was cancelled is for a person to refund, and is not asked again', async () => {
  const charged = publicErrors.chargedAfterCancellation();
  const { idempay, sent } = scripted([about(charged)]);
  const error = await failureOf(DeadKeyError, idempay.payments.pay(HUNDRED, ORDER));
  expect(error).toMatchObject({ ...ORDER, key: COMPUTED_KEY, status: 410, message: charged.message, attempts: 1 });
  expect(sent).toHaveLength(1);
});

describe('cancel', () => {
  test('is one request, by a reference or by a key', async () => {
    const { idempay, sent } = scripted([named(CANCELLED), named(CANCELLED), json(CANCELLED)]);
    const { payments } = idempay;
    expect(await payments.cancel(ORDER)).toEqual({ key: COMPUTED_KEY });
    await payments.cancel({ ...ORDER, attempt: 2, client: 'key:shop' });
    expect(await payments.cancel({ key: KEY })).toEqual({ key: KEY });
    expect(sent.map(({ method, path }) => `${method} ${path}`)).toEqual([
      'POST /api/payment-cancellation?reference=order-17&attempt=1',
      'POST /api/payment-cancellation?reference=order-17&attempt=2&client=key%3Ashop',
      'POST /api/payment-cancellation',
    ]);
    expect(sent.map(({ headers }) => headers.get('idempotency-key'))).toEqual([null, null, KEY]);
  });

  test('of something that names no payment is refused before anything is sent', async () => {
    const { idempay, sent } = scripted([]);
    for (const wrong of [{}, { key: 'no key' }, { key: undefined }, { attempt: 2 }]) {
      await failureOf(InvalidRequestError, idempay.payments.cancel(wrong as never));
    }
    expect(sent).toEqual([]);
  });

  const NOT_CLEAR: readonly (readonly [string, () => Step, mayBeDone: boolean])[] = [
    ['a lost connection', reset, true],
    ['a page', () => page(404), true],
    ['a 200 of something else', () => named(PAID), true],
    ['a 200 whose key was removed', () => json(CANCELLED), true],
    ['504', () => about(publicErrors.paymentOutcomeUnknown('reference')), true],
    ['500', () => refusal(500), true],
    [
      'a 422 without its reason',
      () => without('idempay-attempt-state', about(publicErrors.cancelledTooLate('TXN1'))),
      true,
    ],
    ['409', () => about(publicErrors.paymentInProgress(1)), false],
    ['429', () => refusal(429), false],
    ['503 that says that nothing was begun', () => about(publicErrors.rowsLost(1)), false],
    ['no connection', refused, false],
  ];
  test.each(NOT_CLEAR)(
    'after %s sends the same again, and at the deadline says what is known',
    async (_, step, mayBeDone) => {
      const { idempay, sent } = scripted([step(), step(), named(CANCELLED)]);
      await idempay.payments.cancel(ORDER);
      expect(sent).toHaveLength(3);
      const late = scripted(Array.from({ length: 60 }, step)).idempay.payments.cancel(ORDER, { deadlineMs: 10_000 });
      await failureOf<Error>(mayBeDone ? UnknownChangeError : UnavailableError, late);
    },
  );

  test('that may have arrived stays unknown, whatever is answered to its repeats until the deadline', async () => {
    const steps = [reset(), ...Array.from({ length: 60 }, () => about(publicErrors.paymentInProgress(1)))];
    const late = scripted(steps).idempay.payments.cancel(ORDER, { deadlineMs: 10_000 });
    await failureOf(UnknownChangeError, late);
  });

  test.each([
    ['completed', publicErrors.cancelledTooLate('TXN1'), undefined],
    ['declined', publicErrors.cancelledAfterDecline(1), 2],
    ['outcome-at-processor', publicErrors.cancelledAtProcessor(), undefined],
  ])('that comes after an outcome says which: %s', async (why, late, nextAttempt) => {
    const cancelling = scripted([reset(), about(late)]).idempay.payments.cancel(ORDER);
    expect(await failureOf(NotCancelledError, cancelling)).toMatchObject({ ...ORDER, why, nextAttempt, status: 422 });
  });

  test('whose turn it is not, or that is refused, is unknown only after a request that may have arrived', async () => {
    for (const [refusing, kind] of [
      [about(publicErrors.attemptOutOfTurn(2, 'absent')), OutOfTurnError],
      [refusal(403), NotAuthorizedError],
      [refusal(400, KEY_REFUSED), InvalidRequestError],
    ] as const) {
      const target = refusing.status === 400 ? { key: KEY } : { ...ORDER, attempt: 2 };
      await failureOf<Error>(kind, scripted([refusing.clone()]).idempay.payments.cancel(target));
      await failureOf(UnknownChangeError, scripted([reset(), refusing]).idempay.payments.cancel(target));
    }
  });
});

describe('status and list', () => {
  test('status is the record of the newest attempt, or of the one that is named', async () => {
    const { idempay, sent } = scripted([
      named('Transaction ID: TXN1'),
      record('COMPLETED', { transactionId: 'TXN1' }),
      about(publicErrors.paymentNotFound()),
      record('DECLINED'),
    ]);
    expect(await idempay.payments.status(ORDER)).toMatchObject({ state: 'COMPLETED', transactionId: 'TXN1' });
    const operated = { ...ORDER, attempt: 1, client: 'key:shop' };
    expect(await idempay.payments.status(operated)).toMatchObject({ state: 'DECLINED' });
    expect(sent.map(({ path }) => path)).toEqual([
      '/api/payment-status?reference=order-17',
      `/api/payments/${COMPUTED_KEY}`,
      '/api/payment-status?reference=order-17&attempt=1&client=key%3Ashop',
      `/api/payments/${COMPUTED_KEY}`,
    ]);
  });

  test('status of what was never paid is not found; an answer without the key says nothing', async () => {
    const absent = refusal(404, publicErrors.recordNotFound().message);
    const { idempay } = scripted([about(publicErrors.paymentNotFound()), absent]);
    await failureOf(NotFoundError, idempay.payments.status(ORDER));
    for (const answer of [
      refusal(404, publicErrors.paymentNotFound().message),
      json('Transaction ID: TXN1'),
      page(404),
    ]) {
      await failureOf(UnexpectedAnswerError, scripted([answer]).idempay.payments.status(ORDER));
    }
  });

  /**
   * Bug: the record of another order was believed. Cause: a proxy dropped the query, or gave a late answer to the next request, and no
   * record was compared with the reference. Fix: a record that names another reference or attempt is not an answer to the question.
   */
  test.each([
    ['reference', { reference: 'order-16', attempt: 2 }],
    ['attempt', { ...ORDER, attempt: 1 }],
  ])('status does not believe the record of another %s', async (_, other) => {
    const { idempay } = scripted([named('Transaction ID: TXN1'), record('COMPLETED', other)]);
    await failureOf(UnexpectedAnswerError, idempay.payments.status({ ...ORDER, attempt: 2 }));
  });

  test('status takes a record without a reference, and the newest attempt, whichever it is', async () => {
    for (const more of [
      { reference: null, attempt: null },
      { ...ORDER, attempt: 7 },
    ]) {
      const { idempay } = scripted([named('Transaction ID: TXN1'), record('PENDING', more)]);
      expect(await idempay.payments.status(ORDER)).toMatchObject({ state: 'PENDING' });
    }
  });

  test('a list of one reference does not believe a page that has another one', async () => {
    const payment = { idempotencyKey: COMPUTED_KEY, state: 'COMPLETED', ...NOTHING_PAID };
    const refund = { ...payment, reference: null, refund: { payment: COMPUTED_KEY, name: 'line-2', reason: null } };
    const listed = (other: object) => scripted([json([{ ...payment, ...ORDER }, other])]).idempay.payments;
    for (const reference of ['order-16', null]) {
      const { list } = listed({ ...payment, reference });
      await failureOf(UnexpectedAnswerError, allOf(list(ORDER)));
    }
    // A service of an older version shows no reference, and a refund has none.
    for (const other of [payment, refund]) {
      expect(await allOf(listed(other).list({ ...ORDER, kind: 'all' }))).toHaveLength(2);
    }
    expect(await allOf(listed({ ...payment, reference: 'order-16' }).list())).toHaveLength(2);
  });

  test('list takes a reference that lost its number, because such payments may have been made', async () => {
    const { idempay, sent } = scripted([json([])]);
    await allOf(idempay.payments.list({ reference: 'order-' }));
    expect(sent[0]?.path).toBe('/api/payments?reference=order-');
  });

  test('list takes a reference', async () => {
    const { idempay, sent } = scripted([json([])]);
    await allOf(idempay.payments.list({ reference: REFERENCE, state: 'CANCELLED' }));
    expect(sent[0]?.path).toBe('/api/payments?reference=order-17&state=CANCELLED');
  });
});
