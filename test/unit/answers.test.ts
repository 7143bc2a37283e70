import { describe, expect, test } from 'vitest';
import { createAnswers, RecentDurations, SOON } from '#idempay/payments/answers.js';
import type { PaymentHistory } from '#idempay/payments/ports/payment-history.js';
import { backOffMs } from '#idempay/payments/recovery.js';
import { createComputeKey } from '#idempay/payments/values/reference.js';
import { newKey, newReference } from '../../testkit/protocol/payment-attempts.js';
import { sharePorts } from '../../testkit/protocol/ports.js';

const KEY = newKey();
const LEASE_MS = 60_000;
/** As many durations as are remembered. */
const WINDOW = 64;
const ports = await sharePorts();

const computeKey = createComputeKey('deployment');

function openAnswers(history: Pick<PaymentHistory, 'find' | 'newestAttempt'>) {
  const rules = { leaseMs: LEASE_MS, payloadMismatch: 'replay' } as const;
  return createAnswers({ ledger: ports.ledger, history, computeKey, rules, typicalMs: 1 });
}

/**
 * Bug: each repeat of a declined order cost two statements of its own. Cause: the request's reference was not passed on, and the newest
 * attempt was read whatever was there. Fix: the row of the next attempt is asked for, in a statement that requests share.
 */
test('a repeat of the newest decline of a reference reads only rows by key', async () => {
  const unavailable = () => Promise.reject(new Error('the history of payments was asked'));
  const { replay } = openAnswers({ find: unavailable, newestAttempt: unavailable });
  const reference = { text: newReference(), attempt: 2, client: 'key:shop' };
  const outcome = { state: 'DECLINED', reason: 'no funds' } as const;
  const final = { outcome, fingerprint: '100.50 USD', client: 'key:shop', expiresAt: 0 };
  const answer = await replay({ key: computeKey(reference), reference }, final, final.fingerprint);
  expect(answer).toEqual({ state: 'replayed', final, attempt: 2 });
});

/** The client's next request is 250 ms on its way; so much is no reason to wait one more second. */
describe('Retry-After', () => {
  const answersAfter = (durationMs: number) => {
    const answers = openAnswers(ports.paymentHistory);
    answers.took(durationMs);
    return answers;
  };
  const found = (remainingMs: number) => ({ state: 'under way', fingerprint: '', remainingMs }) as const;

  test.each([
    { took: 20_000, heldMs: 0, remainingMs: 60_000, seconds: 20, why: 'the median of recent payments' },
    { took: 20_000, heldMs: 5_000, remainingMs: 60_000, seconds: 15, why: 'less what the attempt is old' },
    { took: 20_249, heldMs: 0, remainingMs: 60_000, seconds: 20, why: 'less the time of the next request' },
    { took: 20_251, heldMs: 0, remainingMs: 60_000, seconds: 21, why: 'rounded up' },
    { took: 20_000, heldMs: 0, remainingMs: 7_900, seconds: 7, why: 'at most what remains of the lease' },
    { took: 2_000, heldMs: 9_000, remainingMs: 60_000, seconds: 1, why: 'at least a second' },
  ])('in progress is $seconds s: $why', async ({ took, heldMs, remainingMs, seconds }) => {
    const lock = { fingerprint: '', heldMs, remainingMs };
    const expected = { state: 'in progress', retryAfterSeconds: seconds };
    // The attempt has not claimed yet.
    expect(await answersAfter(took).byRow({ key: KEY }, { state: 'absent' }, '', lock)).toEqual(expected);
    // A row that was read says how old its attempt is by its lease; the lock's own time counts more.
    expect(await answersAfter(took).byRow({ key: KEY }, found(remainingMs), '', lock)).toEqual(expected);
  });

  test('of a row without a lock the age is what has passed of its lease', async () => {
    const answer = await answersAfter(20_000).byRow({ key: KEY }, found(LEASE_MS - 5_000), '');
    expect(answer).toEqual({ state: 'in progress', retryAfterSeconds: 15 });
    expect(await answersAfter(20_000).byRow({ key: KEY }, { state: 'absent' }, '')).toEqual(SOON);
  });

  test.each([
    [20_001, 21],
    [10, 1],
  ])('busy is the median duration, rounded up: %i ms, %i s', (took, retryAfterSeconds) => {
    expect(answersAfter(took).busy()).toEqual({ state: 'busy', retryAfterSeconds });
  });
});

/** A processor that turned slow after many quick payments. */
const turnedSlow = (slowPayments: number) => [...Array(640).fill(5), ...Array(slowPayments).fill(9)];

test.each<[what: string, durationsMs: readonly number[], medianMs: number]>([
  ['what is typical before anything was measured', [], 250],
  ['the middle by size and not by text or time, so that one slow payment does not matter', [9, 100_000, 10], 10],
  ['of the past until half of what is remembered is slow', turnedSlow(WINDOW / 2 - 1), 5],
  ['of the present from then on', turnedSlow(WINDOW / 2 + 1), 9],
])('the median of recent durations is %s', (_what, durationsMs, medianMs) => {
  const durations = new RecentDurations(250);
  for (const durationMs of durationsMs) durations.add(durationMs);
  expect(durations.medianMs()).toBe(medianMs);
});

test.each([
  [999, 1_000],
  [4_000, 4_000],
  [72_000_000, 60_000],
])('recovery leaves a payment that is unknown for %i ms alone for %i ms', (ageMs, patienceMs) => {
  expect(backOffMs(ageMs)).toBe(patienceMs);
});
