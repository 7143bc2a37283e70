import type { Begun, KeyStore, Looked } from '#idempay/payments/key-store.js';
import type { FinalOutcome } from '#idempay/payments/payment.js';
import type { InstanceClock } from './instance.js';
import type { Server } from './network.js';
import type { Actor, Simulation } from './simulation.js';

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
export class KeyServerState {
  records = new Map<string, KeyRecord>();
  locks = new Map<string, Lock>();
  readonly listeners = new Set<(key: string) => void>();
  /** Milliseconds that its wall clock is ahead. */
  clockAheadMs = 0;

  constructor(private readonly simulation: Simulation) {}

  now(): number {
    return this.simulation.time + this.clockAheadMs;
  }

  record(key: string): KeyRecord | undefined {
    const record = this.records.get(key);
    return record && record.expiresAt > this.now() ? record : undefined;
  }

  lock(key: string): Lock | undefined {
    const lock = this.locks.get(key);
    return lock && lock.endsAt > this.now() ? lock : undefined;
  }

  look(key: string, owner = ''): Looked {
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
    for (const listener of [...this.listeners]) listener(key);
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
  server: Server,
  state: KeyServerState,
  instance: Actor,
  clock: InstanceClock,
): KeyStore {
  const watches = new Map<string, Set<() => void>>();
  // An announcement is a message like any other: late, and sometimes lost.
  state.listeners.add((key) => {
    if (!watches.has(key) || simulation.random.fraction() < server.weather.lostReply) return;
    simulation.after(
      1 + simulation.random.fraction() * 20,
      `${instance.name} hears the end of ${key}`,
      instance,
      () => {
        for (const onEnd of [...(watches.get(key) ?? [])]) onEnd();
      },
    );
  });

  return {
    issue: (key, ttlMs) =>
      server.ask(instance, `issue ${key}`, () => {
        if (!state.record(key)) state.records.set(key, { expiresAt: state.now() + ttlMs, final: undefined });
      }),

    begin: ({ key, owner, leaseMs, fingerprint }): Promise<Begun> => {
      const askedAt = clock.monotonic();
      return server.ask(instance, `begin ${key} as ${owner}`, (): Begun => {
        const looked = state.look(key, owner);
        if (looked.state !== 'generated') return looked;
        const now = state.now();
        state.locks.set(key, { owner, fingerprint, takenAt: now, endsAt: now + leaseMs, watched: false });
        const record = state.record(key);
        if (record && record.expiresAt < now + leaseMs) state.records.set(key, { ...record, expiresAt: now + leaseMs });
        return { state: 'taken', claimBy: askedAt + leaseMs };
      });
    },

    look: (key) => server.ask(instance, `look ${key}`, () => state.look(key)),

    async watch(key, onEnd) {
      const listeners = watches.get(key) ?? new Set();
      watches.set(key, listeners.add(onEnd));
      const unwatch = () => {
        listeners.delete(onEnd);
        if (listeners.size === 0) watches.delete(key);
      };
      try {
        const looked = await server.ask(instance, `watch ${key}`, () => {
          const lock = state.lock(key);
          if (lock) state.locks.set(key, { ...lock, watched: true });
          return state.look(key);
        });
        return { looked, unwatch };
      } catch (fault) {
        unwatch();
        throw fault;
      }
    },

    renew: ({ key, owner }, leaseMs) =>
      server.ask(instance, `renew the lock of ${key} as ${owner}`, () => {
        const lock = state.lock(key);
        if (lock?.owner === owner) state.locks.set(key, { ...lock, endsAt: state.now() + leaseMs });
      }),

    finish: (key, owner, final) =>
      server.ask(instance, `finish ${key} as ${owner}`, () => {
        state.records.set(key, { expiresAt: final.expiresAt, final });
        const lock = state.lock(key);
        if (lock?.owner === owner) state.locks.delete(key);
        if (lock?.watched) state.announce(key);
      }),

    release: (key, owner) =>
      server.ask(instance, `release ${key} as ${owner}`, () => {
        const lock = state.lock(key);
        if (lock?.owner !== owner) return;
        state.locks.delete(key);
        if (lock.watched) state.announce(key);
      }),
  };
}
