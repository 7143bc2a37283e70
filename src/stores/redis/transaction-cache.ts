import { randomUUID } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { type Clock, sleep } from '../../platform/clock.js';
import { StoreUnavailable } from '../../platform/faults.js';
import type { CacheLookUpResult, TransactionCache } from '../../transactions/ports/transaction-cache.js';
import type { Transaction } from '../../transactions/transaction.js';
import type { StoreMeasures } from '../shared/store-measures.js';
import { STATEMENT_TIMEOUT_MS, WRITE_DEADLINE_MS } from '../shared/time-limits.js';
import type { CacheLocation, CacheLocations } from './connection/cache-masters.js';
import type { RedisClient } from './connection/masters.js';
import type { KeyNames } from './key-names.js';
import { loadScript, type Script } from './scripts/script.js';

/** Longer than any keyed read of the store of record; a loader that died delays readers for no longer. */
const FILL_TOKEN_TTL_MS = 2_000;
/**
 * The mark outlives the statement it protects, however late that begins and however long it runs. Only a commit that waits
 * for a standby may take longer, and its outcome is then unknown, not acknowledged (`docs/operations/deployment.md`, Not promised).
 */
const MARK_TTL_MS = WRITE_DEADLINE_MS + STATEMENT_TIMEOUT_MS + 2_000;
/** Parsed entries by their exact text, so that none can be stale. */
const parsed = new LRUCache<string, Transaction>({ max: 10_000 });
/** Pauses of a reader while another one loads the row; after the last it reads the row itself. */
const WAITS_MS = [2, 4, 8, 16, 32];

/**
 * The coherent cache in Redis, shared by all processes (see the scripts for each atomic step). An entry that was read from another
 * database server than the one that is named now is a miss: rows may be lost there (rule O5). So is an entry that was cached before
 * the masters of Redis changed (`CacheMasters`).
 */
export function createRedisTransactionCache(
  client: RedisClient,
  names: KeyNames,
  locations: CacheLocations,
  {
    databaseServer,
    transactionCacheTtlMs,
    clock,
    roomForFills,
    measures,
  }: {
    databaseServer: () => string;
    transactionCacheTtlMs: number;
    clock: Clock;
    roomForFills: () => boolean;
    measures?: StoreMeasures;
  },
): TransactionCache {
  const lookUp = loadScript('cache-look-up', measures);
  const fill = loadScript('cache-fill', measures);
  const forgo = loadScript('cache-forgo', measures);
  const mark = loadScript('cache-mark', measures);
  const lift = loadScript('cache-lift', measures);
  const instance = randomUUID();
  let tokens = 0;

  /** The same object for the same text, so that its representation (`represent`) is made only once. */
  function parse(text: string): Transaction {
    let transaction = parsed.get(text);
    if (!transaction) {
      transaction = JSON.parse(text) as Transaction;
      parsed.set(text, transaction);
    }
    return transaction;
  }

  function newToken(): string {
    tokens += 1;
    return `${instance}:${tokens}`;
  }

  /** The script at a master of the present epoch. */
  function runAt(
    location: CacheLocation,
    script: Script,
    id: number,
    values: readonly (string | number)[],
  ): Promise<unknown> {
    const source = [`${location.epoch} ${databaseServer()}`, location.masters];
    return script(client, keysOf(id), [...values, ...source]).catch((fault: unknown) => {
      if (isOtherMaster(fault)) locations.forget(location);
      throw fault;
    });
  }

  /** For readers, who need not wait: the store of record has what they ask for. */
  function runNow(script: Script, id: number, values: readonly (string | number)[]): Promise<unknown> {
    const { current } = locations;
    if (!current) throw new StoreUnavailable('unchanged', 'the master of Redis is not known yet');
    return runAt(current, script, id, values);
  }

  /** For writers: if the master was replaced, once more at the other one. */
  async function runAnywhere<T>(run: (location: CacheLocation) => Promise<T>): Promise<T> {
    try {
      return await run(locations.current ?? (await locations.look()));
    } catch (fault) {
      if (!isOtherMaster(fault)) throw fault;
      return run(await locations.look());
    }
  }

  function keysOf(id: number): string[] {
    const { entry, fill: token, marks } = names.cached(id);
    return [entry, token, marks];
  }

  async function lookUpOnce(id: number): Promise<CacheLookUpResult | 'wait'> {
    const token = newToken();
    const [found, transaction] = (await runNow(lookUp, id, [token, FILL_TOKEN_TTL_MS])) as string[];
    switch (found) {
      case 'hit':
        return { state: 'hit', transaction: parse(transaction ?? '') };
      case 'load':
        return { state: 'miss', token };
      case 'wait':
        return 'wait';
      default:
        return { state: 'bypass' };
    }
  }

  return {
    async lookUp(id) {
      for (const waitMs of WAITS_MS) {
        const found = await lookUpOnce(id);
        if (found !== 'wait') return found;
        await sleep(clock, waitMs);
      }
      return { state: 'miss', token: undefined };
    },

    async fill(id, token, transaction) {
      if (!roomForFills()) {
        await forgo(client, [names.cached(id).fill], [token]);
        return false;
      }
      const values = [token, transaction.version, JSON.stringify(transaction), transactionCacheTtlMs];
      return (await runNow(fill, id, values)) === 1;
    },

    async forgo(id, token) {
      await forgo(client, [names.cached(id).fill], [token]);
    },

    async mark(id) {
      const token = newToken();
      return runAnywhere(async (location) => {
        const askedAt = clock.monotonic();
        await runAt(location, mark, id, [token, MARK_TTL_MS]);
        return { id, token, writeBy: askedAt + WRITE_DEADLINE_MS, epoch: location.epoch };
      });
    },

    async refresh({ id, token }, transaction) {
      const values = [token, transaction.version, JSON.stringify(transaction), transactionCacheTtlMs];
      await runAnywhere((location) => runAt(location, lift, id, values));
    },

    async evict({ id, token }) {
      await runAnywhere((location) => runAt(location, lift, id, [token, '', '', transactionCacheTtlMs]));
    },
  };
}

function isOtherMaster(fault: unknown): boolean {
  return fault instanceof StoreUnavailable && fault.message.includes('OTHERMASTER');
}
