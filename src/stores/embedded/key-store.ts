import { LRUCache } from 'lru-cache';
import type { BeginAttempt, BeginResult, KeyBinding, KeyLookResult, KeyStore } from '../../payments/ports/key-store.js';
import { isComputed } from '../../payments/values/computed-key.js';
import { type FinalOutcome, isVisibleTo, KEY_GENERATED } from '../../payments/values/payment.js';
import { EndListeners } from '../shared/end-listeners.js';
import { finalOfRecord, type KeyRecord } from './key-records.js';
import type { StoreCounters } from './key-value-store-report.js';
import { endStateOf, type PaymentRow } from './payments/payment-row.js';
import type { Reader } from './reader.js';
import type { Writer } from './writer/writer.js';

/**
 * Records kept in memory, a few hundred bytes each. Only this process writes them, and each outcome passes through `finish`
 * here. So none can be stale, only expired.
 */
const REMEMBERED_RECORDS = 100_000;

const FIND_RECORD = 'SELECT * FROM idempotency_keys WHERE key = ?';

/** The payment of a reference answers itself: it may have no record. A refund's key is unknown here. */
const FIND_ENDED = "SELECT * FROM payments WHERE key = ? AND state IN ('COMPLETED', 'DECLINED') AND refund_of IS NULL";

export interface Lock {
  readonly client: string | undefined;
  readonly owner: string;
  readonly fingerprint: string;
  readonly takenAt: number;
  readonly endsAt: number;
}

/** `KEY GENERATED`. */
interface IssuedKey extends KeyBinding {
  readonly client: string | undefined;
  readonly expiresAt: number;
  readonly outcome?: undefined;
}

/** Key records that this process knows without reading them. */
export type RememberedRecords = LRUCache<string, IssuedKey | FinalOutcome>;

/**
 * Key records live in the database, locks in memory: a lock means that this process is at work on the key, so it dies
 * with it. Locks are timed by the monotonic clock, records by the store's clock.
 */
