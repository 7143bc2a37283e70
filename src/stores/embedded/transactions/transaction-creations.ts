import { toTenThousandths } from '../../../transactions/amount.js';
import {
  type Creation,
  type CreationKey,
  type CreationResult,
  type KnownCreation,
  knownCreation,
} from '../../../transactions/creation.js';
import type { NewTransaction } from '../../../transactions/transaction.js';
import type { Database } from '../file/sqlite.js';

const NEXT_IDS = `
  UPDATE transaction_list SET last_id = last_id + ?1, version = version + ?1
  RETURNING last_id`;

const INSERT = `
  INSERT INTO transactions (id, from_account, to_account, amount, status, version, created_at)
  VALUES (?, ?, ?, CAST(? AS INTEGER), ?, 1, ?)`;

/** Inserts rows given as JSON, in half the time of single inserts. Amounts are texts there, so that no digit is lost. */
const INSERT_MANY = `
  INSERT INTO transactions (id, from_account, to_account, amount, status, version, created_at)
  SELECT ?1 + key, value ->> 0, value ->> 1, CAST(value ->> 2 AS INTEGER), value ->> 3, 1, ?2 FROM json_each(?3)`;

const FIND_CREATION = `
  SELECT fingerprint, first_id AS firstId, created_at AS createdAt FROM creation_keys
  WHERE client = ? AND endpoint = ? AND key = ? AND expires_at > ?`;

/** In the place of one that has expired. */
const REMEMBER = `
  INSERT OR REPLACE INTO creation_keys (client, endpoint, key, fingerprint, first_id, created_at, expires_at)
  VALUES (?, ?, ?, ?, ?, ?, ?)`;

const EXPIRED = 'SELECT client, endpoint, key FROM creation_keys WHERE expires_at <= ? ORDER BY expires_at LIMIT ?';
const FORGET = 'DELETE FROM creation_keys WHERE client = ? AND endpoint = ? AND key = ?';

export interface CreationWrite {
  readonly transactions: readonly NewTransaction[];
  readonly key?: CreationKey | undefined;
}

type StoredCreation = Creation & { readonly fingerprint: string };

/**
 * Creates of transactions, one after another in the writer thread, so a key cannot change between its read and the write. Keys expire
 * by the `heldClock`, as key records do, so that a wall clock that jumps ahead expires no key too early.
 */
export function createTransactionCreations(database: Database, storeClock: () => number, heldClock: () => number) {
  const nextIds = database.prepare(NEXT_IDS);
  const insert = database.prepare(INSERT);
  const insertMany = database.prepare(INSERT_MANY);
  const findCreation = database.prepare(FIND_CREATION);
  const remember = database.prepare(REMEMBER);
  const expired = database.prepare(EXPIRED);
  const forget = database.prepare(FORGET);

  function insertAll(transactions: readonly NewTransaction[]): { firstId: number; createdAt: number } {
    const createdAt = storeClock();
    const { last_id } = nextIds.get(transactions.length) as { last_id: number };
    const firstId = last_id - transactions.length + 1;
    const rows = transactions.map(({ fromAccount, toAccount, amount, status }) => {
      return [fromAccount, toAccount, String(toTenThousandths(amount)), status] as const;
    });
    const [only] = rows;
    if (only && rows.length === 1) insert.run(firstId, ...only, createdAt);
    else insertMany.run(firstId, createdAt, JSON.stringify(rows));
    return { firstId, createdAt };
  }

  /** Undefined if the key was not used, or has expired. */
  function find({ client, endpoint, key, fingerprint }: CreationKey): KnownCreation | undefined {
    const stored = findCreation.get(client, endpoint, key, heldClock()) as StoredCreation | undefined;
    return knownCreation(stored, fingerprint);
  }

  return {
    createTransaction(transaction: NewTransaction): { id: number; createdAt: number } {
      const { firstId: id, createdAt } = insertAll([transaction]);
      return { id, createdAt };
    },

    createTransactions({ transactions, key }: CreationWrite): CreationResult {
      const known = key && find(key);
      if (known) return known;
      const created = insertAll(transactions);
      if (key) {
        const { firstId, createdAt } = created;
        const expiresAt = createdAt + key.idempotencyTtlMs;
        remember.run(key.client, key.endpoint, key.key, key.fingerprint, firstId, createdAt, expiresAt);
      }
      return { state: 'created', ...created };
    },

    /** The result that `createTransactions` would repeat, or null if it would create. In this thread, which has the clock that expires keys. */
    findCreation: (key: CreationKey): KnownCreation | null => find(key) ?? null,

    /** Removes up to `limit` expired keys, the oldest first. Returns how many. */
    sweepCreationKeys({ limit }: { limit: number }): number {
      const keys = expired.all(heldClock(), limit) as { client: string; endpoint: string; key: string }[];
      for (const { client, endpoint, key } of keys) forget.run(client, endpoint, key);
      return keys.length;
    },
  };
}
