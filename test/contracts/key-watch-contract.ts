import { expect, test } from 'vitest';
import type { LookResult, Watch } from '#idempay/payments/ports/key-store.js';
import { LONG_MS, newKey, newOwner, SHORT_MS } from '../../testkit/protocol/payment-attempts.js';
import { paymentSteps, untilTold } from '../../testkit/protocol/payment-steps.js';
import type { ContractPorts } from '../../testkit/protocol/ports.js';

/**
 * What every KeyStore guarantees of `watch`, as long as no announcement is lost. A watch is of the lock that it found: what
 * follows a lock that died may be announced to nobody, until it is watched.
 */
export function keyWatchContract(ports: ContractPorts): void {
  const { keys, pass } = ports;
  const { begin, issuedKey, lockedKey, settledKey, watching } = paymentSteps(ports);

  /** A key that is locked, and a watch of it. */
  async function watchedLock(leaseMs = LONG_MS) {
    const locked = await lockedKey(leaseMs);
    return { ...locked, watch: await watching(locked.key) };
  }

  test('1: a watch finds what a look finds', async () => {
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

  test('1: watching takes no lock, keeps no owner from its own, and lengthens the life of neither lock nor record', async () => {
    const [key, short, owner] = [await issuedKey(), await issuedKey(SHORT_MS), newOwner()];
    for (const each of [key, short]) await watching(each);
    expect(await begin(key, owner, SHORT_MS)).toMatchObject({ state: 'taken' });
    await watching(key);
    expect(await begin(key, owner, SHORT_MS)).toMatchObject({ state: 'taken' });
    await pass(SHORT_MS);
    expect((await watching(key)).looked).toEqual({ state: 'generated' });
    expect((await watching(short)).looked).toEqual({ state: 'absent' });
  });

  test('2: a finish by the owner is announced once, and then the final value is found', async () => {
    const { key, owner, watch } = await watchedLock();
    const final = await settledKey(key);
    const told = new Promise<LookResult>((resolve, reject) => {
      keys.watch(key, () => keys.look(key).then(resolve, reject)).catch(reject);
    });
    await watching(key);
    await keys.finish(key, owner, final);
    expect(await told).toEqual({ state: 'final', final });
    await untilTold(watch);
    expect(watch.told()).toBe(1);
  });

  test('2: of many keys that are watched at once a release is told to all watches of its own', async () => {
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
    const { key, watch } = await watchedLock();
    await keys.finish(key, newOwner(), await settledKey(key));
    await untilTold(watch);
    expect(await keys.look(key)).toMatchObject({ state: 'locked' });
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
    const final = await settledKey(key);
    await pass(SHORT_MS);
    await keys.finish(key, owner, final);
    expect((await watching(key)).looked).toEqual({ state: 'final', final });
  });
}
