import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { KeyStore } from '#idempay/payments/ports/key-store.js';
import type { Ledger } from '#idempay/payments/ports/ledger.js';
import type { FinalOutcome, Outcome } from '#idempay/payments/values/payment.js';
import {
  givenClaim,
  givenSettled,
  LONG_MS,
  newKey,
  newOwner,
  SHORT_MS,
} from '../../testkit/protocol/payment-attempts.js';
import type { OpenPorts, Ports } from '../../testkit/protocol/ports.js';
import { STEP_MS, SteppingClock } from '../../testkit/time/stepping-clock.js';
import { untilPast } from '../../testkit/time/until-past.js';

/**
 * What every KeyStore guarantees beyond its types:
 *
 *  1. A key is known from `issue` on, and only then; a begin that finds no record takes nothing.
 *  2. One lock per key: of any number of begins at once exactly one is taken; the others learn of the attempt that holds it.
 *  3. A second begin by the same owner is taken again: a command sent twice does not meet itself.
 *  4. Only its owner releases a lock, and nothing lengthens it.
 *  5. A lock whose lease has died is free, and what its old owner does then leaves the new lock alone.
 *  6. `finish` gives the record its final value whatever the lock says, and deletes the lock only if it is the owner's.
 *  7. Locked comes before final (spec 4.1, rules 2 to 4).
 *  8. A record is refused once its life is over, whether generated or final.
 *  9. `look` answers what `begin` would find, and takes nothing.
 * 10. `claimBy` is not after the end of the lease, which began when the question was asked, nor needlessly early.
 * 11. Issuing, finishing and releasing twice is the same as once.
 *
 * Only what was settled is finished, as the protocol does: a deployment may write the record's value where it settles.
 */
