import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { KeyStore, LookResult, Watch } from '#idempay/payments/ports/key-store.js';
import type { Ledger } from '#idempay/payments/ports/ledger.js';
import type { FinalOutcome } from '#idempay/payments/values/payment.js';
import {
  givenClaim,
  givenSettled,
  LONG_MS,
  newKey,
  newOwner,
  SHORT_MS,
} from '../../testkit/protocol/payment-attempts.js';
import type { OpenPorts, Ports } from '../../testkit/protocol/ports.js';
import { until } from '../../testkit/time/until.js';
import { untilPast } from '../../testkit/time/until-past.js';

const DEADLINE_MS = 10_000;

/**
 * What every KeyStore guarantees of `watch`, as long as no announcement is lost:
 *
 * 1. `watch` finds what `look` finds, takes nothing, and lengthens neither a lock's life nor a record's.
 * 2. The end of a lock that a watch found is told to everybody who watches the key: when its owner finishes or releases
 *    it. Who is told finds the lock gone.
 * 3. A finish by another owner is told as well, though the lock stands; a release by another owner is not.
 * 4. After `unwatch` nothing is told any more.
 * 5. A watch is of the lock that it found: what follows a lock that died may be told to nobody, until it is watched.
 */
export function describeKeyWatchContract(name: string, open: OpenPorts): void {
  describe(`the key watch contract (${name})`, () => {
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

    async function settled(key: string): Promise<FinalOutcome> {
      return givenSettled(ledger, await givenClaim(ledger, { key }));
    }

    async function watching(key: string): Promise<Watch & { told(): number }> {
      let told = 0;
      const watch = await keys.watch(key, () => {
        told += 1;
      });
      return { ...watch, told: () => told };
    }

    function untilTold(...watches: { told(): number }[]): Promise<unknown> {
      return until('everybody who watches to be told', DEADLINE_MS, () => watches.every(({ told }) => told() > 0));
    }

    test('1: a watch finds what a look finds', async () => {
      const key = newKey();
      expect((await watching(key)).looked).toEqual({ state: 'absent' });
      await keys.issue(key, LONG_MS);
      expect((await watching(key)).looked).toEqual({ state: 'generated' });
      const owner = newOwner();
      await begin(key, owner, LONG_MS, '7.00 EUR');
      expect((await watching(key)).looked).toMatchObject({ state: 'locked', fingerprint: '7.00 EUR' });
      const final = await settled(key);
      await keys.finish(key, owner, final);
      expect((await watching(key)).looked).toEqual({ state: 'final', final });
    });

    test('1: watching takes no lock, and does not keep the owner from its own', async () => {
      const key = await issuedKey();
      await watching(key);
      const owner = newOwner();
      expect(await begin(key, owner)).toMatchObject({ state: 'taken' });
      await watching(key);
      expect(await begin(key, owner)).toMatchObject({ state: 'taken' });
      expect(await begin(key)).toMatchObject({ state: 'locked' });
    });

    test('1: watching lengthens the life of neither a lock nor a record', async () => {
      const [locked, short] = [await issuedKey(), await issuedKey(SHORT_MS)];
      await begin(locked, newOwner(), SHORT_MS);
      await Promise.all([watching(locked), watching(short)]);
      await untilPast(SHORT_MS);
      expect((await watching(locked)).looked).toEqual({ state: 'generated' });
      expect((await watching(short)).looked).toEqual({ state: 'absent' });
    });

    test('2: a finish by the owner is told once, and then the final value is found', async () => {
      const key = await issuedKey();
      const owner = newOwner();
      await begin(key, owner);
      const final = await settled(key);
      const told = new Promise<LookResult>((resolve, reject) => {
        keys.watch(key, () => keys.look(key).then(resolve, reject)).catch(reject);
      });
      const watch = await watching(key);
      await keys.finish(key, owner, final);
      expect(await told).toEqual({ state: 'final', final });
      expect(watch.told()).toBe(1);
    });

    test('2: a release by the owner is told, and then the key can be begun', async () => {
      const key = await issuedKey();
      const owner = newOwner();
      await begin(key, owner);
      const watch = await watching(key);
      await keys.release(key, owner);
      await untilTold(watch);
      expect(await begin(key)).toMatchObject({ state: 'taken' });
    });

    test('2: all watches of a key are told, and no watch of another key', async () => {
      const [key, other] = [await issuedKey(), await issuedKey()];
      const owner = newOwner();
      await begin(key, owner);
      await begin(other);
      const watchOfOther = await watching(other);
      const watches = await Promise.all(Array.from({ length: 100 }, () => watching(key)));
      await keys.release(key, owner);
      await untilTold(...watches);
      expect(watchOfOther.told()).toBe(0);
    });

    test('2: of a hundred keys that are watched at once each is told of its own end', async () => {
      const owner = newOwner();
      const watches = await Promise.all(
        Array.from({ length: 100 }, async () => {
          const key = await issuedKey();
          await begin(key, owner);
          return { key, ...(await watching(key)) };
        }),
      );
      const [first, ...others] = watches;
      if (!first) throw new Error('there is no first watch');
      await keys.release(first.key, owner);
      await untilTold(first);
      expect(others.filter(({ told }) => told() > 0)).toEqual([]);
      await Promise.all(others.map(({ key }) => keys.release(key, owner)));
      await untilTold(...others);
    });

    test('3: a release by another owner is not told', async () => {
      const key = await issuedKey();
      const owner = newOwner();
      await begin(key, owner);
      const watch = await watching(key);
      await keys.release(key, newOwner());
      expect(await keys.look(key)).toMatchObject({ state: 'locked' });
      // What comes after it on the same way would come after its announcement.
      await keys.release(key, owner);
      await untilTold(watch);
      expect(watch.told()).toBe(1);
    });

    test('3: a finish by another owner is told, and the lock stands', async () => {
      const key = await issuedKey();
      const owner = newOwner();
      await begin(key, owner);
      const final = await settled(key);
      const watch = await watching(key);
      await keys.finish(key, newOwner(), final);
      await untilTold(watch);
      expect(await keys.look(key)).toMatchObject({ state: 'locked' });
      expect(await begin(key, owner)).toEqual({ state: 'final', final });
    });

    test('4: after unwatch nothing is told, and the other watches of the key still are', async () => {
      const key = await issuedKey();
      const owner = newOwner();
      await begin(key, owner);
      const [ended, endedTwice, watch] = await Promise.all([watching(key), watching(key), watching(key)]);
      ended.unwatch();
      endedTwice.unwatch();
      endedTwice.unwatch();
      await keys.release(key, owner);
      await untilTold(watch);
      expect([ended.told(), endedTwice.told()]).toEqual([0, 0]);
    });

    test('4: who is told may end every watch of the key, and watch anew', async () => {
      const key = await issuedKey();
      const owner = newOwner();
      await begin(key, owner);
      const watches: Watch[] = [];
      let told = 0;
      let anew: Promise<Watch & { told(): number }> | undefined;
      const onEnd = () => {
        told += 1;
        for (const watch of watches) watch.unwatch();
        anew ??= watching(key);
      };
      watches.push(await keys.watch(key, onEnd), await keys.watch(key, onEnd));
      await keys.release(key, owner);
      await until('one of them to be told', DEADLINE_MS, () => told > 0);
      expect(told).toBe(1);
      expect((await anew)?.told()).toBe(0);
    });

    test('5: after a lock that died, the lock of the next owner is watched anew and its end is told', async () => {
      const key = await issuedKey();
      await begin(key, newOwner(), SHORT_MS);
      const early = await watching(key);
      await untilPast(SHORT_MS);
      const owner = newOwner();
      expect(await begin(key, owner)).toMatchObject({ state: 'taken' });
      early.unwatch();
      const watch = await watching(key);
      expect(watch.looked).toMatchObject({ state: 'locked' });
      await keys.release(key, owner);
      await untilTold(watch);
      expect(early.told()).toBe(0);
    });

    test('5: a finish after the lock died may be told to nobody, but the next watch finds the final value', async () => {
      const key = await issuedKey();
      const owner = newOwner();
      await begin(key, owner, SHORT_MS);
      await watching(key);
      const final = await settled(key);
      await untilPast(SHORT_MS);
      await keys.finish(key, owner, final);
      expect((await watching(key)).looked).toEqual({ state: 'final', final });
    });
  });
}
