import { expect, test } from 'vitest';
import { nextOf, pay } from '#idempay/payments/history/timeline.js';
import type { PaymentLife } from '#idempay/payments/ports/payment-history.js';

const NOW_MS = Date.parse('2026-11-25T12:00:00Z');
const HOUR_MS = 3_600_000;
const RULES = { processors: ['ours'], dedupMs: 2 * HOUR_MS, idempotencyTtlMs: 24 * HOUR_MS };

function life(payment: Partial<PaymentLife['payment']>, more: Partial<PaymentLife> = {}): PaymentLife {
  const claimed = { state: 'PROCESSING', processor: 'ours', claimedAt: NOW_MS - HOUR_MS, ...payment };
  const usual = {
    ...{ now: NOW_MS, leaseUntil: NOW_MS - 1, recoverAt: NOW_MS + HOUR_MS },
    ...{ unsent: false, chargedUnknownAmount: false, resolutionCountsFrom: claimed.claimedAt },
  };
  return { ...usual, payment: claimed, ...more } as PaymentLife;
}

/**
 * Bug: "gets this outcome again until then" was shown alone, without its date. Cause: the date was in another member. Fix: each sentence has
 * its moment.
 */
test.each([
  ['a key that was issued', () => pay(NOW_MS + HOUR_MS), 'until 2026-11-25T13:00:00.000Z.'],
  [
    'a final outcome',
    () => nextOf(life({ state: 'COMPLETED' }, { expiresAt: NOW_MS + HOUR_MS }), RULES, undefined, undefined),
    'until 2026-11-25T13:00:00.000Z.',
  ],
  [
    'one that recovery asks for',
    () => nextOf(life({}), RULES, undefined, undefined),
    'again at 2026-11-25T13:00:00.000Z, a repeat with its key at once, and an operator may resolve it from 2026-11-25T13:00:00.000Z on.',
  ],
  [
    'one that an operator may resolve',
    () => nextOf(life({ claimedAt: NOW_MS - 3 * HOUR_MS }), RULES, undefined, undefined),
    'since 2026-11-25T11:00:00.000Z.',
  ],
  [
    'one of another processor',
    () => nextOf(life({ claimedAt: NOW_MS - 3 * HOUR_MS, processor: 'theirs' }), RULES, undefined, undefined),
    'since 2026-11-25T11:00:00.000Z;',
  ],
])('what comes next of %s names its moment, so that it can be read alone', (_what, next, moment) => {
  const { text } = next();
  expect(text).toContain(moment);
  expect(text).not.toContain(' then');
});

/**
 * Bug: the console offered the form to resolve for 20 hours before the service accepted a resolution. Cause: only a sentence said from when on
 * it does. Fix: the step has the moment as a member, as the ledger judges it.
 */
test.each<[string, Partial<PaymentLife>, what: string, agoMs: number]>([
  ['may have been sent', {}, 'recovery', -HOUR_MS],
  ['was never sent', { unsent: true }, 'recovery', -23 * HOUR_MS],
  ['was charged nobody knows how much', { chargedUnknownAmount: true }, 'operator', HOUR_MS],
  ['is older by the wall clock', { resolutionCountsFrom: NOW_MS - 2 * HOUR_MS }, 'operator', 0],
  ['has a lease that ends before', { leaseUntil: NOW_MS + 1 }, 'under way', -HOUR_MS],
  ['has a lease that ends after it', { leaseUntil: NOW_MS + 2 * HOUR_MS }, 'under way', -2 * HOUR_MS],
])('a payment that %s says when it may be resolved', (_what, more, what, agoMs) => {
  expect(nextOf(life({}, more), RULES, undefined, undefined)).toMatchObject({ what, resolvableAt: NOW_MS - agoMs });
  const theirs = nextOf(life({ processor: 'theirs' }, more), RULES, undefined, undefined);
  expect(theirs.resolvableAt).toBe(NOW_MS - agoMs);
});

/** Bug: a repeat of an attempt after which another one was made was promised its outcome, and got 422. */
test.each([
  [undefined, 'replayed', /until a later attempt is made/],
  [1, 'replayed', /until a later attempt is made/],
  [3, 'superseded', /attempt 3 was made after it: a repeat of attempt 1 is refused/],
])('a declined attempt says what a repeat gets if the newest attempt is %s', (newest, what, text) => {
  const declined = life({ state: 'DECLINED', reference: 'order-1', attempt: 1 });
  expect(nextOf(declined, RULES, undefined, newest)).toEqual({ what, text: expect.stringMatching(text) });
});

test('a paid attempt promises its outcome to a repeat', () => {
  const paid = life({ state: 'COMPLETED', reference: 'order-1', attempt: 2 });
  expect(nextOf(paid, RULES, undefined, 2)).toMatchObject({
    what: 'replayed',
    text: expect.stringMatching(/as it is kept/),
  });
});

test('a final outcome whose key has expired is not repeated', () => {
  for (const expiresAt of [undefined, NOW_MS]) {
    expect(nextOf(life({ state: 'COMPLETED' }, { expiresAt }), RULES, undefined, undefined)).toMatchObject({
      what: 'expired',
    });
  }
});

test.each<[string, Partial<PaymentLife['payment']>, what: string, text: RegExp, resolvableAfterMs: number]>([
  ['waits for its payer', { pendingUntil: NOW_MS + HOUR_MS }, 'pending', /its end is expected by 2026-11-25T13:00/, 2],
  ['is past its time', { pendingUntil: NOW_MS - 2 * HOUR_MS }, 'pending', /its end was expected by .* since 2026/, -1],
  ['waits for weeks', { pendingUntil: NOW_MS + 9_000 * HOUR_MS }, 'pending', /a repeat at once/, 30 * 24 - 1],
  ['is ended while it waits', { pendingUntil: NOW_MS, ending: 'order' }, 'ending', /A cancellation ends it/, 1],
  ['is ended', { ending: 'attempt' }, 'ending', /again at 2026-11-25T13:00/, 1],
])('a payment that %s says so, and from when on an operator may resolve it', (_what, open, what, text, hours) => {
  expect(nextOf(life(open), RULES, undefined, undefined)).toMatchObject({
    what,
    text: expect.stringMatching(text),
    resolvableAt: NOW_MS + hours * HOUR_MS,
  });
});
