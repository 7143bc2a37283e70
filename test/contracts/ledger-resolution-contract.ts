import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { KeyStore } from '#idempay/payments/ports/key-store.js';
import type { Ledger, Resolution } from '#idempay/payments/ports/ledger.js';
import type { PaymentHistory } from '#idempay/payments/ports/payment-history.js';
import type { Claim } from '#idempay/payments/values/payment.js';
import {
  claimAttempt,
  completed,
  givenClaim,
  givenSettled,
  LONG_MS,
  newKey,
  newOwner,
  SHORT_MS,
} from '../../testkit/protocol/payment-attempts.js';
import type { OpenPorts, Ports } from '../../testkit/protocol/ports.js';
import { untilPast } from '../../testkit/time/until-past.js';

/**
 * What every Ledger guarantees of `resolve` beyond its types:
 *
 *  1. It settles an abandoned payment with the operator's verdict: its own transaction id, or the operator's reason.
 *  2. Whoever held the payment before can no longer settle, renew or abandon it, and is answered with the verdict.
 *  3. It changes nothing while an attempt is at work, and says for how long that may be.
 *  4. It changes nothing before the payment has its least age, counted from the first claim, and says how long that is.
 *  5. Nothing final is resolved: of any number of verdicts, and attempts that settle, exactly one is written.
 *  6. A back-off is no hindrance: whoever waits for recovery is not at work.
 *  7. It never makes a row.
 */
