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
import {
  exportDay,
  keysOf,
  listPayments,
  readPayment,
  resolvePayment,
  shownIn,
  shownPaymentOf,
  timelineOf,
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
const UNCLEAR_PAYMENTS = 5;
const SOURCE = 'pm_1Px$&/+=';
const PAYMENT = { amount: '100.50', currency: 'USD', source: SOURCE };
const UNCLEAR = { PROCESSOR_DEDUP_SECONDS: `${DEDUP_SECONDS}` };

const TOO_EARLY = /^The service may still find out .* Retry-After/;
const COMPLETED = { outcome: 'completed', reason: 'on the statement of 2026-11-19' };
const DECLINED = { outcome: 'declined', reason: 'not on the statement of 2026-11-19' };

/** Read, but no resolution, by the member that the refusal names; `test/unit/payment-record-request` has every form. */
const BAD_RESOLUTIONS: readonly [names: RegExp, body: string][] = [
  [/JSON object/, '[]'],
  [/'outcome'/, '{"outcome":"completed","outcome":"completed","reason":"seen"}'],
  [/^'outcome' /, '{"outcome":"failed","reason":"seen"}'],
  [/^'reason' /, '{"outcome":"completed"}'],
];

/** A payment whose outcome the processor does not tell. */
function givenUnclear(url: string, body?: object): Promise<string> {
  return until('a payment whose outcome is unknown', RESOLVABLE_DEADLINE_MS, async () => {
    const key = await generateKey(url);
    // On a busy machine one may not be sent in time (503).
    return (await pay(url, key, body)).status === 504 && key;
  });
}

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

    it.each(BAD_RESOLUTIONS)('is refused with 400, whatever the key, and names %s: %s', async (names, body) => {
      for (const of of [key, UNKNOWN_KEY]) expectError(await resolvePayment(shared.url, of, body), 400, names);
    });

    it('is refused with 404 for a key that is unknown or has not paid, and leaves it usable', async () => {
      const unpaid = await generateKey(shared.url);
      for (const of of [UNKNOWN_KEY, 'abc', '%20', 'x'.repeat(8_000), unpaid]) {
        expectError(await resolvePayment(shared.url, of), 404, NO_PAYMENT);
      }
      await expectKeyValue(shared.url, unpaid, KEY_GENERATED);
      expect((await shownPaymentOf(shared.url, unpaid)).state).toBe('PENDING');
    });
  });

  describe('of payments that stay unknown', () => {
    const shared = shareProcessedService(deployment, {}, UNCLEAR);
    let unclear: string[];

    beforeAll(async () => {
      await shared().processor.behave({ refuseWith: 503 });
      unclear = await Promise.all(Array.from({ length: UNCLEAR_PAYMENTS }, () => givenUnclear(shared().url, PAYMENT)));
    });

    const takeUnclear = () => unclear.pop() as string;

    /** The first answer that is neither that it is too early, nor that recovery looks at this very moment. */
    function resolveWhenOfAge(key: string, resolution: unknown): Promise<Answer> {
      return until('the payment may be resolved', RESOLVABLE_DEADLINE_MS, async () => {
        const answer = await resolvePayment(shared().url, key, resolution);
        return (answer.status !== 409 || answer.headers['retry-after'] === undefined) && answer;
      });
    }

    it('is refused with 409 while the service may still find out, and says for how long', async () => {
      const { url } = shared();
      const { key, answer } = await until('the refusal that it is too early', RESOLVABLE_DEADLINE_MS, async () => {
        const begunMs = performance.now();
        const key = await givenUnclear(url);
        const answer = await resolvePayment(url, key, DECLINED);
        // A machine that paused may have let the payment come of age.
        if (performance.now() - begunMs < DEDUP_SECONDS * 1_000) expect(answer.status, answer.text).toBe(409);
        return answer.status === 409 && TOO_EARLY.test(answer.json<{ message: string }>().message) && { key, answer };
      });
      expectError(answer, 409, TOO_EARLY);
      expect(Number(answer.headers['retry-after'])).toBeGreaterThanOrEqual(1);
      expect(Number(answer.headers['retry-after'])).toBeLessThanOrEqual(DEDUP_SECONDS);
      const { next } = await timelineOf(url, key);
      const claimedAt = Date.parse((await shownPaymentOf(url, key)).claimedAt as string);
      expect(Date.parse(next.resolvableAt ?? '')).toBeGreaterThanOrEqual(claimedAt + DEDUP_SECONDS * 1_000);
      expect(await shownPaymentOf(url, key)).toMatchObject({ state: 'PROCESSING', resolution: null });
    });

    it('completes the payment: it is shown, listed, exported, repeated, and found by payment-status so', async () => {
      const { url, processor } = shared();
      const key = takeUnclear();
      const listed = async () => keysOf((await listPayments(url, '?state=PROCESSING&limit=500')).payments);
      expect(await listed()).toContain(key);
      const before = await shownPaymentOf(url, key);
      const resolved = await resolveWhenOfAge(key, COMPLETED);
      const payment = shownIn(resolved);
      const { settledAt, executions, ...rest } = payment;
      const expected = { ...before, state: 'COMPLETED', resolution: COMPLETED.reason };
      expect({ ...rest, settledAt: null, executions: before.executions }).toEqual(expected);
      const ageMs = Date.parse(settledAt as string) - Date.parse(rest.claimedAt as string);
      // By whichever of the store's clock and the wall clock says that more time has passed: they run apart by milliseconds.
      expect(ageMs).toBeGreaterThan(DEDUP_SECONDS * 1_000 - 100);
      const shown = await readPayment(url, key);
      expect([shown.text, tagOf(shown)]).toEqual([resolved.text, tagOf(resolved)]);
      expect(await listed()).not.toContain(key);
      expect(await exportDay(url, (settledAt as string).slice(0, 10))).toContainEqual(payment);

      const transactionId = rest.transactionId as string;
      expectReplay(await pay(url, key), transactionId);
      expectCompleted(await paymentStatus(url, key), transactionId);
      await expectKeyValue(url, key, transactionId);
      expect(await processor.chargesOf(key), 'the service charges nothing for it').toEqual([]);
    });

    it('declines the payment: each repeat gets the reason, which may have 500 characters of any language', async () => {
      const { url } = shared();
      const key = takeUnclear();
      const reason = `"caf\u00e9" \\ \u4e2d\u6587 ${'\u{1f4b8}'.repeat(488)}`;
      const payment = shownIn(await resolveWhenOfAge(key, { outcome: 'declined', reason }));
      expect(payment).toMatchObject({ state: 'DECLINED', reason, resolution: reason });
      for (let repeat = 0; repeat < 2; repeat += 1) {
        const answer = await pay(url, key);
        expectError(answer, 402, `Payment declined: ${reason}`);
        expect(answer.headers['idempotent-replayed']).toBe('true');
      }
      expectError(await paymentStatus(url, key), 404, NO_PAYMENT);
      await expectKeyValue(url, key, 'DECLINED');
    });

    it('keeps a reason without the source that it quotes, and takes the same again', async () => {
      const { url } = shared();
      const key = takeUnclear();
      const quoting = { outcome: 'declined', reason: `no ${SOURCE} at the processor (${SOURCE})` };
      const kept = 'no (the source) at the processor ((the source))';
      const resolved = await resolveWhenOfAge(key, quoting);
      expect(shownIn(resolved)).toMatchObject({ state: 'DECLINED', reason: kept, resolution: kept });
      expectError(await pay(url, key), 402, `Payment declined: ${kept}`);
      for (const reason of [quoting.reason, kept]) {
        expect((await resolvePayment(url, key, { outcome: 'declined', reason })).text).toBe(resolved.text);
      }
      for (const reason of ['no pm_1 at the processor (pm_2)', 'no  at the processor ()', 'no']) {
        expectError(await resolvePayment(url, key, { outcome: 'declined', reason }), 409);
      }
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
      for (const other of [DECLINED, { ...COMPLETED, reason: 'another' }]) {
        const refused = await resolvePayment(url, key, other);
        expectError(refused, 409, 'The payment is COMPLETED, which is final: it cannot be resolved.');
        expect(refused.headers).not.toHaveProperty('retry-after');
      }
      expect((await readPayment(url, key)).text).toBe(text);
    });

    /** The last one: from here on the processor answers. */
    it('is final when the processor comes back; and what the processor settled is refused with 409', async () => {
      const { url, processor } = shared();
      const key = takeUnclear();
      const { text } = await resolveWhenOfAge(key, DECLINED);
      await processor.behave({ refuseWith: null });
      expectError(await pay(url, key), 402, `Payment declined: ${DECLINED.reason}`);
      expect((await readPayment(url, key)).text).toBe(text);
      expect(await processor.chargesOf(key)).toEqual([]);

      const { key: completed, transactionId } = await givenPaid(url);
      await processor.behave({ declineRate: 1 });
      const declined = await generateKey(url);
      expectError(await pay(url, declined), 402);
      for (const [settled, state] of [[completed, 'COMPLETED'] as const, [declined, 'DECLINED'] as const]) {
        const { text: before } = await readPayment(url, settled);
        for (const resolution of [COMPLETED, { ...DECLINED, reason: 'insufficient funds' }]) {
          const answer = await resolvePayment(url, settled, resolution);
          expectError(answer, 409, `The payment is ${state}, which is final: it cannot be resolved.`);
        }
        expect((await readPayment(url, settled)).text).toBe(before);
      }
      expectReplay(await pay(url, completed), transactionId);
    });
  });
});
