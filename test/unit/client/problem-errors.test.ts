import { IdempayError } from '@idempay/client';
import { describe, expect, test } from 'vitest';
import { publicErrors } from '#idempay/http/errors/catalogue.js';
import { type PublicError, problemBody } from '#idempay/http/errors/public-error.js';
import type { Charge } from '#idempay/payments/history/charge.js';
import {
  COMPUTED_KEY,
  failureOf,
  HUNDRED,
  json,
  KEY,
  page,
  refusal,
  reset,
  type Step,
  scripted,
} from '../../../testkit/client-library/scripted-fetch.js';

/** An error of the service in the form of RFC 9457. */
function problem(error: PublicError, charge?: Charge, headers: Record<string, string> = {}): Response {
  const own = { 'content-type': 'application/problem+json', idempay: '1', 'x-request-id': 'one' };
  return json(problemBody(error, charge && { charge }), error.status, { ...own, ...error.headers, ...headers });
}

const thrownBy = (call: Promise<unknown>) => failureOf(IdempayError, call);

const OF_REFERENCE = { 'idempotency-key': COMPUTED_KEY };
const payOrder = (steps: readonly Step[]) => scripted(steps).idempay.payments.pay(HUNDRED, { reference: 'order-17' });

describe('an error of the client', () => {
  test('is asked for with its type, before plain JSON', async () => {
    const { idempay, sent } = scripted([problem(publicErrors.recordNotFound())]);
    await thrownBy(idempay.payments.get(KEY));
    expect(sent[0]?.headers.get('accept')).toMatch(/^application\/problem\+json, application\/json;q=0\.9/);
  });

  test('has the type and the charge of the answer that decided', async () => {
    const declined = publicErrors.attemptDeclined('lost card', 1);
    const error = await thrownBy(payOrder([problem(declined, 'none', OF_REFERENCE)]));
    expect(error).toMatchObject({
      name: 'DeclinedError',
      reason: 'lost card',
      status: 402,
      requestId: 'one',
      type: '/problems#attempt-declined',
      charge: 'none',
      message: declined.message,
    });
    const superseded = publicErrors.attemptSuperseded(1, { attempt: 2, state: 'COMPLETED', transactionId: 'TXN1' });
    expect(await thrownBy(payOrder([problem(superseded, 'made', OF_REFERENCE)]))).toMatchObject({
      name: 'OutOfTurnError',
      type: '/problems#attempt-superseded',
      charge: 'made',
    });
    const charged = publicErrors.chargedAfterCancellation();
    expect(await thrownBy(payOrder([problem(charged, 'made', OF_REFERENCE)]))).toMatchObject({
      name: 'DeadKeyError',
      type: '/problems#charged-after-cancellation',
      charge: 'made',
    });
    const absent = await thrownBy(scripted([problem(publicErrors.recordNotFound())]).idempay.payments.get(KEY));
    expect([absent.name, absent.type, absent.charge]).toEqual([
      'NotFoundError',
      '/problems#record-not-found',
      undefined,
    ]);
  });

  test('of a reference without a payment has the type of the record that was looked for', async () => {
    const answers = [
      problem(publicErrors.paymentNotFound(), 'unknown', OF_REFERENCE),
      problem(publicErrors.recordNotFound()),
    ];
    const error = await thrownBy(scripted(answers).idempay.payments.status({ reference: 'order-17' }));
    expect(error).toMatchObject({ name: 'NotFoundError', status: 404, requestId: 'one' });
    expect(error.type).toBe('/problems#record-not-found');
  });

  test('has neither type nor charge where a service answers in the plain form', async () => {
    const { message, status } = publicErrors.attemptDeclined('lost card', 1);
    const error = await thrownBy(payOrder([refusal(status, message, OF_REFERENCE)]));
    expect([error.name, error.type, error.charge]).toEqual(['DeclinedError', undefined, undefined]);
  });

  /** An attempt that was sent before may still arrive, and charge. */
  test('of an unknown outcome has no charge, whatever the last answer said', async () => {
    const refused = problem(publicErrors.attemptOutOfTurn(1, 'absent'), 'none', OF_REFERENCE);
    const error = await thrownBy(payOrder([reset(), refused]));
    expect(error).toMatchObject({ name: 'UnknownOutcomeError', type: '/problems#attempt-out-of-turn' });
    expect([error.charge, (error.cause as IdempayError).charge]).toEqual([undefined, 'none']);
  });

  test('takes no type and no charge from a gateway', async () => {
    const foreign = (changes: object, headers: Record<string, string> = {}) =>
      json({ ...problemBody(publicErrors.recordNotFound(), { charge: 'none' }), ...changes }, 404, headers);
    for (const answer of [
      page(404),
      foreign({}),
      foreign({ status: 403 }, { idempay: '1' }),
      foreign({ type: 'https://gateway.example/errors/404' }, { idempay: '1' }),
    ]) {
      const error = await thrownBy(scripted([answer]).idempay.payments.get(KEY));
      expect([error.name, error.type, error.charge]).toEqual(['UnexpectedAnswerError', undefined, undefined]);
    }
    const invented = foreign({ charge: 'maybe', refund: 'maybe' }, { idempay: '1' });
    const known = await thrownBy(scripted([invented]).idempay.payments.get(KEY));
    expect([known.name, known.type]).toEqual(['NotFoundError', '/problems#record-not-found']);
    expect([known.charge, known.refund]).toEqual([undefined, undefined]);
    const plain = { error: 'Not Found', message: 'None.', type: 'https://gateway.example/errors/404' };
    const extended = await thrownBy(scripted([foreign(plain, { idempay: '1' })]).idempay.payments.get(KEY));
    expect([extended.name, extended.type, extended.charge]).toEqual(['NotFoundError', undefined, undefined]);
  });
});
