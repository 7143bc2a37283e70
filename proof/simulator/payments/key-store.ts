import type { Clock } from '#idempay/clock.js';
import { EndListeners } from '#idempay/deployments/end-listeners.js';
import type { BeginResult, KeyStore, LookResult } from '#idempay/payments/ports/key-store.js';
import type { FinalOutcome } from '#idempay/payments/values/payment.js';
import type { WallClock } from '../instance.js';
import type { Server } from '../network.js';
import type { Actor, Simulation } from '../simulation.js';

const ANNOUNCED_WITHIN_MS = 20;
/** Nobody may rely on them, also where nothing is wrong. */
const LOST_ANNOUNCEMENTS = 0.2;

interface KeyRecord {
  readonly expiresAt: number;
  readonly final: FinalOutcome | undefined;
}

interface Lock {
  readonly owner: string;
  readonly fingerprint: string;
  readonly takenAt: number;
  readonly endsAt: number;
  readonly watched: boolean;
}

/** What a key-value server holds, as `scripts/*.lua` keep it: by its own wall clock. Everything in it can be forgotten. */
export class KeyServer {
  records = new Map<string, KeyRecord>();
  locks = new Map<string, Lock>();
  readonly wall: WallClock = { aheadMs: 0 };
  /** Until when each key could be begun, at the latest: by the simulation's own time, so where no clock was moved. */
  readonly goodUntil = new Map<string, number>();
  /** Those who are subscribed to the ends of locks. */
  readonly subscribers = new Set<(key: string) => void>();

  constructor(private readonly simulation: Simulation) {}

  now(): number {
    return this.simulation.time + this.wall.aheadMs;
  }

  /** A key that is not paid yet lives for some time, from now on or anyway. */
  keep(key: string, ms: number): void {
    const record = this.record(key);
    if (record && record.expiresAt >= this.now() + ms) return;
    this.records.set(key, { expiresAt: this.now() + ms, final: record?.final });
    this.goodUntil.set(key, this.simulation.time + ms);
  }

  record(key: string): KeyRecord | undefined {
    const record = this.records.get(key);
    return record && record.expiresAt > this.now() ? record : undefined;
  }

  lock(key: string): Lock | undefined {
    const lock = this.locks.get(key);
    return lock && lock.endsAt > this.now() ? lock : undefined;
  }

  look(key: string, owner = ''): LookResult {
    const lock = this.lock(key);
    const now = this.now();
    if (lock && lock.owner !== owner) {
      const { fingerprint, takenAt, endsAt } = lock;
      return { state: 'locked', fingerprint, heldMs: Math.max(0, now - takenAt), remainingMs: endsAt - now };
    }
    const record = this.record(key);
    if (!record) return { state: 'absent' };
    return record.final ? { state: 'final', final: record.final } : { state: 'generated' };
  }

  announce(key: string): void {
    for (const hear of this.subscribers) hear(key);
  }

  /** As FLUSHALL does, or a server that lost its disk; of one key: as an eviction does. */
  forget(key?: string, what?: 'record' | 'lock'): void {
    if (key === undefined) {
      this.records.clear();
      this.locks.clear();
      return;
    }
    if (what !== 'lock') this.records.delete(key);
    if (what !== 'record') this.locks.delete(key);
  }

  /** All that was written, as it is now: what a stale replica or a file on disk would bring back later. */
  snapshot(): () => void {
    const records = new Map(this.records);
    const locks = new Map(this.locks);
    return () => {
      this.records = new Map(records);
      this.locks = new Map(locks);
    };
  }
}

/** The port as one instance sees it: each operation is one step of the server. */
export function createSimulatedKeyStore(
  simulation: Simulation,
  line: Server,
  server: KeyServer,
  instance: Actor,
  clock: Clock,
): KeyStore {
  const ends = new EndListeners();
  // An announcement is a message like any other: late, and sometimes lost.
  const hear = (key: string) => {
    const random = line.luckOf(key);
    if (!instance.alive) server.subscribers.delete(hear);
    const lost = Math.max(LOST_ANNOUNCEMENTS, line.weatherFor(instance.index).lostReply);
    if (!instance.alive || random.fraction() < lost) return;
    const label = simulation.tracing ? `${instance.name} hears the end of ${key}` : '';
    simulation.after(1 + random.fraction() * ANNOUNCED_WITHIN_MS, instance, () => ends.notify(key), label);
  };
  server.subscribers.add(hear);

  const ask = <T>(operation: string, key: string, execute: () => T) => line.ask(instance, operation, key, execute);

  return {
    issue: (key, ttlMs) =>
      ask('issues', key, () => {
        if (!server.record(key)) server.keep(key, ttlMs);
      }),

    begin: ({ key, owner, leaseMs, fingerprint }): Promise<BeginResult> => {
      const askedAt = clock.monotonic();
      return ask('begins', key, (): BeginResult => {
        const looked = server.look(key, owner);
        if (looked.state !== 'generated') return looked;
        const now = server.now();
        server.locks.set(key, { owner, fingerprint, takenAt: now, endsAt: now + leaseMs, watched: false });
        server.keep(key, leaseMs);
        return { state: 'taken', claimBy: askedAt + leaseMs };
      });
    },

    look: (key) => ask('looks at', key, () => server.look(key)),

    async watch(key, onEnd) {
      const unwatch = ends.add(key, onEnd);
      try {
        const looked = await ask('watches', key, () => {
          const lock = server.lock(key);
          if (lock) server.locks.set(key, { ...lock, watched: true });
          return server.look(key);
        });
        return { looked, unwatch };
      } catch (fault) {
        unwatch();
        throw fault;
      }
    },

    finish: (key, owner, final) =>
      ask('finishes', key, () => {
        server.records.set(key, { expiresAt: final.expiresAt, final });
        const lock = server.lock(key);
        if (lock?.owner === owner) server.locks.delete(key);
        if (lock?.watched) server.announce(key);
      }),

    release: (key, owner) =>
      ask('releases', key, () => {
        const lock = server.lock(key);
        if (lock?.owner !== owner) return;
        server.locks.delete(key);
        if (lock.watched) server.announce(key);
      }),
  };
}
