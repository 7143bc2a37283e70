import { setImmediate as settle } from 'node:timers/promises';
import { beforeEach, describe, expect, test } from 'vitest';
import type { KeyStore, Watch } from '#idempay/payments/ports/key-store.js';
import { createWaiting, type Waiting, type WaitingPlace } from '#idempay/payments/waiting.js';
import { StoreUnavailable } from '#idempay/platform/faults.js';
import { newKey } from '../../testkit/protocol/payment-attempts.js';
import { HandClock } from '../../testkit/time/hand-clock.js';

/** How many may wait in one process, and how often a lock is looked at without an announcement. */
const PLACES = 2_000;
const LOOK_AGAIN_MS = 1_000;
/** Between the tries of one waiter while the attempt that it waits for goes on. */
const PAUSES_MS = [0, 50, 100, 200, 400, 800, 1_000, 1_000, 1_000];
const PATIENCE_MS = 30_000;
const DOWN = new StoreUnavailable('unchanged', 'the store is down');

/** The part of a key store that waiting needs, in memory: it loses an announcement, or fails, when a test says so. */
class WatchedLocks implements Pick<KeyStore, 'watch'> {
  readonly locked = new Set<string>();
  fault: Error | undefined;
  asked = 0;
  private readonly listeners = new Map<string, Set<() => void>>();

  unlock(key: string): void {
    this.locked.delete(key);
    for (const onEnd of [...(this.listeners.get(key) ?? [])]) onEnd();
  }

  standing(key: string): number {
    return this.listeners.get(key)?.size ?? 0;
  }