export function describeLedgerResolutionContract(name: string, open: OpenPorts): void {
  describe(`the ledger's contract for resolutions (${name})`, () => {
    let ports: Ports;
    let ledger: Ledger;
    let keys: KeyStore;
    let history: PaymentHistory;

    beforeAll(async () => {
      ports = await open();
      ({ keys, ledger, paymentHistory: history } = ports);
    });
    afterAll(() => ports.close());

    function resolve(key: string, members: Partial<Resolution> = {}) {
      const verdict = { state: 'COMPLETED', reason: 'seen on the statement' } as const;
      const ages = { dedupMs: 0, idempotencyTtlMs: LONG_MS };
      return ledger.resolve({ key, owner: newOwner(), ...verdict, ...ages, ...members });
    }

    async function givenAbandoned(recoverAfterMs = 0): Promise<Claim> {
      const claim = await givenClaim(ledger);
      await ledger.abandon(claim, recoverAfterMs);
      return claim;
    }

    test('1: a payment resolved as completed is final with its own transaction id, and a life from now', async () => {
      const { key, transactionId, fingerprint } = await givenAbandoned();
      const before = Date.now();
      const resolved = await resolve(key);
      if (resolved.state !== 'resolved') throw new Error(`resolve was answered '${resolved.state}'`);
      const { final } = resolved;
      expect(final).toMatchObject({ outcome: { state: 'COMPLETED', transactionId }, fingerprint });
      expect(final.expiresAt).toBeGreaterThanOrEqual(before + LONG_MS);
      expect(final.expiresAt).toBeLessThanOrEqual(Date.now() + LONG_MS);
      expect(await ledger.find(key)).toEqual({ state: 'final', final });
      expect(await ledger.claim(claimAttempt({ key }))).toEqual({ state: 'final', final });
      const record = await history.find(key);
      expect(record).toMatchObject({ state: 'COMPLETED', transactionId, resolution: 'seen on the statement' });
      expect(record?.reason).toBeUndefined();
    });

    test('1: a payment resolved as declined is final with the reason', async () => {
      const { key } = await givenAbandoned();
      const outcome = { state: 'DECLINED', reason: 'never arrived' } as const;
      expect(await resolve(key, outcome)).toMatchObject({ state: 'resolved', final: { outcome } });
      expect(await ledger.find(key)).toMatchObject({ state: 'final', final: { outcome } });
      expect(await history.find(key)).toMatchObject({ ...outcome, resolution: 'never arrived' });
    });

    test('1: the key store that is told of the verdict repeats it', async () => {
      const key = newKey();
      await keys.issue(key, LONG_MS);
      const claim = await givenClaim(ledger, { key });
      await ledger.abandon(claim, 0);
      const resolved = await resolve(key, { owner: 'operator' });
      if (resolved.state !== 'resolved') throw new Error(`resolve was answered '${resolved.state}'`);
      await keys.finish(key, 'operator', resolved.final);
      expect(await keys.look(key)).toEqual({ state: 'final', final: resolved.final });
      expect(await ports.keyValueStore.value(key)).toMatchObject({ value: claim.transactionId });
    });

    test('2: the owner that was paused neither settles, nor renews, nor abandons, and learns of the verdict', async () => {
      const claim = await givenClaim(ledger, { leaseMs: SHORT_MS });
      await untilPast(SHORT_MS);
      const resolved = await resolve(claim.key, { state: 'DECLINED', reason: 'never arrived' });
      if (resolved.state !== 'resolved') throw new Error(`resolve was answered '${resolved.state}'`);
      const final = { state: 'final', final: resolved.final };
      expect(await ledger.settle(claim, completed(claim), LONG_MS)).toEqual(final);
      expect(await ledger.renew(claim, LONG_MS)).toBe(false);
      await ledger.abandon(claim, 0);
      expect(await ledger.takeOver({ ...claim, owner: newOwner(), leaseMs: LONG_MS })).toBeUndefined();
      expect(await ledger.find(claim.key)).toEqual(final);
    });

    test('2: the epoch fences the owner off even when the verdict came under its own name', async () => {
      const claim = await givenAbandoned();
      const resolved = await resolve(claim.key, { owner: claim.owner, state: 'DECLINED', reason: 'never arrived' });
      expect(resolved.state).toBe('resolved');
      expect(await ledger.settle(claim, completed(claim), LONG_MS)).toMatchObject({ state: 'final' });
      expect(await ledger.find(claim.key)).toMatchObject({ final: { outcome: { state: 'DECLINED' } } });
    });

    test('3: a payment under a live lease is not resolved, and goes on', async () => {
      const claim = await givenClaim(ledger);
      const refused = await resolve(claim.key);
      if (refused.state !== 'under way') throw new Error(`resolve was answered '${refused.state}'`);
      expect(refused.remainingMs).toBeGreaterThan(LONG_MS / 2);
      expect(refused.remainingMs).toBeLessThanOrEqual(LONG_MS);
      expect(await ledger.settle(claim, completed(claim), LONG_MS)).toMatchObject({ state: 'settled' });
      expect((await history.find(claim.key))?.resolution).toBeUndefined();
    });

    test('4: a payment that is too young is not resolved', async () => {
      const claim = await givenAbandoned();
      const refused = await resolve(claim.key, { dedupMs: LONG_MS });
      if (refused.state !== 'too early') throw new Error(`resolve was answered '${refused.state}'`);
      expect(refused.remainingMs).toBeGreaterThan(LONG_MS / 2);
      expect(refused.remainingMs).toBeLessThanOrEqual(LONG_MS);
      expect(await ledger.find(claim.key)).toEqual({ state: 'abandoned' });
    });

    test('4: the age is that of the first claim, whatever takeovers came since', async () => {
      const first = await givenAbandoned();
      await untilPast(SHORT_MS);
      const second = await ledger.takeOver({ ...first, owner: newOwner(), leaseMs: LONG_MS });
      if (!second) throw new Error('the payment was not taken over');
      await ledger.abandon(second, 0);
      expect(await resolve(first.key, { dedupMs: SHORT_MS })).toMatchObject({ state: 'resolved' });
    });

    test('5: a payment that settled itself is not resolved', async () => {
      const claim = await givenClaim(ledger);
      const final = await givenSettled(ledger, claim);
      expect(await resolve(claim.key, { state: 'DECLINED' })).toEqual({ state: 'settled before' });
      expect(await ledger.find(claim.key)).toEqual({ state: 'final', final });
    });

    test('5: a second verdict changes nothing', async () => {
      const { key } = await givenAbandoned();
      const first = await resolve(key);
      if (first.state !== 'resolved') throw new Error(`resolve was answered '${first.state}'`);
      expect(await resolve(key, { state: 'DECLINED', reason: 'changed my mind' })).toEqual({ state: 'settled before' });
      expect(await ledger.find(key)).toEqual({ state: 'final', final: first.final });
      expect(await history.find(key)).toMatchObject({ resolution: 'seen on the statement' });
    });

    test('5: of many verdicts, and the owner, at once exactly one is written', async () => {
      const claim = await givenAbandoned();
      const [settled, ...resolved] = await Promise.all([
        ledger.settle(claim, completed(claim), LONG_MS),
        ...Array.from({ length: 20 }, () => resolve(claim.key, { state: 'DECLINED' })),
      ]);
      const written = [settled, ...resolved].filter(({ state }) => state === 'settled' || state === 'resolved');
      expect(written).toHaveLength(1);
      const state = settled.state === 'settled' ? 'COMPLETED' : 'DECLINED';
      expect(await ledger.find(claim.key)).toMatchObject({ final: { outcome: { state } } });
    });

    test('6: a payment whose recovery is put off is resolved', async () => {
      const { key } = await givenAbandoned(LONG_MS);
      expect(await resolve(key)).toMatchObject({ state: 'resolved' });
    });

    test('7: a key without a row is absent, and stays so', async () => {
      const key = newKey();
      expect(await resolve(key)).toEqual({ state: 'absent' });
      expect(await ledger.find(key)).toEqual({ state: 'absent' });
      expect(await history.find(key)).toBeUndefined();
    });
  });
}
