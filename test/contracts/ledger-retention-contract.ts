import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { KeyStore } from '#idempay/payments/key-store.js';
import type { Ledger } from '#idempay/payments/ledger.js';
import type { Claim } from '#idempay/payments/payment.js';
import type { PaymentHistory } from '#idempay/payments/payment-history.js';
import {
  claimAttempt,
  completed,
  givenClaim,
  givenSettled,
  LONG_MS,
  newKey,
  newOwner,
  SHORT_MS,
} from '../support/payment-attempts.js';
import type { OpenPorts, Ports } from '../support/ports.js';
import { until } from '../support/until.js';
import { untilPast } from '../support/until-past.js';

/** Claimed before the horizon passes: none can be afterwards. Each test takes what it needs. */
const CLAIMS = 100;
const MANY = 1_000;
/** Some deployments let a horizon pass only when no claim can have missed it, seconds after the call that raised it. */
const HORIZON_DEADLINE_MS = 25_000;

/**
 * What every Ledger guarantees of `removeSettled` beyond its types:
 *
 *  1. It removes rows that are final, past their expiry and settled longer ago than the retention; oldest first, and at
 *     most `limit`.
 *  2. It never removes a row that is PROCESSING, younger, or still repeated.
 *  3. Of any number at once each row is removed by one.
 *  4. The claim of a key whose row was removed is answered 'expired', whatever the key store says of the key; so is that of
 *     any key without a row that was generated as long ago.
 *  5. Rows that are there go on as before, however old their keys: repeats, takeovers, settling.
 *  6. Younger keys are claimed.
 */
