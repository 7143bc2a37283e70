import type { Clock } from '#idempay/clock.js';
import type { NewTransaction, Transaction } from '#idempay/transactions/transaction.js';
import type { TransactionCache } from '#idempay/transactions/transaction-cache.js';
import type { TransactionStore } from '#idempay/transactions/transaction-store.js';
import type { Ambushes } from '../ambushes.js';
import { startDatabaseClock } from '../database-clock.js';
import { Server } from '../network.js';
import type { Actor, Simulation } from '../simulation.js';
import { CacheServer, createSimulatedTransactionCache } from './cache.js';
import { openEmbeddedTransactionCache, openEmbeddedTransactionStore, TransactionFile } from './embedded-store.js';
import type { Shape } from './plan.js';
import { createSimulatedTransactionStore } from './store.js';
import type { TransactionTable } from './table.js';

/** As the adapters have it: a command, and a statement with its client's patience. */
const CACHE_DEADLINE_MS = 900;
const STORE_DEADLINE_MS = 6_000;
const SLOWEST_COMMIT_MS = 5_000;

/** The stores of a history, whichever the deployment. */
export interface TransactionStores {
  /** At once, and by nobody: what is there before everything begins. */
  create(transaction: NewTransaction): Transaction;
  readonly lines: { readonly cache: Server; readonly store: Server };
  /** Undefined where the cache is the process's own memory. */
  readonly cacheServer: CacheServer | undefined;
  /** How many troubles make commits slow, and fills unwelcome. */
  readonly mood: { slowCommits: number; noRoom: number };
  open(instance: Actor, clock: Clock): Promise<{ store: TransactionStore; cache: TransactionCache }>;
}

export function distributedStores(
  simulation: Simulation,
  ambushes: Ambushes,
  table: TransactionTable,
  { cacheTtlMs, slowCommits }: Shape,
): TransactionStores {
  const cacheServer = new CacheServer(simulation);
  const cacheLine = new Server(simulation, ambushes, { name: 'the cache', deadlineMs: CACHE_DEADLINE_MS });
  const storeLine = new Server(simulation, ambushes, { name: 'the store', deadlineMs: STORE_DEADLINE_MS });
  const mood = { slowCommits: 0, noRoom: 0 };
  const commitsAfterMs = (id: number) => {
    const random = storeLine.luckOf(`commit ${id}`);
    const chance = mood.slowCommits > 0 ? 0.5 : slowCommits;
    return random.fraction() < chance ? random.fraction() * SLOWEST_COMMIT_MS : 0;
  };
  return {
    create: (transaction) => table.create(transaction),
    cacheServer,
    lines: { cache: cacheLine, store: storeLine },
    mood,
    async open(instance, clock) {
      const databaseClock = await startDatabaseClock(storeLine, () => table.now(), instance, clock);
      const roomForFills = () => mood.noRoom === 0;
      return {
        store: createSimulatedTransactionStore(storeLine, table, instance, clock, databaseClock, commitsAfterMs),
        cache: createSimulatedTransactionCache(
          simulation,
          cacheLine,
          cacheServer,
          instance,
          clock,
          cacheTtlMs,
          roomForFills,
        ),
      };
    },
  };
}

export function embeddedStores(simulation: Simulation, ambushes: Ambushes, table: TransactionTable): TransactionStores {
  const settings = { name: 'the file', deadlineMs: STORE_DEADLINE_MS, diesWithCaller: true };
  const line = new Server(simulation, ambushes, settings);
  const file = new TransactionFile(table);
  return {
    create: (transaction) => file.create(transaction),
    cacheServer: undefined,
    lines: { cache: line, store: line },
    mood: { slowCommits: 0, noRoom: 0 },
    open: async (instance) => ({
      store: openEmbeddedTransactionStore(file, table, line, instance),
      cache: openEmbeddedTransactionCache(),
    }),
  };
}
