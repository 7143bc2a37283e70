import { expect, test } from 'vitest';
import type { BeginAttempt, KeyBinding, KeyLookResult, Watch } from '#idempay/payments/ports/key-store.js';
import { systemClock } from '#idempay/platform/clock.js';
import { decorated } from '#idempay/platform/decorated.js';
import {
  DECLINED,
  inState,
  LONG_MS,
  newKey,
  newOwner,
  newReference,
  SHORT_LIFE_MS,
  SHORT_MS,
  type TurnMembers,
  turnsOf,
} from '../../testkit/protocol/payment-attempts.js';
import { paymentSteps, statesAtOnce, untilTold } from '../../testkit/protocol/payment-steps.js';
import type { ContractPorts, OpenPorts } from '../../testkit/protocol/ports.js';

/**
 * Guarantees of every KeyStore beyond its types, and those on `watch` (12 to 16) while no announcement is lost:
 *  1. A key is known from `issue` on, and only then.
 *  2. It has one lock: of begins at once one is taken, and the others learn of the attempt that holds it.
 *  3. A begin by the owner of the lock is taken again. 4. Only its owner releases a lock. 5. A lock whose lease died is free.
 *  6. `finish` gives the value whatever the lock says, and deletes the lock of its owner only. 7. A lock is answered first.
 *  8. A record is absent once its life is over. 9. `look` answers what `begin` would, and takes nothing.
 * 10. `claimBy` is within the lease. 11. Issuing, finishing and releasing twice is the same as once.
 * 12. `watch` finds what `look` finds. 13. The end of the lock that it found is announced to every watch of the key; 14. so is
 *     the finish by another owner, but not its release. 15. After `unwatch` nothing is announced.
 * 16. What follows a lock that died may be announced to nobody, until it is watched. 17. A key of a client is absent for every other.
 * 18. Who names the reference begins on its key without a record, with its client; what is taken, locked or final stays so.
 * 19. A computed key that is issued again keeps its value, and without one lives for as long again. Who begins on it by the key
 *     alone learns its reference; without a client it is absent for every client. 20. `forget` removes the record, and the lock of its
 *     owner alone, whose end it announces.
 * Only what was settled is finished, as the protocol does: a deployment may write the record's value where it settles.
 */