export function describeKeyStoreContract(name: string, open: OpenPorts): void {
  describe(`the key store contract (${name})`, () => {
    let ports: Ports;
    let keys: KeyStore;
    let ledger: Ledger;

    beforeAll(async () => {
      ports = await open();
      ({ keys, ledger } = ports);
    });
    afterAll(() => ports.close());

    async function issuedKey(ttlMs = LONG_MS): Promise<string> {
      const key = newKey();
      await keys.issue(key, ttlMs);
      return key;
    }

    function begin(key: string, owner = newOwner(), leaseMs = LONG_MS, fingerprint = '100.50 USD') {
      return keys.begin({ key, owner, leaseMs, fingerprint });
    }

    /** The lock's remaining life; fails when there is none. */
    async function remainingMs(key: string): Promise<number> {
      const looked = await keys.look(key);
      if (looked.state !== 'locked') throw new Error(`the key is '${looked.state}', not locked`);
      return looked.remainingMs;
    }

    async function settled(key: string, ending: { outcome?: Outcome; ttlMs?: number } = {}): Promise<FinalOutcome> {
      return givenSettled(ledger, await givenClaim(ledger, { key }), ending);
    }

    test('1: an issued key is generated, and its first begin is taken', async () => {
      const key = await issuedKey();
      expect(await keys.look(key)).toMatchObject({ state: 'generated' });
      expect(await begin(key)).toMatchObject({ state: 'taken' });
    });

    test('1: a key that was never issued is absent, and beginning on it leaves no lock behind', async () => {
      const key = newKey();
      expect(await begin(key)).toMatchObject({ state: 'absent' });
      expect(await keys.look(key)).toMatchObject({ state: 'absent' });
      await keys.issue(key, LONG_MS);
      expect(await begin(key)).toMatchObject({ state: 'taken' });
    });

    test('2: of a hundred begins at once exactly one is taken, and the others are told it is locked', async () => {
      const key = await issuedKey();
      const begun = await Promise.all(Array.from({ length: 100 }, () => begin(key)));
      expect(begun.filter(({ state }) => state === 'taken')).toHaveLength(1);
      expect(begun.filter(({ state }) => state === 'locked')).toHaveLength(99);
    });

    test('2: the locked answer tells the fingerprint of the attempt that holds the lock, and how long it has and had it', async () => {
      const key = await issuedKey();
      await begin(key, newOwner(), LONG_MS, '7.00 EUR');
      await untilPast(SHORT_MS);
      const locked = await begin(key, newOwner(), LONG_MS, '9.00 CHF');
      if (locked.state !== 'locked') throw new Error(`the second begin was answered '${locked.state}'`);
      expect(locked.fingerprint).toBe('7.00 EUR');
      expect(locked.heldMs).toBeGreaterThanOrEqual(SHORT_MS);
      expect(locked.heldMs).toBeLessThan(LONG_MS / 2);
      expect(locked.remainingMs).toBeLessThanOrEqual(LONG_MS - SHORT_MS);
      expect(locked.remainingMs).toBeGreaterThan(LONG_MS / 2);
    });

    test('2: the locks of two keys know nothing of each other', async () => {
      const [one, other] = [await issuedKey(), await issuedKey()];
      await begin(one);
      expect(await begin(other)).toMatchObject({ state: 'taken' });
    });

    test('3: a second begin by the same owner is taken again, and others still find it locked', async () => {
      const key = await issuedKey();
      const owner = newOwner();
      await begin(key, owner);
      expect(await begin(key, owner)).toMatchObject({ state: 'taken' });
      expect(await begin(key)).toMatchObject({ state: 'locked' });
    });

    test('4: the owner releases its lock, and the key can be begun again', async () => {
      const key = await issuedKey();
      const owner = newOwner();
      await begin(key, owner);
      await keys.release(key, owner);
      expect(await keys.look(key)).toMatchObject({ state: 'generated' });
      expect(await begin(key)).toMatchObject({ state: 'taken' });
    });

    test('4: a release by another owner leaves the lock', async () => {
      const key = await issuedKey();
      await begin(key);
      await keys.release(key, newOwner());
      expect(await begin(key)).toMatchObject({ state: 'locked' });
    });

    test('5: a lock whose lease has died is free for another owner', async () => {
      const key = await issuedKey();
      await begin(key, newOwner(), SHORT_MS);
      await untilPast(SHORT_MS);
      expect(await keys.look(key)).toMatchObject({ state: 'generated' });
      expect(await begin(key)).toMatchObject({ state: 'taken' });
    });

    test('5: the old owner of a lock that died does not release the new one', async () => {
      const key = await issuedKey();
      const old = newOwner();
      await begin(key, old, SHORT_MS);
      await untilPast(SHORT_MS);
      await begin(key, newOwner(), LONG_MS);
      await keys.release(key, old);
      expect(await remainingMs(key)).toBeLessThanOrEqual(LONG_MS);
    });

    test('6: finish gives the final value and deletes the lock of its owner', async () => {
      const key = await issuedKey();
      const owner = newOwner();
      await begin(key, owner);
      const final = await settled(key);
      await keys.finish(key, owner, final);
      expect(await begin(key)).toEqual({ state: 'final', final });
    });

    test('6: a declined payment keeps its reason and its fingerprint', async () => {
      const key = await issuedKey();
      const final = await settled(key, { outcome: { state: 'DECLINED', reason: 'no funds' } });
      await keys.finish(key, newOwner(), final);
      expect(await keys.look(key)).toEqual({ state: 'final', final });
      expect(final).toMatchObject({ outcome: { state: 'DECLINED', reason: 'no funds' }, fingerprint: '100.50 USD' });
    });

    test('6: finish gives the final value to a record that was never there or is forgotten', async () => {
      const key = newKey();
      const final = await settled(key);
      await keys.finish(key, newOwner(), final);
      expect(await keys.look(key)).toEqual({ state: 'final', final });
    });

    test('6, 7: finish by another owner leaves the lock, which is answered first; once it is gone the value is there', async () => {
      const key = await issuedKey();
      const holder = newOwner();
      await begin(key, holder);
      const final = await settled(key);
      await keys.finish(key, newOwner(), final);
      expect(await begin(key)).toMatchObject({ state: 'locked' });
      expect(await begin(key, holder)).toEqual({ state: 'final', final });
      await keys.release(key, holder);
      expect(await begin(key)).toEqual({ state: 'final', final });
    });

    test('8: a generated record is absent once its life is over', async () => {
      const key = await issuedKey(SHORT_MS);
      await untilPast(SHORT_MS);
      expect(await keys.look(key)).toMatchObject({ state: 'absent' });
      expect(await begin(key)).toMatchObject({ state: 'absent' });
    });

    test('8: a final record is absent once its own life is over, however long the key had left', async () => {
      const key = await issuedKey(LONG_MS);
      const final = await settled(key, { ttlMs: SHORT_MS });
      await keys.finish(key, newOwner(), final);
      await untilPast(SHORT_MS);
      expect(await keys.look(key)).toMatchObject({ state: 'absent' });
      expect(await begin(key)).toMatchObject({ state: 'absent' });
    });

    test('8: a final record lives on after the key itself would have expired', async () => {
      const key = await issuedKey(SHORT_MS);
      const final = await settled(key, { ttlMs: LONG_MS });
      await keys.finish(key, newOwner(), final);
      await untilPast(SHORT_MS);
      expect(await begin(key)).toEqual({ state: 'final', final });
    });

    test('9: looking does not take the lock', async () => {
      const key = await issuedKey();
      await keys.look(key);
      expect(await keys.look(key)).toMatchObject({ state: 'generated' });
      expect(await begin(key)).toMatchObject({ state: 'taken' });
    });

    test('9: looking at a locked key tells the attempt that holds it, to anybody', async () => {
      const key = await issuedKey();
      await begin(key, newOwner(), LONG_MS, '7.00 EUR');
      expect(await keys.look(key)).toMatchObject({ state: 'locked', fingerprint: '7.00 EUR' });
    });

    test('10: claimBy is a lease after the moment before the question, however late the reply', async () => {
      const clock = new SteppingClock();
      const slow = await open({ clock });
      try {
        const key = newKey();
        await slow.keys.issue(key, 10 * LONG_MS);
        const askedAt = clock.startStepping();
        const begun = await slow.keys.begin({ key, owner: newOwner(), leaseMs: LONG_MS, fingerprint: '1.00 USD' });
        const answeredAt = clock.monotonic();
        if (begun.state !== 'taken') throw new Error(`begin was answered '${begun.state}'`);
        // The store may start the lease as soon as it is asked, and the reply came at least one step later.
        expect(begun.claimBy).toBeLessThan(askedAt + STEP_MS + LONG_MS);
        expect(begun.claimBy).toBeGreaterThan(askedAt + LONG_MS / 2);
        expect(answeredAt).toBeGreaterThan(askedAt + STEP_MS);
      } finally {
        await slow.close();
      }
    });

    test('11: an issue that is sent twice neither unlocks a key nor takes a final value back', async () => {
      const key = await issuedKey();
      const owner = newOwner();
      await begin(key, owner);
      await keys.issue(key, LONG_MS);
      expect(await begin(key)).toMatchObject({ state: 'locked' });
      const final = await settled(key);
      await keys.finish(key, owner, final);
      await keys.issue(key, LONG_MS);
      expect(await keys.look(key)).toEqual({ state: 'final', final });
    });

    test('11: finishing and releasing twice is the same as once', async () => {
      const key = await issuedKey();
      const owner = newOwner();
      await begin(key, owner);
      const final = await settled(key);
      await keys.finish(key, owner, final);
      await keys.finish(key, owner, final);
      await keys.release(key, owner);
      await keys.release(key, owner);
      expect(await keys.look(key)).toEqual({ state: 'final', final });
    });
  });
}
