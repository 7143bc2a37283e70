import { LRUCache } from 'lru-cache';
import type { Clock } from '../../clock.js';
import type { KeyStore, Looked } from '../../payments/key-store.js';
import { type FinalOutcome, KEY_GENERATED } from '../../payments/payment.js';
import { finalOfRecord, type KeyRecord } from './payment-row.js';
import type { Reader } from './reader.js';
import type { StoreCounters } from './store-counters.js';
import type { Writer } from './writer.js';

/** Outcomes kept in memory, a few hundred bytes each. They are final, so they cannot become stale, only expire. */
const REMEMBERED_OUTCOMES = 50_000;

const FIND_RECORD = 'SELECT value, fingerprint, reason, expires_at FROM idempotency_keys WHERE key = ?';

interface Lock {
  readonly owner: string;
  readonly fingerprint: string;
  readonly takenAt: number;
  endsAt: number;
}

/**
 * Key records live in the database, locks in memory: a lock means that this process is at work on the key, so it dies
 * with it. Locks are timed by the monotonic clock, records by the wall clock that is written to the disk.
 */
export function createEmbeddedKeyStore(
  writer: Writer,
  reader: Reader,
  clock: Clock,
  counters: StoreCounters,
): KeyStore {
  const findRecord = reader.prepare(FIND_RECORD);
  const locks = new Map<string, Lock>();
  const outcomes = new LRUCache<string, FinalOutcome>({ max: REMEMBERED_OUTCOMES });

  /** Rules 2 to 4 of spec 4.1, short of taking the lock. */
  function lookAs(owner: string | undefined, key: string): Looked & { expiresAt?: number } {
    const lock = locks.get(key);
    if (lock && lock.owner !== owner) {
      const now = clock.monotonic();
      if (lock.endsAt > now) {
        const { fingerprint, takenAt, endsAt } = lock;
        return { state: 'locked', fingerprint, heldMs: now - takenAt, remainingMs: endsAt - now };
      }
    }
    const remembered = outcomes.get(key);
    if (remembered && remembered.expiresAt > clock.now()) {
      counters.hits += 1;
      return { state: 'final', final: remembered };
    }
    const record = findRecord.get(key) as KeyRecord | undefined;
    if (!record || record.expires_at <= clock.now()) {
      counters.misses += 1;
      return { state: 'absent' };
    }
    counters.hits += 1;
    if (record.value === KEY_GENERATED) return { state: 'generated', expiresAt: record.expires_at };
    const final = finalOfRecord(record);
    outcomes.set(key, final);
    return { state: 'final', final };
  }

  function deleteLock(key: string, owner: string): void {
    if (locks.get(key)?.owner === owner) locks.delete(key);
  }

  return {
    issue: (key, ttlMs) => writer.write('issueKey', key, ttlMs),

    async begin({ key, owner, leaseMs, fingerprint }) {
      const looked = lookAs(owner, key);
      if (looked.state !== 'generated') return looked;
      const takenAt = clock.monotonic();
      locks.set(key, { owner, fingerprint, takenAt, endsAt: takenAt + leaseMs });
      const claimBefore = Math.min(clock.now() + leaseMs, looked.expiresAt ?? 0);
      return { state: 'taken', claimBefore };
    },

    look: async (key) => lookAs(undefined, key),

    async renew({ key, owner }, leaseMs) {
      const lock = locks.get(key);
      if (lock?.owner === owner) lock.endsAt = clock.monotonic() + leaseMs;
    },

    /** The record's value was written by the very commit that settled the row. */
    async finish(key, owner, final) {
      outcomes.set(key, final);
      deleteLock(key, owner);
    },

    async release(key, owner) {
      deleteLock(key, owner);
    },
  };
}