export function keyStoreContract(ports: ContractPorts, open: OpenPorts): void {
  const { keys, pass } = ports;
  const { begin, issuedKey, lockedKey, settledKey, watching, cancelled, claim, settled } = paymentSteps(ports);
  const turn = turnsOf(ports.id);
  const referenced = (client?: string) => {
    const given = turn(newReference(), 1, client === undefined ? {} : { client });
    return { ...given, reference: given.turn.reference };
  };
  /** As a request does that names the reference. */
  function beginNamed({ key, reference, client }: ReturnType<typeof referenced>, members: Partial<BeginAttempt> = {}) {
    const makes = { reference, lifeMs: LONG_MS };
    return keys.begin({ key, owner: newOwner(), leaseMs: LONG_MS, fingerprint: '1.00 USD', client, makes, ...members });
  }

  test('1, 9: a key is absent until it is issued, and looking or beginning on it before leaves no lock behind', async () => {
    const key = newKey();
    expect(await begin(key)).toMatchObject({ state: 'absent' });
    expect(await keys.look(key)).toMatchObject({ state: 'absent' });
    await keys.issue(key, LONG_MS);
    expect(await keys.look(key)).toMatchObject({ state: 'generated' });
    expect(await begin(key)).toMatchObject({ state: 'taken' });
  });

  test('2: of a hundred begins at once exactly one is taken, and the others find the key locked', async () => {
    const [key, other] = [await issuedKey(), await issuedKey()];
    expect(await statesAtOnce(100, async () => begin(key))).toEqual({ taken: 1, locked: 99 });
    expect(await begin(other)).toMatchObject({ state: 'taken' });
  });

  test('2, 9: begin and look tell of a lock the fingerprint of its attempt, and how long it was and will be held', async () => {
    const key = await issuedKey();
    await begin(key, newOwner(), LONG_MS, '7.00 EUR');
    await pass(SHORT_MS);
    for (const answer of [await begin(key, newOwner(), LONG_MS, '9.00 CHF'), await keys.look(key)]) {
      const { fingerprint, heldMs, remainingMs } = inState(answer, 'locked');
      expect(fingerprint).toBe('7.00 EUR');
      expect(heldMs).toBeGreaterThanOrEqual(SHORT_MS);
      expect(heldMs).toBeLessThan(LONG_MS / 2);
      expect(remainingMs).toBeLessThanOrEqual(LONG_MS - SHORT_MS);
      expect(remainingMs).toBeGreaterThan(LONG_MS / 2);
    }
  });

  test('3, 4: its owner begins again and releases the lock, and no other owner does', async () => {
    const { key, owner } = await lockedKey();
    expect(await begin(key, owner)).toMatchObject({ state: 'taken' });
    await keys.release(key, newOwner());
    expect(await begin(key)).toMatchObject({ state: 'locked' });
    await keys.release(key, owner);
    expect(await keys.look(key)).toMatchObject({ state: 'generated' });
    expect(await begin(key)).toMatchObject({ state: 'taken' });
  });

  test('5: a lock whose lease has died is free for another owner, and its old owner does not release the new one', async () => {
    const { key, owner } = await lockedKey(SHORT_MS);
    await pass(SHORT_MS);
    expect(await keys.look(key)).toMatchObject({ state: 'generated' });
    expect(await begin(key)).toMatchObject({ state: 'taken' });
    await keys.release(key, owner);
    expect(inState(await keys.look(key), 'locked').remainingMs).toBeLessThanOrEqual(LONG_MS);
  });

  test('6, 11: finish, once or twice, gives a locked record its final value and deletes the lock of its owner', async () => {
    const { key, owner } = await lockedKey();
    const final = await settledKey(key);
    for (let time = 0; time < 2; time += 1) await keys.finish(key, owner, final);
    expect(await begin(key)).toEqual({ state: 'final', final });
    for (let time = 0; time < 2; time += 1) await keys.release(key, owner);
    expect(await keys.look(key)).toEqual({ state: 'final', final });
  });

  test('6: finish gives the value, with reason and fingerprint, to a record that is not locked or not there', async () => {
    for (const key of [await issuedKey(), newKey()]) {
      const final = await settledKey(key, { outcome: DECLINED });
      await keys.finish(key, newOwner(), final);
      expect(await keys.look(key)).toEqual({ state: 'final', final });
      expect(final).toMatchObject({ outcome: DECLINED, fingerprint: '100.50 USD' });
    }
  });

  test('6, 7: finish by another owner leaves the lock, which is answered first; once it is gone the value is there', async () => {
    const { key, owner } = await lockedKey();
    const final = await settledKey(key);
    await keys.finish(key, newOwner(), final);
    expect(await begin(key)).toMatchObject({ state: 'locked' });
    expect(await begin(key, owner)).toEqual({ state: 'final', final });
    await keys.release(key, owner);
    expect(await begin(key)).toEqual({ state: 'final', final });
  });

  test('8: a record is absent once its life is over, generated or final, however long the key had to live', async () => {
    const [unused, paid, kept] = [await issuedKey(SHORT_MS), await issuedKey(LONG_MS), await issuedKey(SHORT_MS)];
    await keys.finish(paid, newOwner(), await settledKey(paid, { ttlMs: SHORT_MS }));
    const final = await settledKey(kept, { ttlMs: LONG_MS });
    await keys.finish(kept, newOwner(), final);
    await pass(SHORT_MS);
    for (const key of [unused, paid]) {
      expect(await keys.look(key)).toMatchObject({ state: 'absent' });
      expect(await begin(key)).toMatchObject({ state: 'absent' });
    }
    expect(await begin(kept)).toEqual({ state: 'final', final });
  });

  test('10: claimBy is a lease after the moment before the question, however late the reply', async () => {
    let aheadMs = 0;
    const slow = await open({ clock: decorated(systemClock, { monotonic: (next) => () => next() + aheadMs }) });
    try {
      const key = newKey();
      await slow.keys.issue(key, 10 * LONG_MS);
      const askedAt = systemClock.monotonic();
      const asked = paymentSteps(slow).begin(key);
      // The store may start the lease as soon as it is asked; the reply comes that much later.
      aheadMs = 2 * LONG_MS;
      const { claimBy } = inState(await asked, 'taken');
      expect(claimBy).toBeLessThan(askedAt + aheadMs);
      expect(claimBy).toBeGreaterThan(askedAt + LONG_MS / 2);
    } finally {
      await slow.close();
    }
  });

  test('11: an issue that is sent twice neither unlocks a key nor takes a final value back', async () => {
    const { key, owner } = await lockedKey();
    await keys.issue(key, LONG_MS);
    expect(await begin(key)).toMatchObject({ state: 'locked' });
    const final = await settledKey(key);
    await keys.finish(key, owner, final);
    await keys.issue(key, LONG_MS);
    expect(await keys.look(key)).toEqual({ state: 'final', final });
  });

  test('17: in every state a key is absent for another client; its owner and a caller that sees all keys find it with its client', async () => {
    const [client, other] = ['key:shop', 'jwt:shop'];
    const key = newKey();
    await keys.issue(key, LONG_MS, { client });
    const owner = newOwner();
    const attempt = (asker?: string) =>
      keys.begin({ key, owner, leaseMs: LONG_MS, fingerprint: '1.00 USD', ...(asker ? { client: asker } : {}) });
    const expectHidden = async () =>
      expect([await attempt(other), await keys.look(key, other)]).toEqual([{ state: 'absent' }, { state: 'absent' }]);
    await expectHidden();
    expect(await keys.look(key, client)).toEqual({ state: 'generated', client });
    expect(await attempt(client)).toMatchObject({ state: 'taken', client });
    await expectHidden();
    expect(await keys.look(key, client)).toMatchObject({ state: 'locked' });
    expect(await attempt()).toMatchObject({ state: 'taken', client });
    const final = await settledKey(key, undefined, client);
    await keys.finish(key, owner, final);
    await expectHidden();
    for (const asker of [client, undefined]) expect(await keys.look(key, asker)).toEqual({ state: 'final', final });
    expect(final.client).toBe(client);
  });

  test('17: finish hides an outcome from other clients where there was no record', async () => {
    const [key, client] = [newKey(), 'key:shop'];
    const final = await settledKey(key, undefined, client);
    await keys.finish(key, newOwner(), final);
    const asking = { key, owner: newOwner(), leaseMs: LONG_MS, fingerprint: '1.00 USD', client: 'key:rival' };
    expect([await keys.begin(asking), await keys.look(key, 'key:rival')]).toEqual([
      { state: 'absent' },
      { state: 'absent' },
    ]);
    expect(await keys.look(key, client)).toEqual({ state: 'final', final });
  });

  test("17: a key without a client is everybody's, and a lock hides a key of a client whose record is gone", async () => {
    const key = await issuedKey();
    const asking = { key, owner: newOwner(), leaseMs: LONG_MS, fingerprint: '1.00 USD', client: 'key:shop' };
    expect(await keys.begin(asking)).toEqual({ state: 'taken', claimBy: expect.any(Number), client: undefined });
    expect(await keys.look(key, 'jwt:shop')).toMatchObject({ state: 'locked' });
    const forgotten = newKey();
    await keys.issue(forgotten, LONG_MS, { client: 'key:shop' });
    expect(await keys.begin({ ...asking, key: forgotten })).toMatchObject({ state: 'taken' });
    await keys.forget(forgotten, newOwner());
    expect(await keys.look(forgotten, 'jwt:shop')).toEqual({ state: 'absent' });
    expect(await keys.look(forgotten, 'key:shop')).toMatchObject({ state: 'locked' });
  });

  test('18: whoever names the reference takes the lock of its key without a record, with its client, and gives it back', async () => {
    for (const client of ['key:shop', undefined]) {
      const named = referenced(client);
      const { key, reference } = named;
      const [owner, before] = [newOwner(), performance.now()];
      // By the key alone nothing is known of it.
      expect(await begin(key)).toEqual({ state: 'absent' });
      const taken = inState(await beginNamed(named, { owner }), 'taken');
      expect(taken).toEqual({ state: 'taken', claimBy: expect.any(Number), client, reference });
      expect(taken.claimBy).toBeLessThanOrEqual(performance.now() + LONG_MS);
      expect(taken.claimBy).toBeGreaterThan(before + LONG_MS / 2);
      expect(await beginNamed(named, { owner })).toMatchObject({ state: 'taken', reference });
      expect(await beginNamed(named)).toMatchObject({ state: 'locked', fingerprint: '1.00 USD' });
      expect(await keys.look(key)).toMatchObject({ state: 'locked' });
      if (client) expect(await keys.look(key, 'key:rival')).toEqual({ state: 'absent' });
      await keys.release(key, newOwner());
      expect(await beginNamed(named)).toMatchObject({ state: 'locked' });
      await keys.release(key, owner);
      // A deployment may have made a record, or none.
      expect(['generated', 'absent']).toContain((await keys.look(key)).state);
      expect(await beginNamed(named, { leaseMs: SHORT_MS })).toMatchObject({ state: 'taken', reference });
      await pass(SHORT_MS);
      expect(await beginNamed(named)).toMatchObject({ state: 'taken', reference });
    }
  });

  test('18: of a hundred begins that name a reference at once exactly one is taken, and the others find it locked', async () => {
    const named = referenced('key:shop');
    expect(await statesAtOnce(100, async () => beginNamed(named))).toEqual({ taken: 1, locked: 99 });
  });

  test('18: a record that was issued is taken, one that has expired is no obstacle, and what is final is answered', async () => {
    const [issued, expired, paid, forgotten] = [referenced(), referenced(), referenced(), referenced()] as const;
    await keys.issue(issued.key, LONG_MS, issued);
    await keys.issue(expired.key, SHORT_MS, expired);
    for (const named of [paid, forgotten]) await beginNamed(named, { owner: 'first' });
    const final = await settled(await claim(paid), { ttlMs: LONG_MS });
    await keys.finish(paid.key, 'first', final);
    await pass(SHORT_MS);
    expect(await begin(expired.key)).toEqual({ state: 'absent' });
    for (const named of [issued, expired]) expect(await beginNamed(named)).toMatchObject({ state: 'taken' });
    for (const asked of [beginNamed(paid), begin(paid.key), keys.look(paid.key)]) {
      const { outcome, fingerprint } = inState(await asked, 'final').final;
      expect({ outcome, fingerprint }).toEqual({ outcome: final.outcome, fingerprint: final.fingerprint });
    }
    expect(await beginNamed(forgotten)).toMatchObject({ state: 'locked' });
  });

  test('19: a computed key that is issued again lives from then on, and is begun by the key alone with its reference', async () => {
    for (const client of ['key:shop', undefined]) {
      const { key, reference } = referenced(client);
      await keys.issue(key, SHORT_LIFE_MS, { client, reference });
      await keys.issue(key, LONG_MS, { client, reference });
      await pass(SHORT_LIFE_MS);
      expect(await keys.look(key)).toMatchObject({ state: 'generated', reference: { attempt: 1 } });
      const rival = { owner: newOwner(), leaseMs: LONG_MS, fingerprint: '100.50 USD', client: 'key:rival' };
      expect(await keys.begin({ key, ...rival })).toEqual({ state: 'absent' });
      expect(await keys.look(key, 'key:rival')).toEqual({ state: 'absent' });
      expect(await begin(key)).toMatchObject({ state: 'taken', client, reference });
      // A key that is locked stays so.
      await keys.issue(key, LONG_MS, { client, reference });
      expect(await begin(key)).toMatchObject({ state: 'locked' });
    }
    const { key, reference } = referenced();
    await keys.issue(key, SHORT_MS, { reference });
    await pass(SHORT_MS);
    expect(await keys.look(key)).toEqual({ state: 'absent' });
    await keys.issue(key, LONG_MS, { reference });
    expect(await begin(key)).toMatchObject({ state: 'taken', reference });
  });

  test('19: a computed key that was paid keeps its outcome, however often it is issued', async () => {
    const named = referenced();
    await keys.issue(named.key, SHORT_MS, named);
    const final = await settled(await claim(named), { outcome: DECLINED });
    await keys.finish(named.key, newOwner(), final);
    for (let time = 0; time < 2; time += 1) {
      await keys.issue(named.key, LONG_MS, named);
      await pass(SHORT_MS);
      expect(await keys.look(named.key)).toMatchObject({ state: 'final', final: { outcome: DECLINED } });
    }
  });

  test.each<[of: string, arrange: () => Promise<Pick<TurnMembers, 'key'> & Partial<TurnMembers> & KeyBinding>]>([
    ['a generated key', async () => ({ key: await issuedKey() })],
    ['a computed key', async () => referenced('key:shop')],
  ])(
    '20: forget, once or twice, removes the record and the lock of %s that was cancelled, and announces it',
    async (_of, arrange) => {
      const given = await arrange();
      const [{ key }, owner] = [given, newOwner()];
      await keys.issue(key, LONG_MS, given);
      expect(await begin(key, owner)).toMatchObject({ state: 'taken' });
      const watch = await watching(key);
      await cancelled(given);
      for (let time = 0; time < 2; time += 1) await keys.forget(key, owner);
      await untilTold(watch);
      for (const asked of [keys.look(key), begin(key)]) expect(await asked).toEqual({ state: 'absent' });
    },
  );

  test('20: forget by another owner leaves the lock, which is answered first; once it is gone the key is absent', async () => {
    const { key, owner } = await lockedKey();
    await cancelled({ key });
    await keys.forget(key, newOwner());
    expect(await keys.look(key)).toMatchObject({ state: 'locked' });
    await keys.release(key, owner);
    expect(await keys.look(key)).toEqual({ state: 'absent' });
  });

  /** A key that is locked, and a watch of it. */
  async function watchedLock(leaseMs = LONG_MS) {
    const locked = await lockedKey(leaseMs);
    return { ...locked, watch: await watching(locked.key) };
  }

  test('12: a watch finds what a look finds', async () => {
    const key = newKey();
    expect((await watching(key)).looked).toEqual({ state: 'absent' });
    await keys.issue(key, LONG_MS);
    expect((await watching(key)).looked).toEqual({ state: 'generated' });
    const owner = newOwner();
    await begin(key, owner, LONG_MS, '7.00 EUR');
    expect((await watching(key)).looked).toMatchObject({ state: 'locked', fingerprint: '7.00 EUR' });
    const final = await settledKey(key);
    await keys.finish(key, owner, final);
    expect((await watching(key)).looked).toEqual({ state: 'final', final });
  });

  test('12: watching takes no lock, keeps no owner from its own, and lengthens the life of neither lock nor record', async () => {
    const [key, short, owner] = [await issuedKey(), await issuedKey(SHORT_LIFE_MS), newOwner()];
    for (const each of [key, short]) await watching(each);
    expect(await begin(key, owner, SHORT_LIFE_MS)).toMatchObject({ state: 'taken' });
    await watching(key);
    expect(await begin(key, owner, SHORT_LIFE_MS)).toMatchObject({ state: 'taken' });
    await pass(SHORT_LIFE_MS);
    expect((await watching(key)).looked).toEqual({ state: 'generated' });
    expect((await watching(short)).looked).toEqual({ state: 'absent' });
  });

  test('13: a finish by the owner is announced once, and then the final value is found', async () => {
    const { key, owner, watch } = await watchedLock();
    const final = await settledKey(key);
    const told = new Promise<KeyLookResult>((resolve, reject) => {
      keys.watch(key, () => keys.look(key).then(resolve, reject)).catch(reject);
    });
    await watching(key);
    await keys.finish(key, owner, final);
    expect(await told).toEqual({ state: 'final', final });
    await untilTold(watch);
    expect(watch.told()).toBe(1);
  });

  test('13: of many keys that are watched at once a release is told to all watches of its own', async () => {
    const { key, owner, watch } = await watchedLock();
    const others = await Promise.all(Array.from({ length: 99 }, () => watchedLock()));
    const watches = await Promise.all(Array.from({ length: 100 }, () => watching(key)));
    await keys.release(key, owner);
    await Promise.all([watch, ...watches].map(untilTold));
    expect(await begin(key)).toMatchObject({ state: 'taken' });
    expect(others.filter((other) => other.watch.told() > 0)).toEqual([]);
    await Promise.all(others.map((other) => keys.release(other.key, other.owner)));
    await Promise.all(others.map((other) => untilTold(other.watch)));
  });

  test('14: a release by another owner is not announced; a finish by another one is, though the lock stands', async () => {
    const { key, watch } = await watchedLock();
    await keys.release(key, newOwner());
    // A message that comes after it on the same way comes after its announcement.
    await keys.finish(key, newOwner(), await settledKey(key));
    await untilTold(watch);
    expect(watch.told()).toBe(1);
    expect(await keys.look(key)).toMatchObject({ state: 'locked' });
  });

  test('15: after unwatch nothing is announced, and the other watches of the key are still told', async () => {
    const { key, owner, watch } = await watchedLock();
    const [ended, endedTwice] = await Promise.all([watching(key), watching(key)]);
    for (const { unwatch } of [ended, endedTwice, endedTwice]) unwatch();
    await keys.release(key, owner);
    await untilTold(watch);
    expect([ended.told(), endedTwice.told()]).toEqual([0, 0]);
  });

  test('15: an announcement may end every watch of the key, and watch anew', async () => {
    const { key, owner } = await lockedKey();
    const watches: Watch[] = [];
    let told = 0;
    let anew: ReturnType<typeof watching> | undefined;
    const onEnd = () => {
      told += 1;
      for (const { unwatch } of watches) unwatch();
      anew ??= watching(key);
    };
    watches.push(await keys.watch(key, onEnd), await keys.watch(key, onEnd));
    await keys.release(key, owner);
    await untilTold({ told: () => told });
    expect([told, (await anew)?.told()]).toEqual([1, 0]);
  });

  test('16: after a lock that died, the lock of the next owner is watched anew and its end is announced', async () => {
    const { key, watch: early } = await watchedLock(SHORT_LIFE_MS);
    await pass(SHORT_LIFE_MS);
    const owner = newOwner();
    expect(await begin(key, owner)).toMatchObject({ state: 'taken' });
    early.unwatch();
    const watch = await watching(key);
    expect(watch.looked).toMatchObject({ state: 'locked' });
    await keys.release(key, owner);
    await untilTold(watch);
    expect(early.told()).toBe(0);
  });

  test('16: a finish after the lock died may be announced to nobody, but the next watch finds the final value', async () => {
    const { key, owner } = await watchedLock(SHORT_LIFE_MS);
    const final = await settledKey(key);
    await pass(SHORT_LIFE_MS);
    await keys.finish(key, owner, final);
    expect((await watching(key)).looked).toEqual({ state: 'final', final });
  });
}