export function createEmbeddedKeyStore(
  writer: Writer,
  reader: Reader,
  counters: StoreCounters,
  {
    // With `max` instead, each start would make room for all of them at once.
    remembered = new LRUCache({ maxSize: REMEMBERED_RECORDS, sizeCalculation: () => 1 }),
    locks = new Map(),
  }: { readonly remembered?: RememberedRecords; readonly locks?: Map<string, Lock> } = {},
): KeyStore {
  const clock = writer.storeClock;
  const recordByKey = reader.prepare(FIND_RECORD);
  const endedByKey = reader.prepare(FIND_ENDED);
  const endings = new EndListeners();

  /** Rules 2 to 4 of spec 4.1, short of taking the lock. */
  function lookAs(
    owner: string | undefined,
    key: string,
    asker: string | undefined,
    find: (key: string) => IssuedKey | FinalOutcome | undefined = findRecord,
  ): KeyLookResult {
    const lock = locks.get(key);
    const record = find(key);
    // Another client's key is judged before the lock: not even a 409 may tell that it exists.
    if (!isVisibleTo(asker, record?.client ?? lock?.client) || isFromWithoutCredentials(asker, record)) {
      counters.misses += 1;
      return { state: 'absent' };
    }
    if (lock && lock.owner !== owner) {
      const now = clock.monotonic();
      if (lock.endsAt > now) {
        const { fingerprint, takenAt, endsAt } = lock;
        return { state: 'locked', fingerprint, heldMs: now - takenAt, remainingMs: endsAt - now };
      }
    }
    // A time past its end was written: see `judged`.
    if (!record || record.expiresAt < writer.storeClock.writtenMs) {
      counters.misses += 1;
      return { state: 'absent' };
    }
    counters.hits += 1;
    return record.outcome ? { state: 'final', final: record } : generated(record);
  }

  function findRecord(key: string): IssuedKey | FinalOutcome | undefined {
    return findBy(key, readRecord);
  }

  /** Only payments that have ended: a request that names the reference needs no record. */
  function findEnded(key: string): IssuedKey | FinalOutcome | undefined {
    return findBy(key, readEnded);
  }

  function findBy(
    key: string,
    read: (key: string) => IssuedKey | FinalOutcome | undefined,
  ): IssuedKey | FinalOutcome | undefined {
    const known = remembered.get(key);
    if (known && !(isComputed(key) && known.expiresAt < writer.storeClock.writtenMs)) return known;
    const record = read(key);
    if (record) remembered.set(key, record);
    return record;
  }

  function readEnded(key: string): FinalOutcome | undefined {
    const row = endedByKey.get(key) as PaymentRow | undefined;
    return row && finalNow(row);
  }

  function readRecord(key: string): IssuedKey | FinalOutcome | undefined {
    const ended = isComputed(key) ? readEnded(key) : undefined;
    if (ended) return ended;
    const row = recordByKey.get(key) as KeyRecord | undefined;
    if (!row) return undefined;
    return row.value === KEY_GENERATED ? issuedKeyOf(row) : finalOfRecord(row);
  }

  /** Its row lives on when what was remembered of it has expired. */
  function finalNow(row: PaymentRow): FinalOutcome | undefined {
    const ended = endStateOf(row, clock.now());
    return ended.state === 'final' ? ended.final : undefined;
  }

  function beginNow({ key, owner, leaseMs, fingerprint, client: asker, makes }: BeginAttempt): BeginResult {
    const reference = makes?.reference;
    const looked = lookAs(owner, key, asker, reference ? findEnded : findRecord);
    // A request that names the reference needs no record: the row decides.
    const isFree = looked.state === 'generated' || (looked.state === 'absent' && reference !== undefined);
    if (!isFree) return looked;
    const takenAt = clock.monotonic();
    const record = reference ? undefined : (findRecord(key) as IssuedKey);
    const client = reference ? reference.client : record?.client;
    locks.set(key, { client, owner, fingerprint, takenAt, endsAt: takenAt + leaseMs });
    // The record is not lengthened here, as Redis does it: so a claim must also come before the key's own expiry.
    const keyRemainingMs = record ? record.expiresAt - clock.now() : leaseMs;
    return {
      state: 'taken',
      claimBy: takenAt + Math.min(leaseMs, keyRemainingMs),
      client,
      reference: reference ?? record?.reference,
    };
  }

  /**
   * A key is refused as expired only after a time past its end was written, so that no clock that is set back and no restart
   * makes it good again (rule P9).
   */
  async function judged<T>(key: string, judge: () => T): Promise<T> {
    const known = remembered.get(key);
    if (known && !writer.mustPassTime(known.expiresAt)) return judge();
    const record = findRecord(key);
    if (record) await writer.passTime(record.expiresAt);
    return judge();
  }

  /** True if there was a lock of that owner. */
  function deleteLock(key: string, owner: string): boolean {
    return locks.get(key)?.owner === owner && locks.delete(key);
  }

  return {
    async issue(key, idempotencyTtlMs, { client, reference } = {}) {
      const expiresAt = await writer.write('issueKey', { key, client, reference, idempotencyTtlMs });
      if (expiresAt !== null) remembered.set(key, { client, reference, expiresAt });
    },

    // No time ends a payment with a reference.
    begin: async (attempt) => (attempt.makes ? beginNow(attempt) : judged(attempt.key, () => beginNow(attempt))),

    look: (key, asker) => judged(key, () => lookAs(undefined, key, asker)),

    async watch(key, onEnd) {
      const unwatch = endings.add(key, onEnd);
      try {
        return { looked: await judged(key, () => lookAs(undefined, key, undefined)), unwatch };
      } catch (fault) {
        unwatch();
        throw fault;
      }
    },

    /** The record's value was written by the very commit that settled the row. */
    async finish(key, owner, final) {
      remembered.set(key, final);
      deleteLock(key, owner);
      endings.notify(key);
    },

    async release(key, owner) {
      if (deleteLock(key, owner)) endings.notify(key);
    },

    /** The record was removed by the very commit that closed the payment. */
    async forget(key, owner) {
      remembered.delete(key);
      deleteLock(key, owner);
      endings.notify(key);
    },
  };
}

/**
 * The reference of a client that asks has another key: this one was generated without credentials, and paid by it the order would be paid
 * twice.
 */
function isFromWithoutCredentials(asker: string | undefined, record: IssuedKey | FinalOutcome | undefined): boolean {
  if (asker === undefined || record === undefined || record.outcome) return false;
  return record.reference !== undefined && record.client === undefined;
}

function generated({ client, reference }: IssuedKey): KeyLookResult {
  return { state: 'generated', client, reference };
}

function issuedKeyOf({ client, expires_at: expiresAt, reference, attempt }: KeyRecord): IssuedKey {
  const owner = client ?? undefined;
  if (reference === null || attempt === null) return { client: owner, expiresAt };
  return { client: owner, expiresAt, reference: { text: reference, attempt, client: owner } };
}