  async watch(key: string, onEnd: () => void): Promise<Watch> {
    this.asked += 1;
    if (this.fault) throw this.fault;
    // Each watch is one of its own, also if the same function is told.
    const listener = () => onEnd();
    const listeners = this.listeners.get(key) ?? new Set();
    this.listeners.set(key, listeners.add(listener));
    const locked = { state: 'locked', fingerprint: '100.50 USD', heldMs: 0, remainingMs: 1 } as const;
    const looked = this.locked.has(key) ? locked : ({ state: 'generated' } as const);
    return { looked, unwatch: () => listeners.delete(listener) };
  }
}

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
    locks.locked.add(key);
  });

  /** A place; undefined, against its type, if all are taken. */
  function enter({ of = key, ms = PATIENCE_MS, gone = new AbortController().signal, client = '' } = {}): WaitingPlace {
    return waiting.enter(of, { ms, gone }, client === '' ? undefined : client) as WaitingPlace;
  }

  /** A wait that has begun, with its lock watched. `ended` is what it resolved to, undefined while it lasts. */
  async function begin(place = enter()): Promise<{ ended?: boolean }> {
    const wait: { ended?: boolean } = {};
    place.next().then((ended) => Object.assign(wait, { ended }));
    await settle();
    return wait;
  }

  async function unlock(of = key): Promise<void> {
    locks.unlock(of);
    await settle();
  }

  async function advance(ms: number): Promise<void> {
    clock.advance(ms);
    await settle();
  }

  /** The wait ends after this long, and no sooner. */
  async function expectEnd(wait: { ended?: boolean }, afterMs: number, ended = true): Promise<void> {
    await advance(afterMs - 1);
    expect(wait.ended).toBeUndefined();
    await advance(1);
    expect(wait.ended).toBe(ended);
  }

  test('is over when its lock ends, and not with another lock', async () => {
    const other = newKey();
    locks.locked.add(other);
    const [wait, otherWait] = [await begin(), await begin(enter({ of: other }))];
    await unlock(other);
    expect([wait.ended, otherWait.ended]).toEqual([undefined, true]);
    await unlock();
    expect(wait.ended).toBe(true);
  });

  /**
   * Bug: a client that left while its request was tried for the first time kept its place for the whole wait. Cause: an
   * abort signal does not fire for a listener that is added after the abort. Fix: it is asked as well.
   */
  test('is over at once for a client that had gone before', async () => {
    expect(await begin(enter({ gone: AbortSignal.abort() }))).toEqual({ ended: false });
    expect(locks.asked).toBe(0);
  });

  test('shares one watch and one look a second among all that wait for a key', async () => {
    const waits = await Promise.all(Array.from({ length: 100 }, () => begin()));
    expect(locks.asked).toBe(1);
    await advance(LOOK_AGAIN_MS);
    await advance(LOOK_AGAIN_MS);
    expect([locks.asked, locks.standing(key)]).toEqual([3, 1]);
    await unlock();
    expect(waits).toEqual(waits.map(() => ({ ended: true })));
    expect(locks.standing(key)).toBe(0);
  });

  test('is over when its client has gone, and the watch ends with the last of the key', async () => {
    const clients = [new AbortController(), new AbortController()] as const;
    const [first, second] = [
      await begin(enter({ gone: clients[0].signal })),
      await begin(enter({ gone: clients[1].signal })),
    ];
    clients[0].abort();
    await settle();
    expect([first.ended, second.ended, locks.standing(key)]).toEqual([false, undefined, 1]);
    clients[1].abort();
    await settle();
    expect([second.ended, locks.standing(key)]).toEqual([false, 0]);
    await advance(3 * LOOK_AGAIN_MS);
    expect(locks.asked).toBe(1);
    // The watch of this one comes only after it has left.
    const gone = new AbortController();
    const last = begin(enter({ gone: gone.signal }));
    gone.abort();
    await last;
    expect([locks.asked, locks.standing(key)]).toEqual([2, 0]);
  });

  test('goes on through a store that is down, and finds within a second an end that was not announced', async () => {
    locks.fault = DOWN;
    const wait = await begin();
    await advance(LOOK_AGAIN_MS);
    expect(locks.asked).toBe(2);
    locks.fault = undefined;
    await advance(LOOK_AGAIN_MS);
    locks.fault = DOWN;
    await advance(LOOK_AGAIN_MS);
    expect(wait.ended).toBeUndefined();
    locks.fault = undefined;
    // Its end is not announced.
    locks.locked.delete(key);
    await expectEnd(wait, LOOK_AGAIN_MS);
    expect(locks.standing(key)).toBe(0);
  });

  test('pauses longer each time that the attempt had not ended, up to a second', async () => {
    await unlock();
    const place = enter();
    for (const pauseMs of PAUSES_MS) {
      // The time of a try counts into the pause.
      const triedMs = pauseMs * 0.8;
      await advance(triedMs);
      const wait = await begin(place);
      if (pauseMs > 0) await expectEnd(wait, pauseMs - triedMs);
      else expect(wait.ended).toBe(true);
    }
    expect(locks.standing(key)).toBe(0);
  });

  test('is over when the patience is, and no sooner, also in a pause', async () => {
    await expectEnd(await begin(enter({ ms: 5_000 })), 5_000, false);
    expect(locks.standing(key)).toBe(0);
    await unlock();
    const place = enter({ ms: 20 });
    await place.next();
    await expectEnd(await begin(place), 20, false);
  });

  test('watches anew for a later attempt on the same key, and keeps nothing of a waiter that has left', async () => {
    const gone = new AbortController();
    const place = enter({ gone: gone.signal });
    for (const waitedMs of [0, PATIENCE_MS / 2]) {
      locks.locked.add(key);
      const wait = await begin(place);
      await advance(waitedMs);
      expect(wait.ended).toBeUndefined();
      await unlock();
      expect(wait.ended).toBe(true);
    }
    place.leave();
    gone.abort();
    expect([locks.standing(key), clock.pending]).toEqual([0, 0]);
  });

  test('has a place for 2,000 at a time, and again for each that left', async () => {
    const places = Array.from({ length: PLACES }, () => enter({ of: newKey() }));
    expect(enter()).toBeUndefined();
    places.pop()?.leave();
    places.push(enter());
    expect(enter()).toBeUndefined();
    for (const place of places) place.leave();
    enter().leave();
    expect(clock.pending).toBe(0);
  });

  test('leaves a client no place beyond its share while another client has none', () => {
    const places = Array.from({ length: PLACES }, () => enter({ of: newKey(), client: 'greedy' }));
    expect(enter({ client: 'payer' })).toBeUndefined();
    for (const place of places.splice(0, 2)) place.leave();
    expect(enter({ client: 'greedy' })).toBeUndefined();
    places.push(enter({ client: 'payer' }));
    clock.advance(1_001);
    places.push(enter({ client: 'greedy' }));
    for (const place of places) place.leave();
    expect(clock.pending).toBe(0);
  });

  test('goes on when no more waits are begun', async () => {
    const begun = await begin();
    waiting.close();
    await settle();
    expect(begun).toEqual({});
    expect(enter()).toBeUndefined();
    waiting.end();
    await settle();
    expect(begun).toEqual({ ended: false });
  });

  test('ends for all at once, also for those in a pause, and begins for none any more', async () => {
    const pausing = enter({ of: newKey() });
    await pausing.next();
    const waits = [await begin(), await begin(), await begin(pausing)];
    waiting.end();
    await settle();
    expect(waits).toEqual(waits.map(() => ({ ended: false })));
    expect(locks.standing(key)).toBe(0);
    expect(enter()).toBeUndefined();
    expect(await pausing.next()).toBe(false);
  });
});
