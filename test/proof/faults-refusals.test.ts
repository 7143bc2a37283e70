import { describe, expect, test } from 'vitest';
import { checkRefusals, type RefusalEvidence } from '../../testkit/checkers/refusals.js';
import { PROCESSOR_REPLIES } from '../../testkit/history/disturbances.js';
import type { Refusal } from '../../testkit/history/history.js';
import { CLAIMED_TEXT, type Exchange } from '../../testkit/history/payments.js';

const KEY = '01a1f94b-4fd8-7058-b4d2-b234378f0ee5';
const PAY = 'POST /api/payment';
const LIST = 'GET /api/transactions?from=a';
const CHANGE = 'PUT /api/transactions/1/status';

function refusal(what: string, more: Partial<Refusal> = {}): Refusal {
  return { what, to: 'service 1', key: KEY, status: 503, text: '', sentAt: 10_000, endedAt: 10_100, ...more };
}
const cut = refusal(LIST, { status: 0, failure: 'cut' });
const notSent = refusal(PAY, { text: CLAIMED_TEXT });
const during = (of: string, from = 9_900, to = 10_050) => [{ of, from, to }];

function isExcused(one: Refusal, disturbances: RefusalEvidence['disturbances'], more: Partial<RefusalEvidence> = {}) {
  return checkRefusals({ refusals: [one], keys: [], disturbances, ...more }).length === 0;
}

describe('the checker of refusals', () => {
  test.each<[string, Refusal, RefusalEvidence['disturbances']]>([
    ['a 503 of a process that was killed', refusal(LIST), during('service 1')],
    ['a 503 of a process that stood still just before', refusal(LIST), during('service 1', 7_000, 9_000)],
    ['a payment without Redis', refusal(PAY), during('redis')],
    ['a payment without its processor', refusal(PAY), during('processor')],
    ['a status change without Redis', refusal(CHANGE), during('redis')],
    ['a list without PostgreSQL', refusal(LIST), during('postgres')],
    ['a write on a full disk', refusal('POST /api/transactions'), during('disk')],
    ['a request that took longer than a deadline of its process', refusal(LIST, { endedAt: 11_000 }), []],
    ['a connection that was cut by a kill', cut, during('service 1')],
    ['a connection that was cut by an end that was noticed later', cut, during('service 1', 10_500, 11_000)],
    ['a connection that was refused while its process was down', { ...cut, failure: 'refused' }, during('service 1')],
  ])('accepts %s', (_what, one, disturbances) => {
    expect(isExcused(one, disturbances)).toBe(true);
  });

  test.each<[string, Refusal, RefusalEvidence['disturbances']]>([
    ['a 503 without any fault', refusal(PAY), []],
    ['a 503 while another process was killed', refusal(PAY), during('service 2')],
    ['a 503 long after the fault', refusal(PAY), during('redis', 1_000, 6_000)],
    ['a 503 before the fault', refusal(PAY), during('redis', 13_000, 14_000)],
    ['a list without Redis, which it does not need', refusal(LIST), during('redis')],
    [
      'a new key without PostgreSQL, which it does not need',
      refusal('GET /api/server-generated/generate-key'),
      during('postgres'),
    ],
    ['a status change without the processor, which it does not need', refusal(CHANGE), during('processor')],
    ['a payment beside a processor that only fails some replies', refusal(PAY), during(PROCESSOR_REPLIES)],
    ['a connection that a living process cut', cut, during('redis')],
    ['a connection that was cut long after the kill', cut, during('service 1', 1_000, 9_000)],
  ])('rejects %s', (_what, one, disturbances) => {
    expect(isExcused(one, disturbances)).toBe(false);
  });

  test('accepts a payment that was not sent, as long as the processor was away since its key was issued', () => {
    const key = (issuedAt: number) => ({
      key: KEY,
      amount: '1',
      currency: 'EUR',
      issuedAt,
      receivedAt: issuedAt,
      exchanges: [],
    });
    const away = during('processor', 2_000, 3_000);
    expect(isExcused(notSent, away, { keys: [key(1_000)] })).toBe(true);
    expect(isExcused(notSent, away, { keys: [key(9_000)] })).toBe(false);
    expect(isExcused(notSent, during(PROCESSOR_REPLIES), { keys: [key(1_000)] })).toBe(true);
    expect(isExcused(refusal(PAY), away, { keys: [key(1_000)] })).toBe(false);
  });

  test('accepts a first payment beyond the limit of payments in flight at that process (P16)', () => {
    const pay = (to: string): Exchange => ({ what: 'pay', to, sentAt: 9_000, endedAt: 11_000, status: 200 });
    const keys = (count: number, to: string) => [
      {
        key: '',
        amount: '1',
        currency: 'EUR',
        issuedAt: 0,
        receivedAt: 0,
        exchanges: Array.from({ length: count }, () => pay(to)),
      },
    ];
    expect(isExcused(refusal(PAY), [], { keys: keys(4, 'service 1'), maxInFlight: 3 })).toBe(true);
    expect(isExcused(refusal(PAY), [], { keys: keys(3, 'service 1'), maxInFlight: 3 })).toBe(false);
    expect(isExcused(refusal(PAY), [], { keys: keys(4, 'service 2'), maxInFlight: 3 })).toBe(false);
    expect(isExcused(refusal(LIST), [], { keys: keys(4, 'service 1'), maxInFlight: 3 })).toBe(false);
  });
});
