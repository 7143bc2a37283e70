import { describe, expect, test } from 'vitest';
import type { Outcome } from '../../../console/src/try-it/call.js';
import { noteOfPayment, noteOfStatus } from '../../../console/src/try-it/notes.js';
import { keyOfPayment } from '../../../console/src/try-it/steps.js';

const ORDER = { reference: 'order-17' };
const KEY = { key: '0190f3a1-0000-7000-8000-000000000000' };
const PAID = '"Payment processed successfully with Transaction ID: TXN1"';
const REPLAYED = ['idempotent-replayed', 'true'] as const;

function answer(
  status: number,
  { body = '', isOwn = true, headers = [] as (readonly [string, string])[] } = {},
): Outcome {
  return { status, reason: '', headers, body, tookMs: 1, isOwn };
}

describe('what a client must do with the answer to a payment', () => {
  test.each<[what: string, outcome: Outcome, note: RegExp]>([
    ['no answer', { problem: 'The connection is lost.' }, /must send the same request again, until/],
    ['408', answer(408), /must send the same request again, until/],
    ['409', answer(409, { headers: [['retry-after', '2']] }), /must send the same request again after 2 seconds/],
    ['429', answer(429, { headers: [['retry-after', '1']] }), /must send the same request again after 1 second,/],
    ['503', answer(503), /must send the same request again, until/],
    ['504', answer(504), /must send the same request again, until/],
    [
      'a refusal that is not the own one of the service',
      answer(402, { isOwn: false }),
      /must send the same request again/,
    ],
    ['a page of a gateway with 200', answer(200, { body: '<html>' }), /must send the same request again/],
    ['200', answer(200, { body: PAID }), /^The order is charged, and the client is done/],
    [
      '200 that is replayed',
      answer(200, { body: PAID, headers: [REPLAYED] }),
      /^Nothing was charged now: this is the stored/,
    ],
    ['402', answer(402), /declined.*attempt=2/],
    ['410', answer(410), /cancelled/],
    ['422', answer(422), /takes no other reference/],
    ['400', answer(400), /nothing was begun for it\. The client must correct it\.$/],
  ])('after %s for an order', (_what, outcome, note) => {
    expect(noteOfPayment(outcome, ORDER)).toMatch(note);
  });

  test('names the attempt that comes after the declined one', () => {
    expect(noteOfPayment(answer(402), { ...ORDER, attempt: '2' })).toContain('(attempt=3)');
  });

  test.each<[status: number, note: RegExp]>([
    [402, /declined.*pays with a new key/],
    [422, /takes no other key/],
    [400, /keep the key\. If the key has expired, the client first looks up/],
  ])('after %i for a key', (status, note) => {
    expect(noteOfPayment(answer(status), KEY)).toMatch(note);
  });

  test('after a question for the status', () => {
    expect(noteOfStatus(answer(200, { body: '"Transaction ID: TXN1"' }), ORDER)).toMatch(/is completed/);
    expect(noteOfStatus(answer(404), ORDER)).toMatch(/No payment of this order.*sends the payment again/);
    expect(noteOfStatus(answer(404), KEY)).toMatch(/No payment with this key.*sends the payment again/);
    expect(noteOfStatus(answer(404, { isOwn: false }), ORDER)).toMatch(/asks again/);
    expect(noteOfStatus(answer(503, { headers: [['retry-after', '2']] }), ORDER)).toMatch(/asks again after 2 seconds/);
  });
});

test('an order has a timeline only if an answer shows that its payment was begun', () => {
  const headers = [['idempotency-key', KEY.key]] as const;
  const keyAfter = (outcome: Outcome) => keyOfPayment({ calls: [], outcomes: [outcome] });
  for (const status of [200, 402, 409, 410, 504])
    expect(keyAfter(answer(status, { headers: [...headers] }))).toBe(KEY.key);
  for (const status of [400, 404, 503]) expect(keyAfter(answer(status, { headers: [...headers] }))).toBeUndefined();
  expect(keyAfter(answer(200, { headers: [...headers], isOwn: false }))).toBeUndefined();
  expect(keyAfter({ problem: 'The connection is lost.' })).toBeUndefined();
});
