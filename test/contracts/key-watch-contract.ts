import { describe, expect, test } from 'vitest';
import type { LookResult, Watch } from '#idempay/payments/ports/key-store.js';
import { inState, LONG_MS, newKey, newOwner, SHORT_MS } from '../../testkit/protocol/payment-attempts.js';
import { paymentSteps } from '../../testkit/protocol/payment-steps.js';
import type { ContractPorts } from '../../testkit/protocol/ports.js';
import { until } from '../../testkit/time/until.js';

const DEADLINE_MS = 10_000;

/**
 * What every KeyStore guarantees of `watch`, as long as no announcement is lost:
 *
 * 1. `watch` finds what `look` finds, takes nothing, and lengthens neither a lock's life nor a record's.
 * 2. The end of a lock that a watch found is announced to every watch of the key: when its owner finishes or releases it.
 *    A look after the announcement finds the lock gone.
 * 3. A finish by another owner is announced as well, though the lock stands; a release by another owner is not.
 * 4. After `unwatch` nothing is announced any more.
 * 5. A watch is of the lock that it found: what follows a lock that died may be announced to nobody, until it is watched.
 */
export function describeKeyWatchContract(ports: ContractPorts): void {
  describe('the key watch contract', () => {
    const { keys, pass } = ports;
    const given = paymentSteps(ports);
    const { begin } = given;
    const settled = async (key: string) => given.settled(await given.claim({ key }));

    async function watching(key: string): Promise<Watch & { told(): number }> {
      let told = 0;
      const watch = await keys.watch(key, () => {
        told += 1;
      });
      return { ...watch, told: () => told };
    }

    /** A key that is locked, and a watch of it. */
    async function watchedLock(leaseMs = LONG_MS) {
      const key = await given.issuedKey();
      const owner = newOwner();
      inState(await begin(key, owner, leaseMs), 'taken');
      return { key, owner, watch: await watching(key) };
    }

    function untilTold(...watches: { told(): number }[]): Promise<unknown> {
      return until('every watch to be told', DEADLINE_MS, () => watches.every(({ told }) => told() > 0));
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
      const key = await given.issuedKey();
      await watching(key);
      const owner = newOwner();
      expect(await begin(key, owner)).toMatchObject({ state: 'taken' });
      await watching(key);
      expect(await begin(key, owner)).toMatchObject({ state: 'taken' });
      expect(await begin(key)).toMatchObject({ state: 'locked' });
    });

    test('1: watching lengthens the life of neither a lock nor a record', async () => {
      const [{ key: locked }, short] = [await watchedLock(SHORT_MS), await given.issuedKey(SHORT_MS)];
      await watching(short);
      await pass(SHORT_MS);
      expect((await watching(locked)).looked).toEqual({ state: 'generated' });
      expect((await watching(short)).looked).toEqual({ state: 'absent' });
    });

    test('2: a finish by the owner is announced once, and then the final value is found', async () => {
      const { key, owner, watch } = await watchedLock();
      const final = await settled(key);
      const told = new Promise<LookResult>((resolve, reject) => {
        keys.watch(key, () => keys.look(key).then(resolve, reject)).catch(reject);
      });
      await watching(key);
      await keys.finish(key, owner, final);
      expect(await told).toEqual({ state: 'final', final });
      await untilTold(watch);
      expect(watch.told()).toBe(1);
    });

    test('2: a release by the owner is announced, and then the key can be begun', async () => {
      const { key, owner, watch } = await watchedLock();
      await keys.release(key, owner);
      await untilTold(watch);
      expect(await begin(key)).toMatchObject({ state: 'taken' });
    });

    test('2: all watches of a key are told, and no watch of another key', async () => {
      const [{ key, owner }, other] = [await watchedLock(), await watchedLock()];
      const watches = await Promise.all(Array.from({ length: 100 }, () => watching(key)));
      await keys.release(key, owner);
      await untilTold(...watches);
      expect(other.watch.told()).toBe(0);
    });

    test('2: of a hundred keys that are watched at once each is told of its own end', async () => {
      const [first, ...others] = await Promise.all(Array.from({ length: 100 }, () => watchedLock()));
      if (!first) throw new Error('there is no first watch');
      await keys.release(first.key, first.owner);
      await untilTold(first.watch);
      expect(others.filter(({ watch }) => watch.told() > 0)).toEqual([]);
      await Promise.all(others.map(({ key, owner }) => keys.release(key, owner)));
      await untilTold(...others.map(({ watch }) => watch));
    });

    test('3: a release by another owner is not announced', async () => {
      const { key, owner, watch } = await watchedLock();
      await keys.release(key, newOwner());
      expect(await keys.look(key)).toMatchObject({ state: 'locked' });
      // What comes after it on the same way would come after its announcement.
      await keys.release(key, owner);
      await untilTold(watch);
      expect(watch.told()).toBe(1);
    });

    test('3: a finish by another owner is announced, and the lock stands', async () => {
      const { key, owner, watch } = await watchedLock();
      const final = await settled(key);
      await keys.finish(key, newOwner(), final);
      await untilTold(watch);
      expect(await keys.look(key)).toMatchObject({ state: 'locked' });
      expect(await begin(key, owner)).toEqual({ state: 'final', final });
    });

    test('4: after unwatch nothing is announced, and the other watches of the key are still told', async () => {
      const { key, owner, watch } = await watchedLock();
      const [ended, endedTwice] = await Promise.all([watching(key), watching(key)]);
      for (const { unwatch } of [ended, endedTwice, endedTwice]) unwatch();
      await keys.release(key, owner);
      await untilTold(watch);
      expect([ended.told(), endedTwice.told()]).toEqual([0, 0]);
    });

    test('4: an announcement may end every watch of the key, and watch anew', async () => {
      const { key, owner } = await watchedLock();
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
      await until('one of them to be told', DEADLINE_MS, () => told > 0);
      expect(told).toBe(1);
      expect((await anew)?.told()).toBe(0);
    });

    test('5: after a lock that died, the lock of the next owner is watched anew and its end is announced', async () => {
      const { key, watch: early } = await watchedLock(SHORT_MS);
      await pass(SHORT_MS);
      const owner = newOwner();
      expect(await begin(key, owner)).toMatchObject({ state: 'taken' });
      early.unwatch();
      const watch = await watching(key);
      expect(watch.looked).toMatchObject({ state: 'locked' });
      await keys.release(key, owner);
      await untilTold(watch);
      expect(early.told()).toBe(0);
    });

    test('5: a finish after the lock died may be announced to nobody, but the next watch finds the final value', async () => {
      const { key, owner } = await watchedLock(SHORT_MS);
      const final = await settled(key);
      await pass(SHORT_MS);
      await keys.finish(key, owner, final);
      expect((await watching(key)).looked).toEqual({ state: 'final', final });
    });
  });
}
