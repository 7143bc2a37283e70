import type { FinalOutcome } from '../values/payment.js';
import type { Reference } from '../values/reference.js';

/**
 * Port: the key records and their locks (spec 2.1). It gives speed and the fast 409; the guarantee is the ledger's. It may
 * forget anything at any moment without a payment happening twice. Its contract: `test/contracts/key-store-contract.ts`.
 *
 * Every operation is one atomic step and safe to run twice. Durations are milliseconds; faults are StoreUnavailable.
 */
export interface KeyStore {
  /**
   * Stores a new record with the value `KEY GENERATED`. As durable as the store is: losing it costs an unused key. From now on the key is
   * the client's: if another client asks, it is absent (rule A5). Without a client it is everybody's. A record that is there already keeps
   * its value; if it has no outcome, its life begins anew.
   */
  issue(key: string, idempotencyTtlMs: number, binding?: KeyBinding): Promise<void>;

  /** Rules 2 to 4 of spec 4.1 in their order: locked, else final, else lock it, else absent. */
  begin(attempt: BeginAttempt): Promise<BeginResult>;

  /** Finds what `begin` would find, without taking anything. Without a `client` every key is visible. */
  look(key: string, client?: string): Promise<KeyLookResult>;

  /**
   * Subscribes to the end of the key's lock, by `finish` or `release` of any process, then looks. `onEnd` may come late,
   * more than once, or never (a killed owner, a lost message), so a waiter must call `watch` again from time to time: only
   * the lock that a watch found is announced. Takes no lock, and holds no connection of its own.
   */
  watch(key: string, onEnd: () => void): Promise<Watch>;

  /** Gives the record its final value, also under another owner's lock, and deletes the lock if it is the owner's. */
  finish(key: string, owner: string, final: FinalOutcome): Promise<void>;

  /** Deletes the lock if it is the owner's, and nothing else. */
  release(key: string, owner: string): Promise<void>;

  /** Deletes the record, and the lock if it is the owner's: the row alone answers from now on. */
  forget(key: string, owner: string): Promise<void>;
}

/** The owner of a key: a client, and the reference that the key is computed from. */
export interface KeyBinding {
  /** If it is undefined, the key is everybody's. */
  readonly client?: string | undefined;
  readonly reference?: Reference | undefined;
}

export interface BeginAttempt {
  readonly key: string;
  /** Names the attempt. A second begin by the same owner finds its own lock taken, not a conflict. */
  readonly owner: string;
  readonly leaseMs: number;
  readonly fingerprint: string;
  /** The client that asks. If it is undefined, every key is visible. */
  readonly client?: string | undefined;
  /** Set if the request names the reference that the key is computed from: then an absent record is no obstacle, and may be made. */
  readonly makes?: { readonly reference: Reference; readonly lifeMs: number } | undefined;
}

export type BeginResult =
  /**
   * The lock is ours. A claim after `claimBy` (our monotonic clock, ms) must be refused: then the lease has ended, or the
   * key has expired, unless the store lengthened the key's life to the lease.
   */
  Taken | Locked | Final | Absent;

export interface Taken extends KeyBinding {
  readonly state: 'taken';
  readonly claimBy: number;
}

/** `reference`: from which the key is computed, if its record says so. */
export type KeyLookResult =
  | { readonly state: 'generated'; readonly client?: string | undefined; readonly reference?: Reference | undefined }
  | Locked
  | Final
  | Absent;

export interface Watch {
  readonly looked: KeyLookResult;
  /** Ends the subscription. */
  unwatch(): void;
}

interface Locked {
  readonly state: 'locked';
  /** The payment of the attempt that holds the lock. */
  readonly fingerprint: string;
  readonly heldMs: number;
  readonly remainingMs: number;
}

interface Final {
  readonly state: 'final';
  readonly final: FinalOutcome;
}

/** Never generated, expired, or forgotten: only the ledger knows which. */
interface Absent {
  readonly state: 'absent';
}
