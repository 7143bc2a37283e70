import { beforeAll, describe, expect, it } from 'vitest';
import { tagOf } from '../../testkit/client/entity-tags.js';
import { expectError } from '../../testkit/client/error-body.js';
import { type Answer, generateKey, pay, paymentStatus } from '../../testkit/client/http-client.js';
import {
  beginPayment,
  expectCompleted,
  expectInProgress,
  expectKeyValue,
  expectReplay,
  givenPaid,
  KEY_GENERATED,
  NO_PAYMENT,
  UNKNOWN_KEY,
} from '../../testkit/client/payment-answers.js';
import { UNREADABLE_BODIES } from '../../testkit/client/payment-bodies.js';
import {
  exportDay,
  listPayments,
  readPayment,
  resolvePayment,
  shownIn,
  shownPaymentOf,
} from '../../testkit/client/payment-records.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareProcessedService } from '../../testkit/deployments/processed-service.js';
import { shareService } from '../../testkit/deployments/shared-service.js';
import { until } from '../../testkit/time/until.js';

/** Longer than any test, so that only a test that ends its service sees the end. */
const ENDLESS_MS = 600_000;
/** From this age on a payment may be resolved; long enough to see before that it is too early. */
const DEDUP_SECONDS = 2;
const RESOLVABLE_DEADLINE_MS = 15_000;
/** As many as the tests take, all made at the beginning so that they come of age together. */
const UNCLEAR_PAYMENTS = 8;

const TOO_EARLY = /^The service may still find out .* Retry-After/;
const COMPLETED = { outcome: 'completed', reason: 'on the statement of 2026-11-19' };
const DECLINED = { outcome: 'declined', reason: 'not on the statement of 2026-11-19' };

/** Bodies that can be read and name no resolution, by the member that the refusal names. */
const BAD_RESOLUTIONS: readonly (readonly [names: RegExp, what: string, body: unknown])[] = [
  [/JSON object/, 'a list', '[]'],
  [/JSON object/, 'null', 'null'],
  [/JSON object/, 'a text', '"completed"'],
  [/'outcome'/, 'outcome twice', '{"outcome":"completed","outcome":"completed","reason":"seen"}'],
  [/^'outcome' /, 'no member', '{}'],
  ...[undefined, null, true, ['completed'], 'failed', 'PROCESSING', ' completed'].map(
    (outcome) => [/^'outcome' /, `the outcome ${JSON.stringify(outcome)}`, { outcome, reason: 'seen' }] as const,
  ),
  ...[undefined, 1, '', ' \t\r\n ', 'one\ntwo', 'one\u0000two', 'x'.repeat(501)].map(
    (reason) => [/^'reason' /, `the reason ${JSON.stringify(reason)}`, { outcome: 'completed', reason }] as const,
  ),
  [/^'reason' /, 'half a character', '{"outcome":"completed","reason":"one \\ud83d"}'],
];

