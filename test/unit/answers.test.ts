import { describe, expect, test } from 'vitest';
import { createAnswers, type RunningAttempt, SOON } from '#idempay/payments/answers.js';
import { sharePorts } from '../../testkit/protocol/ports.js';

const LEASE_MS = 60_000;
const ports = sharePorts();

/** The client's next request is 250 ms on its way; so much is no reason to wait one more second. */
describe('Retry-After', () => {
  const answersAfter = (durationMs: number) => {
    const answers = createAnswers({ ledger: ports.ledger, leaseMs: LEASE_MS, payloadMismatch: 'replay', typicalMs: 1 });
    answers.took(durationMs);
    return answers;
  };
  const running = (heldMs: number, remainingMs: number): RunningAttempt => ({ fingerprint: '', heldMs, remainingMs });

  test.each([
    { took: 20_000, heldMs: 0, remainingMs: 60_000, seconds: 20, why: 'the median of recent payments' },
    { took: 20_000, heldMs: 5_000, remainingMs: 60_000, seconds: 15, why: 'less what the attempt is old' },
    { took: 20_249, heldMs: 0, remainingMs: 60_000, seconds: 20, why: 'less the time of the next request' },
    { took: 20_251, heldMs: 0, remainingMs: 60_000, seconds: 21, why: 'rounded up' },
    { took: 20_000, heldMs: 0, remainingMs: 7_900, seconds: 7, why: 'at most what remains of the lease' },
    { took: 2_000, heldMs: 9_000, remainingMs: 60_000, seconds: 1, why: 'at least a second' },
  ])('in progress is $seconds s: $why', ({ took, heldMs, remainingMs, seconds }) => {
    const answers = answersAfter(took);
    const expected = { state: 'in progress', retryAfterSeconds: seconds };
    expect(answers.inProgress(running(heldMs, remainingMs), '')).toEqual(expected);
    // A row that was read says how old its attempt is by its lease; the lock's own time counts more.
    const found = { state: 'under way', fingerprint: '', remainingMs } as const;
    expect(answers.conflictWith(found, '', running(heldMs, remainingMs))).toEqual(expected);
  });

  test('of a row without a lock the age is what has passed of its lease', () => {
    const found = { state: 'under way', fingerprint: '', remainingMs: LEASE_MS - 5_000 } as const;
    expect(answersAfter(20_000).conflictWith(found, '')).toEqual({ state: 'in progress', retryAfterSeconds: 15 });
    expect(answersAfter(20_000).conflictWith({ state: 'absent' }, '')).toEqual(SOON);
  });

  test.each([
    [20_001, 21],
    [20_000, 20],
    [10, 1],
  ])('busy is the median duration, rounded up: %i ms, %i s', (took, retryAfterSeconds) => {
    expect(answersAfter(took).busy()).toEqual({ state: 'busy', retryAfterSeconds });
  });
});
