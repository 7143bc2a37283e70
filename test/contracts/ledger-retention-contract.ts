import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { KeyStore } from '#idempay/payments/ports/key-store.js';
import type { Ledger } from '#idempay/payments/ports/ledger.js';
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
import { HOUR_MS, passHours, removeOld } from '../../testkit/time/retention-time.js';
import { until } from '../../testkit/time/until.js';
import { untilPast } from '../../testkit/time/until-past.js';

/** Claimed before the horizon passes: none can be afterwards. Each test takes what it needs. */
const CLAIMS = 100;
const RETENTION_MS = 24 * HOUR_MS;
/** After so many hours it is over for what was settled before: with those by which it may be longer. */
const RETENTION_HOURS = 24 + 2;
/** Some deployments let a horizon pass only when no claim can have missed it, seconds after the call that raised it. */
const HORIZON_DEADLINE_MS = 25_000;

/**
 * What every Ledger guarantees of `removeSettled` beyond its types:
 *
 *  1. It removes rows that are final, past their expiry and settled longer ago than the retention; oldest first, and at
 *     most `limit`. Rows that it may not remove hide none behind them.
 *  2. It never removes a row that is PROCESSING, younger, or still repeated.
 *  3. Of any number at once each row is removed by one.
 *  4. The claim of a key whose row was removed is answered 'expired', whatever the key store says of the key; so is that of
 *     any key without a row that was generated as long ago.
 *  5. Rows that are there go on as before, however old their keys: repeats, takeovers, settling.
 *  6. Younger keys are claimed.
 *  7. Ages are the time that was noted, an hour at most with each call, and once however many processes note it: the wall
 *     clock of a process or of the store, however wrong, makes no payment older.
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
      await untilPast(1);
      await passHours(ledger, RETENTION_HOURS);
      await until('the horizon to have passed', HORIZON_DEADLINE_MS, async () => {
        await removeOld(ledger, RETENTION_MS);
        return (await history.find(probe.key)) === undefined;
      });
      claims.pop();
    });
    // What the test before left is not counted by the next one.
    beforeEach(async () => {
      await removeOld(ledger, RETENTION_MS);
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
      await passHours(ledger, RETENTION_HOURS);
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
        dedupMs: 0,
        idempotencyTtlMs: 1,
      } as const;
      await ledger.resolve({ key: resolvedOne.key, owner: newOwner(), ...verdict });
      await untilPast(1);
      await passHours(ledger, RETENTION_HOURS);
      expect(await removeOld(ledger, RETENTION_MS)).toBe(3);
      expect(await kept([completedOne, declinedOne, resolvedOne])).toEqual([]);
      expect(await ledger.find(completedOne.key)).toEqual({ state: 'absent' });
    });

    test('1: a limit is kept, and those settled first go first', async () => {
      const payments = await givenRemovable(5);
      const keysLeft = () => payments.map(({ key }) => key);
      expect(await ledger.removeSettled(RETENTION_MS, 2)).toEqual({ removed: 2, more: true });
      expect(await kept(payments)).toEqual(keysLeft().slice(2));
      expect(await ledger.removeSettled(RETENTION_MS, 2)).toEqual({ removed: 2, more: true });
      expect(await kept(payments)).toEqual(keysLeft().slice(4));
      expect(await ledger.removeSettled(RETENTION_MS, 2)).toEqual({ removed: 1, more: false });
      expect(await ledger.removeSettled(RETENTION_MS, 2)).toEqual({ removed: 0, more: false });
    });

    /** Bug: ten that were repeated for long, for each that was asked for, ended the removal for ever. */
    test('1: payments that are still repeated hide none that were settled after them', async () => {
      const repeated = oldClaims(12);
      for (const claim of repeated) await givenSettled(ledger, claim);
      await untilPast(1);
      const removable = await givenRemovable(1);
      let removed = 0;
      for (let more = true; more; ) {
        const round = await ledger.removeSettled(RETENTION_MS, 1);
        removed += round.removed;
        more = round.more;
      }
      expect(removed).toBe(1);
      expect(await kept([...repeated, ...removable])).toEqual(repeated.map(({ key }) => key));
    });

    test('2: a payment that was settled lately is kept', async () => {
      const payments = await givenRemovable(1);
      expect(await removeOld(ledger, RETENTION_MS + 24 * HOUR_MS)).toBe(0);
      expect(await kept(payments)).toHaveLength(1);
    });

    test('2: a payment that is still repeated is kept, and keeps no other', async () => {
      const repeated = oldClaim();
      const final = await givenSettled(ledger, repeated);
      const removable = await givenRemovable(1);
      expect(await removeOld(ledger, RETENTION_MS)).toBe(1);
      expect(await kept([repeated, ...removable])).toEqual([repeated.key]);
      expect(await ledger.find(repeated.key)).toEqual({ state: 'final', final });
    });

    test('2: a payment that is PROCESSING is kept, alive or abandoned', async () => {
      const alive = oldClaim();
      const abandoned = oldClaim();
      await ledger.abandon(abandoned, 0);
      await passHours(ledger, RETENTION_HOURS);
      expect(await removeOld(ledger, RETENTION_MS)).toBe(0);
      expect(await ledger.find(alive.key)).toMatchObject({ state: 'under way' });
      expect(await ledger.find(abandoned.key)).toMatchObject({ state: 'abandoned' });
    });

    test('3: several at once remove each row once, and together all of them', async () => {
      const payments = await givenRemovable(20);
      let removed = 0;
      await until('all to be removed', HORIZON_DEADLINE_MS, async () => {
        const each = await Promise.all(Array.from({ length: 4 }, () => ledger.removeSettled(RETENTION_MS, 7)));
        removed += each.reduce((sum, round) => sum + round.removed, 0);
        return (await kept(payments)).length === 0;
      });
      expect(removed).toBe(20);
    });

    test('4: a removed key is expired, although the key store has it as generated', async () => {
      const [{ key }] = (await givenRemovable(1)) as [Claim];
      expect(await removeOld(ledger, RETENTION_MS)).toBe(1);
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
      expect(await removeOld(ledger, RETENTION_MS)).toBe(1);
      await removeOld(ledger, RETENTION_MS + 24 * HOUR_MS);
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

    test('7: an hour counts once, however many processes saw it, and no more of one call', async () => {
      const { seenMs } = await passHours(ledger, 0);
      const lowestKeyMs = Date.now();
      const note = (sinceMs: number, elapsedMs: number) => ledger.noteElapsed({ sinceMs, elapsedMs, lowestKeyMs });
      await Promise.all(Array.from({ length: 5 }, () => note(seenMs, HOUR_MS)));
      expect(await passHours(ledger, 0)).toMatchObject({ seenMs: seenMs + HOUR_MS });
      // One that stood still for a day, and one that saw less than was noted.
      expect(await note(seenMs + HOUR_MS, 24 * HOUR_MS)).toMatchObject({ seenMs: seenMs + 2 * HOUR_MS });
      expect(await note(seenMs, HOUR_MS)).toMatchObject({ seenMs: seenMs + 2 * HOUR_MS });
      // One that knew another store, or this one before it was restored.
      expect(await note(seenMs + 100 * HOUR_MS, HOUR_MS)).toMatchObject({ seenMs: seenMs + 2 * HOUR_MS });
    });

    test('7: a process whose clock is far ahead makes no payment older, and no good key is refused', async () => {
      const claim = oldClaim();
      await givenSettled(ledger, claim, { ttlMs: 1 });
      const unpaid = newKey();
      const { seenMs } = await passHours(ledger, 0);
      const inTwoMonths = Date.now() + 60 * 24 * HOUR_MS;
      let sinceMs = seenMs;
      for (let hour = 0; hour < 10; hour += 1) {
        const time = await ledger.noteElapsed({ sinceMs, elapsedMs: HOUR_MS, lowestKeyMs: inTwoMonths });
        sinceMs = time.seenMs;
        await removeOld(ledger, RETENTION_MS);
      }
      expect(await kept([claim])).toHaveLength(1);
      expect(await ledger.claim(claimAttempt({ key: unpaid }))).toMatchObject({ state: 'claimed' });
    });
  });
}