describeDeployments('POST /api/payments/{key}/resolution', (deployment) => {
  describe('while an attempt is under way', () => {
    const shared = shareService(deployment, { PROCESSOR_DELAY_MS: `${ENDLESS_MS}` });
    let key: string;

    beforeAll(async () => {
      key = await generateKey(shared.url);
      const { finished } = await beginPayment(shared.url, key);
      // Its service ends before it does.
      finished.catch(() => {});
    });

    it('is refused with 409, for the attempt may still find out', async () => {
      await until('the payment is claimed', RESOLVABLE_DEADLINE_MS, async () => {
        return (await shownPaymentOf(shared.url, key)).state === 'PROCESSING';
      });
      expectInProgress(await resolvePayment(shared.url, key, COMPLETED));
      expectInProgress(await resolvePayment(shared.url, key.toUpperCase(), DECLINED));
      expect(await shownPaymentOf(shared.url, key)).toMatchObject({ state: 'PROCESSING', resolution: null });
    });

    it.each(UNREADABLE_BODIES)('is refused with $status for $label, whatever the key', async (unreadable) => {
      const { status, body, headers } = unreadable;
      for (const of of [key, UNKNOWN_KEY, 'abc']) {
        expectError(await resolvePayment(shared.url, of, body, headers), status);
      }
    });

    it.each(BAD_RESOLUTIONS)('is refused with 400, whatever the key, and names %s: %s', async (names, _what, body) => {
      for (const of of [key, UNKNOWN_KEY, 'abc']) expectError(await resolvePayment(shared.url, of, body), 400, names);
    });

    it.each([UNKNOWN_KEY, 'abc', '%20', 'x'.repeat(8_000)])('is refused with 404 for the key %s', async (unknown) => {
      expectError(await resolvePayment(shared.url, unknown), 404, NO_PAYMENT);
    });

    it('is refused with 404 for a key that has not paid, and leaves it usable', async () => {
      const unpaid = await generateKey(shared.url);
      expectError(await resolvePayment(shared.url, unpaid), 404, NO_PAYMENT);
      await expectKeyValue(shared.url, unpaid, KEY_GENERATED);
      expect((await shownPaymentOf(shared.url, unpaid)).state).toBe('PENDING');
    });
  });

  describe('of payments that stay unknown', () => {
    const shared = shareProcessedService(
      deployment,
      {},
      { PROCESSOR_DEDUP_SECONDS: `${DEDUP_SECONDS}`, PROCESSOR_TIMEOUT_MS: '900', LOCK_TTL_SECONDS: '1' },
    );
    let unclear: string[];

    beforeAll(async () => {
      const { url, processor } = shared();
      await processor.behave({ refuseWith: 503 });
      unclear = await Promise.all(Array.from({ length: UNCLEAR_PAYMENTS }, () => givenUnclear(url)));
    });

    function takeUnclear(): string {
      const key = unclear.pop();
      if (key === undefined) throw new Error('all the unclear payments are used up');
      return key;
    }

    /** The first answer that is neither that it is too early, nor that recovery looks at this very moment. */
    function resolveWhenOfAge(key: string, resolution: unknown): Promise<Answer> {
      return until('the payment may be resolved', RESOLVABLE_DEADLINE_MS, async () => {
        const answer = await resolvePayment(shared().url, key, resolution);
        return (answer.status !== 409 || answer.headers['retry-after'] === undefined) && answer;
      });
    }

    it('is refused with 409 while the service may still find out, and says for how long', async () => {
      const { url } = shared();
      const key = await givenUnclear(url);
      const answer = await until('the refusal that it is too early', RESOLVABLE_DEADLINE_MS, async () => {
        const refusal = await resolvePayment(url, key, DECLINED);
        expect(refusal.status, refusal.text).toBe(409);
        return TOO_EARLY.test(refusal.json<{ message: string }>().message) && refusal;
      });
      expectError(answer, 409, TOO_EARLY);
      expect(Number(answer.headers['retry-after'])).toBeGreaterThanOrEqual(1);
      expect(Number(answer.headers['retry-after'])).toBeLessThanOrEqual(DEDUP_SECONDS);
      expect(await shownPaymentOf(url, key)).toMatchObject({ state: 'PROCESSING', resolution: null });
    });

    it('completes the payment: it is shown so, repeated, and found by payment-status', async () => {
      const { url, processor } = shared();
      const key = takeUnclear();
      const before = await shownPaymentOf(url, key);
      const resolved = await resolveWhenOfAge(key, COMPLETED);
      const { settledAt, attempts, ...rest } = shownIn(resolved);
      expect({ ...rest, settledAt: null, attempts: before.attempts }).toEqual({
        ...before,
        state: 'COMPLETED',
        resolution: COMPLETED.reason,
      });
      const ofAgeAt = Date.parse(rest.claimedAt as string) + DEDUP_SECONDS * 1_000;
      expect(Date.parse(settledAt as string)).toBeGreaterThanOrEqual(ofAgeAt);
      const shown = await readPayment(url, key);
      expect(shown.text).toBe(resolved.text);
      expect(tagOf(shown)).toBe(tagOf(resolved));

      const transactionId = rest.transactionId as string;
      expectReplay(await pay(url, key), transactionId);
      expectCompleted(await paymentStatus(url, key), transactionId);
      await expectKeyValue(url, key, transactionId);
      expect(await processor.chargesOf(key), 'the service charges nothing for it').toEqual([]);
    });

    it('declines the payment: each repeat gets the reason', async () => {
      const { url } = shared();
      const key = takeUnclear();
      const payment = shownIn(await resolveWhenOfAge(key, DECLINED));
      expect(payment).toMatchObject({ state: 'DECLINED', reason: DECLINED.reason, resolution: DECLINED.reason });
      for (let repeat = 0; repeat < 2; repeat += 1) {
        const answer = await pay(url, key);
        expectError(answer, 402, `Payment declined: ${DECLINED.reason}`);
        expect(answer.headers['idempotent-replayed']).toBe('true');
      }
      expectError(await paymentStatus(url, key), 404, NO_PAYMENT);
      await expectKeyValue(url, key, 'DECLINED');
    });

    it('answers the same resolution the same, however it is written, and refuses any other', async () => {
      const { url } = shared();
      const key = takeUnclear();
      const { text } = await resolveWhenOfAge(key, COMPLETED);
      for (const same of [COMPLETED, { outcome: 'COMPLETED', reason: ` ${COMPLETED.reason}\n`, by: 'someone' }]) {
        const again = await resolvePayment(url, key, same);
        shownIn(again);
        expect(again.text).toBe(text);
      }
      for (const other of [DECLINED, { ...COMPLETED, reason: 'another' }, { ...DECLINED, reason: COMPLETED.reason }]) {
        const refused = await resolvePayment(url, key, other);
        expectError(refused, 409, 'The payment is COMPLETED, which is final: it cannot be resolved.');
        expect(refused.headers).not.toHaveProperty('retry-after');
      }
      expect((await readPayment(url, key)).text).toBe(text);
    });

    it('takes one of several resolutions that arrive at once', async () => {
      const { url } = shared();
      const [probe, key] = [takeUnclear(), takeUnclear()];
      const sent = Array.from({ length: 12 }, (_, index) => ({
        outcome: index % 2 === 0 ? 'completed' : 'declined',
        reason: `resolution ${index}`,
      }));
      // When this one is of age, the other is soon.
      await resolveWhenOfAge(probe, DECLINED);
      const taken = await until('one is taken', RESOLVABLE_DEADLINE_MS, async () => {
        const answers = await Promise.all(sent.map((resolution) => resolvePayment(url, key, resolution)));
        const [first, ...others] = answers.filter(({ status }) => status === 200);
        expect(others).toEqual([]);
        for (const answer of answers) if (answer !== first) expectError(answer, 409);
        return first;
      });
      const { resolution, state } = shownIn(taken);
      expect(state).toBe(sent.find(({ reason }) => reason === resolution)?.outcome.toUpperCase());
      expect(await shownPaymentOf(url, key)).toMatchObject({ state, resolution });
    });

    it('keeps a reason of 500 characters of any language as it was given', async () => {
      const { url } = shared();
      const key = takeUnclear();
      const reason = `"caf\u00e9" \\ \u4e2d\u6587 ${'\u{1f4b8}'.repeat(488)}`;
      expect([...reason]).toHaveLength(500);
      expect(shownIn(await resolveWhenOfAge(key, { outcome: 'declined', reason })).resolution).toBe(reason);
      expectError(await pay(url, key), 402, `Payment declined: ${reason}`);
    });

    it('takes the payment off the list of those that are PROCESSING, and into the export of its day', async () => {
      const { url } = shared();
      const key = takeUnclear();
      const listed = async () =>
        (await listPayments(url, '?state=PROCESSING&limit=500')).payments.map(({ idempotencyKey }) => idempotencyKey);
      expect(await listed()).toContain(key);
      const payment = shownIn(await resolveWhenOfAge(key, COMPLETED));
      expect(await listed()).not.toContain(key);
      expect(await exportDay(url, (payment.settledAt as string).slice(0, 10))).toContainEqual(payment);
    });

    /** The last two: from here on the processor answers. */
    it('is final also when the processor comes back', async () => {
      const { url, processor } = shared();
      const key = takeUnclear();
      const { text } = await resolveWhenOfAge(key, DECLINED);
      await processor.behave({ refuseWith: null });
      expectError(await pay(url, key), 402, `Payment declined: ${DECLINED.reason}`);
      expect((await readPayment(url, key)).text).toBe(text);
      expect(await processor.chargesOf(key)).toEqual([]);
    });

    it('is refused with 409 for a payment that the processor settled', async () => {
      const { url, processor } = shared();
      await processor.behave({ refuseWith: null });
      const { key: completed, transactionId } = await givenPaid(url);
      await processor.behave({ declineRate: 1 });
      const declined = await generateKey(url);
      expectError(await pay(url, declined), 402);
      for (const [key, state] of [[completed, 'COMPLETED'] as const, [declined, 'DECLINED'] as const]) {
        const { text } = await readPayment(url, key);
        for (const resolution of [COMPLETED, DECLINED, { ...DECLINED, reason: 'insufficient funds' }]) {
          const answer = await resolvePayment(url, key, resolution);
          expectError(answer, 409, `The payment is ${state}, which is final: it cannot be resolved.`);
        }
        expect((await readPayment(url, key)).text).toBe(text);
      }
      expectReplay(await pay(url, completed), transactionId);
    });
  });
});

/** A payment whose outcome the processor does not tell. */
async function givenUnclear(url: string): Promise<string> {
  const key = await generateKey(url);
  expectError(await pay(url, key), 504);
  return key;
}
