import { beforeEach, describe, expect, test } from 'vitest';
import { StoreUnavailable } from '#idempay/faults.js';
import { createWaiting, type Waiting, type WaitingPlace } from '#idempay/payments/waiting.js';
import { newKey } from '../../testkit/protocol/payment-attempts.js';
import { WatchedLocks } from '../../testkit/protocol/watched-locks.js';
import { HandClock } from '../../testkit/time/hand-clock.js';
import { pause } from '../../testkit/time/until.js';

/** How many may wait in one process, and how often a lock is looked at without an announcement. */
const PLACES = 2_000;
const LOOK_AGAIN_MS = 1_000;
/** Between the tries of one waiter while the attempt that it waits for goes on. */
const PAUSES_MS = [0, 50, 100, 200, 400, 800, 1_000, 1_000, 1_000];
const PATIENCE_MS = 30_000;
const AWAY = new StoreUnavailable('unchanged', 'the store is away');

describe('waiting for the end of an attempt', () => {
  let clock: HandClock;
  let locks: WatchedLocks;
  let waiting: Waiting;
  let key: string;

  beforeEach(() => {
    clock = new HandClock();
    locks = new WatchedLocks();
    waiting = createWaiting(locks, clock);
    key = newKey();
    locks.lock(key);
  });

  const enterNow = () => waiting.enter(key, { ms: PATIENCE_MS, gone: new AbortController().signal });

  function enter({ of = key, ms = PATIENCE_MS, gone = new AbortController().signal } = {}): WaitingPlace {
    const place = waiting.enter(of, { ms, gone });
    if (!place) throw new Error('there was no place to wait');
    return place;
  }

  /** A wait that has begun: its lock is watched. */
  async function begin(...members: Parameters<typeof enter>) {
    const next = nextOf(enter(...members));
    await settle();
    return next;
  }

  async function unlock(of = key): Promise<void> {
    locks.unlock(of);
    await settle();
  }

  test('is over when its lock ends, and not with another lock', async () => {
    const other = newKey();
    locks.lock(other);
    const [next, otherNext] = [await begin(), await begin({ of: other })];
    await unlock(other);
    expect([next.ended, otherNext.ended]).toEqual([undefined, true]);
    await unlock();
    expect(next.ended).toBe(true);
  });

  test('is over at once when there is no lock any more', async () => {
    locks.unlockSilently(key);
    expect(await enter().next()).toBe(true);
  });

  test('is over when the patience is, and no sooner', async () => {
    const next = await begin({ ms: 5_000 });
    await advance(4_999);
    expect(next.ended).toBeUndefined();
    await advance(1);
    expect(next.ended).toBe(false);
    expect(locks.standing(key)).toBe(0);
  });

  /**
   * Bug: a client that left while its request was tried for the first time kept its place for the whole wait. Cause: an
   * abort signal does not fire for a listener that is added after the abort. Fix: it is asked as well.
   */
  test('is over at once for a client that had gone before', async () => {
    expect((await begin({ gone: AbortSignal.abort() })).ended).toBe(false);
    expect(locks.asked).toBe(0);
  });

  test('shares one watch and one look a second among all that wait for a key', async () => {
    const nexts = await Promise.all(Array.from({ length: 100 }, () => begin()));
    expect(locks.asked).toBe(1);
    await advance(LOOK_AGAIN_MS);
    await advance(LOOK_AGAIN_MS);
    expect(locks.asked).toBe(3);
    expect(locks.standing(key)).toBe(1);
    await unlock();
    expect(nexts.map(({ ended }) => ended)).toEqual(nexts.map(() => true));
    expect(locks.standing(key)).toBe(0);
  });

  test('is over when its client has gone, and the watch ends with the last of the key', async () => {
    const clients = [new AbortController(), new AbortController()] as const;
    const [first, second] = [await begin({ gone: clients[0].signal }), await begin({ gone: clients[1].signal })];
    clients[0].abort();
    await settle();
    expect([first.ended, second.ended, locks.standing(key)]).toEqual([false, undefined, 1]);
    clients[1].abort();
    await settle();
    expect([second.ended, locks.standing(key)]).toEqual([false, 0]);
    await advance(3 * LOOK_AGAIN_MS);
    expect(locks.asked, 'without a waiter the lock is not looked at').toBe(1);
  });

  test('ends a watch that came only after the last one had left', async () => {
    const gone = new AbortController();
    nextOf(enter({ gone: gone.signal }));
    gone.abort();
    await settle();
    expect(locks.asked).toBe(1);
    expect(locks.standing(key)).toBe(0);
  });

  test('finds within a second an end that was not announced', async () => {
    const next = await begin();
    locks.unlockSilently(key);
    await advance(LOOK_AGAIN_MS - 1);
    expect(next.ended).toBeUndefined();
    await advance(1);
    expect(next.ended).toBe(true);
  });

  test('goes on through a store that is away', async () => {
    locks.failAll(AWAY);
    const next = await begin();
    await advance(LOOK_AGAIN_MS);
    await advance(LOOK_AGAIN_MS);
    expect(locks.asked).toBe(3);
    locks.heal();
    await advance(LOOK_AGAIN_MS);
    expect(next.ended).toBeUndefined();
    await unlock();
    expect(next.ended).toBe(true);
  });

  test('goes on when the store goes away meanwhile', async () => {
    const next = await begin();
    locks.failAll(AWAY);
    await advance(LOOK_AGAIN_MS);
    locks.unlockSilently(key);
    locks.heal();
    await advance(LOOK_AGAIN_MS);
    expect(next.ended).toBe(true);
    expect(locks.standing(key)).toBe(0);
  });

  test('pauses longer each time that the attempt had not ended, up to a second', async () => {
    await unlock();
    const place = enter();
    for (const pauseMs of PAUSES_MS) {
      const next = nextOf(place);
      await settle();
      if (pauseMs > 0) {
        await advance(pauseMs - 1);
        expect(next.ended, `before ${pauseMs} ms`).toBeUndefined();
        await advance(1);
      }
      expect(next.ended, `after ${pauseMs} ms`).toBe(true);
    }
    expect(locks.standing(key)).toBe(0);
  });

  test('counts the time of a try into the pause', async () => {
    await unlock();
    const place = enter();
    await place.next();
    await advance(40);
    const next = nextOf(place);
    await advance(9);
    expect(next.ended).toBeUndefined();
    await advance(1);
    expect(next.ended).toBe(true);
  });

  test('does not pause longer than the patience', async () => {
    await unlock();
    const place = enter({ ms: 20 });
    await place.next();
    const next = nextOf(place);
    await advance(20);
    expect(next.ended).toBe(false);
  });

  test('watches anew for a later attempt on the same key', async () => {
    const place = enter();
    const first = nextOf(place);
    await settle();
    await unlock();
    expect(first.ended).toBe(true);
    locks.lock(key);
    const second = nextOf(place);
    await advance(PATIENCE_MS / 2);
    expect(second.ended).toBeUndefined();
    await unlock();
    expect(second.ended).toBe(true);
  });

  test('has a place for 2,000 at a time, and again for each that left', async () => {
    const places = Array.from({ length: PLACES }, () => enter({ of: newKey() }));
    expect(enterNow()).toBeUndefined();
    places[0]?.leave();
    const place = enter();
    expect(enterNow()).toBeUndefined();
    for (const each of [place, ...places]) each.leave();
    enter().leave();
    expect(clock.pending).toBe(0);
  });

  test('keeps nothing of a waiter that has left', async () => {
    const gone = new AbortController();
    const place = enter({ gone: gone.signal });
    const next = nextOf(place);
    await settle();
    await unlock();
    place.leave();
    gone.abort();
    expect([next.ended, locks.standing(key), clock.pending]).toEqual([true, 0, 0]);
  });

  test('ends for all at once, also for those in a pause, and begins for none any more', async () => {
    const watching = [await begin(), await begin()];
    const pausing = enter({ of: newKey() });
    await pausing.next();
    const paused = nextOf(pausing);
    await settle();
    waiting.end();
    await settle();
    expect([...watching, paused].map(({ ended }) => ended)).toEqual([false, false, false]);
    expect(locks.standing(key)).toBe(0);
    expect(enterNow()).toBeUndefined();
    expect(await pausing.next(), 'during a try').toBe(false);
  });

  async function advance(ms: number): Promise<void> {
    await settle();
    clock.advance(ms);
    await settle();
  }
});

/** What `next` of a place resolved to, undefined while it waits. */
function nextOf(place: WaitingPlace): { readonly ended: boolean | undefined } {
  const next: { ended: boolean | undefined } = { ended: undefined };
  place.next().then((ended) => {
    next.ended = ended;
  });
  return next;
}

/** Lets every promise that can settle do so: nothing here waits for anything but the clock that stands still. */
function settle(): Promise<void> {
  return pause(0);
}
