import { beforeEach, describe, expect, test } from 'vitest';
import { StoreUnavailable } from '#idempay/faults.js';
import { createWaiting, type Waiting, type WaitingPlace } from '#idempay/payments/waiting.js';
import { newKey } from '../../testkit/protocol/payment-attempts.js';
import { WatchedLocks } from '../../testkit/protocol/watched-locks.js';
import { HandClock } from '../../testkit/time/hand-clock.js';
import { pause } from '../../testkit/time/until.js';

/** How many may wait in one process, and how often a lock is looked at that tells nothing. */
const PLACES = 2_000;
const LOOK_AGAIN_MS = 1_000;
/** Between the tries of one waiter, however often the attempt it waits for turns out not to have ended. */
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

  function enter({ of = key, ms = PATIENCE_MS, gone = new AbortController().signal } = {}): WaitingPlace {
    const place = waiting.enter(of, { ms, gone });
    if (!place) throw new Error('there was no place to wait');
    return place;
  }

  test('is over when the lock ends', async () => {
    const next = waitFor(enter());
    await settle();
    expect(next.told).toBeUndefined();
    locks.unlock(key);
    await settle();
    expect(next.told).toBe(true);
  });

  test('is over at once when there is no lock any more', async () => {
    locks.unlockSilently(key);
    expect(await enter().next()).toBe(true);
  });

  test('is over when the patience is, and no sooner', async () => {
    const next = waitFor(enter({ ms: 5_000 }));
    await advance(4_999);
    expect(next.told).toBeUndefined();
    await advance(1);
    expect(next.told).toBe(false);
    expect(locks.standing(key)).toBe(0);
  });

  test('is not disturbed by the end of another lock', async () => {
    const other = newKey();
    locks.lock(other);
    const next = waitFor(enter());
    const otherNext = waitFor(enter({ of: other }));
    await settle();
    locks.unlock(other);
    await settle();
    expect(otherNext.told).toBe(true);
    expect(next.told).toBeUndefined();
  });

  test('is over when whoever waits has gone', async () => {
    const gone = new AbortController();
    const next = waitFor(enter({ gone: gone.signal }));
    const other = waitFor(enter());
    await settle();
    gone.abort();
    await settle();
    expect(next.told).toBe(false);
    expect(other.told, 'another waiter of the same key').toBeUndefined();
  });

  /**
   * Bug: a client that left while its request was tried for the first time kept its place for the whole wait. Cause: an
   * abort signal tells nobody who listens only afterwards. Fix: it is asked as well.
   */
  test('is over at once for whoever had gone before', async () => {
    const next = waitFor(enter({ gone: AbortSignal.abort() }));
    await settle();
    expect(next.told).toBe(false);
    expect(locks.asked).toBe(0);
  });

  test('shares one watch and one look a second among all who wait for a key', async () => {
    const nexts = Array.from({ length: 100 }, () => waitFor(enter()));
    await settle();
    expect(locks.asked).toBe(1);
    await advance(LOOK_AGAIN_MS);
    await advance(LOOK_AGAIN_MS);
    expect(locks.asked).toBe(3);
    expect(locks.standing(key)).toBe(1);
    locks.unlock(key);
    await settle();
    expect(nexts.map(({ told }) => told)).toEqual(nexts.map(() => true));
    expect(locks.standing(key)).toBe(0);
  });

  test('ends the watch when the last one leaves, and not before', async () => {
    const gone = [new AbortController(), new AbortController()] as const;
    for (const { signal } of gone) waitFor(enter({ gone: signal }));
    await settle();
    gone[0].abort();
    await settle();
    expect(locks.standing(key)).toBe(1);
    gone[1].abort();
    await settle();
    expect(locks.standing(key)).toBe(0);
    await advance(3 * LOOK_AGAIN_MS);
    expect(locks.asked, 'nobody looks for nobody').toBe(1);
  });

  test('ends a watch that came only after the last one had left', async () => {
    const gone = new AbortController();
    waitFor(enter({ gone: gone.signal }));
    gone.abort();
    await settle();
    expect(locks.asked).toBe(1);
    expect(locks.standing(key)).toBe(0);
  });

  test('finds within a second an end that nobody told', async () => {
    const next = waitFor(enter());
    await settle();
    locks.unlockSilently(key);
    await advance(LOOK_AGAIN_MS - 1);
    expect(next.told).toBeUndefined();
    await advance(1);
    expect(next.told).toBe(true);
  });

  test('goes on through a store that is away', async () => {
    locks.failAll(AWAY);
    const next = waitFor(enter());
    await advance(LOOK_AGAIN_MS);
    await advance(LOOK_AGAIN_MS);
    expect(next.told).toBeUndefined();
    expect(locks.asked).toBe(3);
    locks.heal();
    await advance(LOOK_AGAIN_MS);
    expect(next.told).toBeUndefined();
    locks.unlock(key);
    await settle();
    expect(next.told).toBe(true);
  });

  test('goes on when the store goes away meanwhile', async () => {
    const next = waitFor(enter());
    await settle();
    locks.failAll(AWAY);
    await advance(LOOK_AGAIN_MS);
    locks.unlockSilently(key);
    locks.heal();
    await advance(LOOK_AGAIN_MS);
    expect(next.told).toBe(true);
    expect(locks.standing(key)).toBe(0);
  });

  test('pauses longer each time that the attempt had not ended, up to a second', async () => {
    locks.unlock(key);
    const place = enter();
    for (const pauseMs of PAUSES_MS) {
      const next = waitFor(place);
      await settle();
      if (pauseMs > 0) {
        await advance(pauseMs - 1);
        expect(next.told, `before ${pauseMs} ms`).toBeUndefined();
        await advance(1);
      }
      expect(next.told, `after ${pauseMs} ms`).toBe(true);
    }
    expect(locks.standing(key)).toBe(0);
  });

  test('counts the time of a try into the pause', async () => {
    locks.unlock(key);
    const place = enter();
    await place.next();
    await advance(40);
    const next = waitFor(place);
    await advance(9);
    expect(next.told).toBeUndefined();
    await advance(1);
    expect(next.told).toBe(true);
  });

  test('does not pause longer than the patience', async () => {
    locks.unlock(key);
    const place = enter({ ms: 20 });
    await place.next();
    const next = waitFor(place);
    await advance(20);
    expect(next.told).toBe(false);
  });

  test('watches anew for a later attempt on the same key', async () => {
    const place = enter();
    const first = waitFor(place);
    await settle();
    locks.unlock(key);
    await settle();
    expect(first.told).toBe(true);
    locks.lock(key);
    const second = waitFor(place);
    await advance(PATIENCE_MS / 2);
    expect(second.told).toBeUndefined();
    locks.unlock(key);
    await settle();
    expect(second.told).toBe(true);
  });

  test('has a place for 2,000 at a time, and again for each that left', async () => {
    const places = Array.from({ length: PLACES }, () => enter({ of: newKey() }));
    expect(waiting.enter(key, { ms: PATIENCE_MS, gone: new AbortController().signal })).toBeUndefined();
    places[0]?.leave();
    const place = enter();
    expect(waiting.enter(key, { ms: PATIENCE_MS, gone: new AbortController().signal })).toBeUndefined();
    place.leave();
    for (const each of places) each.leave();
    enter().leave();
    expect(clock.pending, 'a limit of nobody').toBe(0);
  });

  test('keeps nothing of whoever has left', async () => {
    const gone = new AbortController();
    const place = enter({ gone: gone.signal });
    const next = waitFor(place);
    await settle();
    locks.unlock(key);
    await settle();
    place.leave();
    gone.abort();
    expect(next.told).toBe(true);
    expect(locks.standing(key)).toBe(0);
    expect(clock.pending).toBe(0);
  });

  test('ends for all at once, also for those in a pause, and begins for nobody any more', async () => {
    const watching = [waitFor(enter()), waitFor(enter())];
    const free = newKey();
    const pausing = enter({ of: free });
    await pausing.next();
    const paused = waitFor(pausing);
    await settle();
    waiting.end();
    await settle();
    expect([...watching, paused].map(({ told }) => told)).toEqual([false, false, false]);
    expect(locks.standing(key)).toBe(0);
    expect(waiting.enter(key, { ms: PATIENCE_MS, gone: new AbortController().signal })).toBeUndefined();
    expect(await pausing.next(), 'who was just trying').toBe(false);
  });

  async function advance(ms: number): Promise<void> {
    await settle();
    clock.advance(ms);
    await settle();
  }
});

/** What a place was told, undefined for as long as it waits. */
function waitFor(place: WaitingPlace): { readonly told: boolean | undefined } {
  const next: { told: boolean | undefined } = { told: undefined };
  place.next().then((told) => {
    next.told = told;
  });
  return next;
}

/** Lets every promise that can settle do so: nothing here waits for anything but the clock that stands still. */
function settle(): Promise<void> {
  return pause(0);
}
