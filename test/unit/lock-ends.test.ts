import { setImmediate as nextTurn } from 'node:timers/promises';
import { beforeEach, describe, expect, test } from 'vitest';
import { createLockEnds, type LockEnds } from '#idempay/payments/lock-ends.js';
import type { KeyStore } from '#idempay/payments/ports/key-store.js';
import { decorated } from '#idempay/platform/decorated.js';
import { StoreUnavailable } from '#idempay/platform/faults.js';
import { type FailingPort, failingPort } from '../../testkit/protocol/failing-ports.js';
import { givenClaim, givenSettled, LONG_MS, newKey, newOwner } from '../../testkit/protocol/payment-attempts.js';
import { sharePorts } from '../../testkit/protocol/ports.js';
import { HandClock } from '../../testkit/time/hand-clock.js';

const DOWN = new StoreUnavailable('unchanged', 'the store is down');
const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 10_000;
const LONGEST_MS = 600_000;

const ports = await sharePorts();

/** The clock is the test's; the key store is real. */
describe('an ending that failed', () => {
  let keys: FailingPort<KeyStore>;
  let clock: HandClock;
  let lockEnds: LockEnds;
  let tries: number;
  let key: string;
  let owner: string;

  beforeEach(async () => {
    clock = new HandClock();
    keys = failingPort(ports.keys);
    tries = 0;
    const counted = decorated(keys.port, {
      finish:
        (next) =>
        (...call) => {
          tries += 1;
          return next(...call);
        },
    });
    lockEnds = createLockEnds(counted, clock);
    [key, owner] = [newKey(), newOwner()];
    await ports.keys.issue(key, LONG_MS);
    await ports.keys.begin({ key, owner, leaseMs: LONG_MS, fingerprint: '' });
  });

  async function finish(ofKey = key): Promise<void> {
    const final = await givenSettled(ports.ledger, await givenClaim(ports.ledger, { key: ofKey }));
    await lockEnds.finish(ofKey, owner, final);
  }

  async function untilTried(times: number): Promise<void> {
    await expect.poll(() => tries).toBe(times);
    // The round that tried it ends, and arms the next one.
    await nextTurn();
  }

  const state = async () => (await ports.keys.look(key)).state;

  test('gives the record its value and deletes the lock once the store is back', async () => {
    keys.failAll('finish', DOWN);
    await finish();
    clock.advance(FIRST_PAUSE_MS);
    await untilTried(2);
    expect(await state()).toBe('locked');
    keys.heal();
    clock.advance(2 * FIRST_PAUSE_MS);
    await untilTried(3);
    expect([await state(), clock.pending]).toEqual(['final', 0]);
    // The next one does not wait any longer than the first.
    keys.failAll('finish', DOWN);
    await finish(newKey());
    clock.advance(FIRST_PAUSE_MS);
    await untilTried(5);
  });

  test('gives a lock back once the store is back, and never the lock of another owner', async () => {
    keys.failAll('release', DOWN);
    await lockEnds.release(key, owner);
    await lockEnds.release(key, newOwner());
    keys.heal();
    clock.advance(FIRST_PAUSE_MS);
    await expect.poll(state).toBe('generated');
  });

  test('is tried once more at the end of the process', async () => {
    keys.failAll('finish', DOWN);
    await finish();
    keys.heal();
    await lockEnds.stop();
    expect([await state(), clock.pending]).toEqual(['final', 0]);
  });

  test('that comes after the end of the process is tried once', async () => {
    await finish();
    expect([await state(), clock.pending]).toEqual(['final', 0]);
    await lockEnds.stop();
    keys.failAll('finish', DOWN);
    await finish(newKey());
    expect(clock.pending).toBe(0);
  });

  test('is tried ever more seldom, and given up after ten minutes', async () => {
    keys.failAll('finish', DOWN);
    await finish();
    let elapsedMs = 0;
    for (; clock.pending > 0; elapsedMs += FIRST_PAUSE_MS) {
      clock.advance(FIRST_PAUSE_MS);
      await nextTurn();
    }
    expect(elapsedMs).toBeGreaterThanOrEqual(LONGEST_MS);
    expect(tries).toBeLessThan(LONGEST_MS / LONGEST_PAUSE_MS + 10);
  });

  test('is tried in batches, so that a store that is down is asked for a hundred of a thousand at a time', async () => {
    const final = await givenSettled(ports.ledger, await givenClaim(ports.ledger));
    keys.failAll('finish', DOWN);
    await Promise.all(Array.from({ length: 1_000 }, () => lockEnds.finish(newKey(), owner, final)));
    tries = 0;
    clock.advance(FIRST_PAUSE_MS);
    await untilTried(100);
    keys.heal();
    clock.advance(2 * FIRST_PAUSE_MS);
    await untilTried(100 + 1_000);
    expect(clock.pending).toBe(0);
  });
});

const MAX_KEPT = 10_000;

/** Bug: ends of a round that was given up were kept besides the ones that had failed meanwhile. */
test('ends that wait stay within their limit, also while a round runs', async () => {
  const clock = new HandClock();
  const underWay: ((fault: Error) => void)[] = [];
  let store: 'away' | 'hanging' | 'there' = 'away';
  let tries = 0;
  const release: KeyStore['release'] = async () => {
    tries += 1;
    if (store === 'away') throw DOWN;
    if (store === 'hanging') await new Promise((_, reject) => underWay.push(reject));
  };
  const lockEnds = createLockEnds(decorated(ports.keys, { release: () => release }), clock);
  const failAll = () => Promise.all(Array.from({ length: MAX_KEPT }, () => lockEnds.release(newKey(), newOwner())));
  await failAll();
  store = 'hanging';
  clock.advance(FIRST_PAUSE_MS);
  await nextTurn();
  store = 'away';
  await failAll();
  for (const reject of underWay) reject(DOWN);
  await nextTurn();

  [store, tries] = ['there', 0];
  await lockEnds.stop();
  expect(tries).toBe(MAX_KEPT);
});