export function describeLedgerRetentionContract(name: string, open: OpenPorts): void {
  describe(`the ledger's contract for retention (${name})`, () => {
    let ports: Ports;
    let ledger: Ledger;
    let keys: KeyStore;
    let history: PaymentHistory;
    let claims: Claim[];
    /** Generated with the claims, and never claimed. */
    let unused: string[];

    beforeAll(async () => {
      ports = await open();
      ({ keys, ledger, paymentHistory: history } = ports);
      unused = Array.from({ length: 3 }, newKey);
      claims = await Promise.all(Array.from({ length: CLAIMS }, () => givenClaim(ledger)));
      const probe = claims.at(-1) as Claim;
      await givenSettled(ledger, probe, { ttlMs: 1 });
      await until('the horizon to have passed', HORIZON_DEADLINE_MS, async () => {
        await ledger.removeSettled(SHORT_MS, MANY);
        return (await history.find(probe.key)) === undefined;
      });
      claims.pop();
    });
    // What the test before left is not counted by the next one.
    beforeEach(async () => {
      await ledger.removeSettled(SHORT_MS, MANY);
    });
    afterAll(() => ports.close());

    function oldClaims(count: number): Claim[] {
      return claims.splice(0, count);
    }

    function oldClaim(): Claim {
      const [claim] = oldClaims(1);
      if (!claim) throw new Error('all the old claims are used up');
      return claim;
    }

    /** Old claims that are settled one after the other, and may be removed when this resolves. */
    async function givenRemovable(count: number): Promise<Claim[]> {
      const removable = oldClaims(count);
      for (const claim of removable) {
        await givenSettled(ledger, claim, { ttlMs: 1 });
        await untilPast(1);
      }
      await untilPast(SHORT_MS);
      return removable;
    }

    async function kept(payments: readonly Claim[]): Promise<string[]> {
      const found = await Promise.all(payments.map(({ key }) => history.find(key)));
      return found.flatMap((payment) => payment?.key ?? []);
    }

    test('1: a payment that is over in every way is removed', async () => {
      const completedOne = oldClaim();
      const declinedOne = oldClaim();
      const resolvedOne = oldClaim();
      await givenSettled(ledger, completedOne, { ttlMs: 1 });
      await givenSettled(ledger, declinedOne, { outcome: { state: 'DECLINED', reason: 'no funds' }, ttlMs: 1 });
      await ledger.abandon(resolvedOne, 0);
      const verdict = {
        state: 'COMPLETED',
        reason: 'seen on the statement',
        minAgeMs: 0,
        unsentMinAgeMs: 0,
        ttlMs: 1,
      } as const;
      await ledger.resolve({ key: resolvedOne.key, owner: newOwner(), ...verdict });
      await untilPast(SHORT_MS);
      expect(await ledger.removeSettled(SHORT_MS, MANY)).toBe(3);
      expect(await kept([completedOne, declinedOne, resolvedOne])).toEqual([]);
      expect(await ledger.find(completedOne.key)).toEqual({ state: 'absent' });
    });

    test('1: a limit is kept, and those settled first go first', async () => {
      const payments = await givenRemovable(5);
      const keysLeft = () => payments.map(({ key }) => key);
      expect(await ledger.removeSettled(SHORT_MS, 2)).toBe(2);
      expect(await kept(payments)).toEqual(keysLeft().slice(2));
      expect(await ledger.removeSettled(SHORT_MS, 2)).toBe(2);
      expect(await kept(payments)).toEqual(keysLeft().slice(4));
      expect(await ledger.removeSettled(SHORT_MS, 2)).toBe(1);
      expect(await ledger.removeSettled(SHORT_MS, 2)).toBe(0);
    });

    test('2: a payment that was settled lately is kept', async () => {
      const payments = await givenRemovable(1);
      expect(await ledger.removeSettled(LONG_MS, MANY)).toBe(0);
      expect(await kept(payments)).toHaveLength(1);
    });

    test('2: a payment that is still repeated is kept, and keeps no other', async () => {
      const repeated = oldClaim();
      const final = await givenSettled(ledger, repeated);
      const removable = await givenRemovable(1);
      expect(await ledger.removeSettled(SHORT_MS, MANY)).toBe(1);
      expect(await kept([repeated, ...removable])).toEqual([repeated.key]);
      expect(await ledger.find(repeated.key)).toEqual({ state: 'final', final });
    });

    test('2: a payment that is PROCESSING is kept, alive or abandoned', async () => {
      const alive = oldClaim();
      const abandoned = oldClaim();
      await ledger.abandon(abandoned, 0);
      await untilPast(SHORT_MS);
      expect(await ledger.removeSettled(SHORT_MS, MANY)).toBe(0);
      expect(await ledger.find(alive.key)).toMatchObject({ state: 'under way' });
      expect(await ledger.find(abandoned.key)).toMatchObject({ state: 'abandoned' });
    });

    test('3: several at once remove each row once, and together all of them', async () => {
      const payments = await givenRemovable(20);
      let removed = 0;
      await until('all to be removed', HORIZON_DEADLINE_MS, async () => {
        const each = await Promise.all(Array.from({ length: 4 }, () => ledger.removeSettled(SHORT_MS, 7)));
        removed += each.reduce((sum, count) => sum + count, 0);
        return (await kept(payments)).length === 0;
      });
      expect(removed).toBe(20);
    });

    test('4: a removed key is expired, although the key store has it as generated', async () => {
      const [{ key }] = (await givenRemovable(1)) as [Claim];
      expect(await ledger.removeSettled(SHORT_MS, MANY)).toBe(1);
      // As a key store would have it that was restored from a copy. One that still has the outcome must forget it first.
      await until('the key to be generated', HORIZON_DEADLINE_MS, async () => {
        await keys.issue(key, LONG_MS);
        return (await keys.look(key)).state === 'generated';
      });
      const owner = newOwner();
      const begun = await keys.begin({ key, owner, leaseMs: LONG_MS, fingerprint: '100.50 USD' });
      if (begun.state !== 'taken') throw new Error(`begin was answered '${begun.state}'`);
      expect(await ledger.claim(claimAttempt({ key, owner, claimBy: begun.claimBy }))).toEqual({ state: 'expired' });
      expect(await ledger.find(key)).toEqual({ state: 'absent' });
    });

    test('4: an old key that never had a row is expired too, in time or late', async () => {
      const [first, second] = unused.splice(0, 2);
      expect(await ledger.claim(claimAttempt({ key: first as string }))).toEqual({ state: 'expired' });
      const late = claimAttempt({ key: second as string, claimBy: performance.now() - SHORT_MS });
      expect(await ledger.claim(late)).toEqual({ state: 'expired' });
      expect(await ledger.find(first as string)).toEqual({ state: 'absent' });
    });

    test('4: a longer retention brings no removed key back', async () => {
      const [payment] = (await givenRemovable(1)) as [Claim];
      expect(await ledger.removeSettled(SHORT_MS, MANY)).toBe(1);
      await ledger.removeSettled(LONG_MS, MANY);
      expect(await ledger.claim(claimAttempt({ key: payment.key }))).toEqual({ state: 'expired' });
    });

    test('5: an old payment that is final is repeated', async () => {
      const claim = oldClaim();
      const final = await givenSettled(ledger, claim);
      expect(await ledger.claim(claimAttempt({ key: claim.key }))).toEqual({ state: 'final', final });
    });

    test('5: an old payment that is abandoned is taken over, and settles', async () => {
      const claim = oldClaim();
      const { key } = claim;
      expect(await ledger.claim(claimAttempt({ key }))).toMatchObject({ state: 'under way' });
      await ledger.abandon(claim, 0);
      const second = await ledger.claim(claimAttempt({ key }));
      if (second.state !== 'taken over') throw new Error(`the claim was answered '${second.state}'`);
      expect(await ledger.settle(second.claim, completed(claim), LONG_MS)).toMatchObject({ state: 'settled' });
    });

    test('6: keys that were generated lately are claimed, also when an old one is refused together with them', async () => {
      const old = unused.pop() as string;
      const claimed = await Promise.all([newKey(), old, newKey()].map((key) => ledger.claim(claimAttempt({ key }))));
      expect(claimed.map(({ state }) => state)).toEqual(['claimed', 'expired', 'claimed']);
    });
  });
}
