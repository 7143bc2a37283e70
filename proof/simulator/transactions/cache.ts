import { type Clock, sleep } from '#idempay/clock.js';
import { STATEMENT_TIMEOUT_MS, WRITE_DEADLINE_MS } from '#idempay/deployments/distributed/time-limits.js';
import type { Transaction } from '#idempay/transactions/transaction.js';
import type { CacheLookUpResult, TransactionCache } from '#idempay/transactions/transaction-cache.js';
import type { WallClock } from '../instance.js';
import type { Server } from '../network.js';
import type { Actor, Simulation } from '../simulation.js';

/** As the adapter has them. */
const FILL_TOKEN_TTL_MS = 2_000;
export const MARK_TTL_MS = WRITE_DEADLINE_MS + STATEMENT_TIMEOUT_MS + 2_000;
const WAITS_MS = [2, 4, 8, 16, 32];

interface Entry {
  readonly run: number;
  readonly transaction: Transaction;
  readonly expiresAt: number;
}

interface Token {
  readonly run: number;
  readonly token: string;
  readonly expiresAt: number;
}

interface Marks {
  /** Each with the name under which it was put, and its own end. */
  readonly tokens: ReadonlyMap<string, { readonly run: number; readonly endsAt: number }>;
  readonly newest: number | 'none' | undefined;
  readonly transaction: Transaction | undefined;
  readonly expiresAt: number;
}

/** What a key-value server holds of the cache, as `scripts/cache-*.lua` keep it: by its own wall clock. */
export class CacheServer {
  /** Its replication id: another one whenever it starts, or another server takes its place. */
  run = 1;
  readonly wall: WallClock = { aheadMs: 0 };
  private entries = new Map<number, Entry>();
  private fills = new Map<number, Token>();
  private marks = new Map<number, Marks>();

  constructor(private readonly simulation: Simulation) {}

  lookUp(id: number, token: string): 'wait' | 'pass' | 'load' | Transaction {
    const entry = this.living(this.entries, id);
    if (entry?.run === this.run) return entry.transaction;
    if (this.living(this.marks, id)) return 'pass';
    if (this.living(this.fills, id)?.run === this.run) return 'wait';
    this.fills.set(id, { run: this.run, token, expiresAt: this.now() + FILL_TOKEN_TTL_MS });
    return 'load';
  }

  fill(id: number, token: string, transaction: Transaction, ttlMs: number): boolean {
    const held = this.living(this.fills, id);
    if (held?.token !== token || held.run !== this.run) return false;
    this.fills.delete(id);
    if (this.living(this.marks, id)) return false;
    const entry = this.living(this.entries, id);
    if (entry?.run === this.run && entry.transaction.version >= transaction.version) return false;
    this.entries.set(id, { run: this.run, transaction, expiresAt: this.now() + ttlMs });
    return true;
  }

  forgo(id: number, token: string): void {
    if (this.living(this.fills, id)?.token === token) this.fills.delete(id);
  }

  mark(id: number, token: string): void {
    this.entries.delete(id);
    this.fills.delete(id);
    const expiresAt = this.now() + MARK_TTL_MS;
    const marks = this.living(this.marks, id);
    const standing = [...(marks?.tokens ?? [])].filter(([, mark]) => mark.endsAt > this.now());
    const foreign = standing.some(([, { run }]) => run !== this.run);
    this.marks.set(id, {
      tokens: new Map([...standing, [token, { run: this.run, endsAt: expiresAt }]]),
      newest: foreign ? 'none' : standing.length > 0 ? marks?.newest : undefined,
      transaction: standing.length > 0 ? marks?.transaction : undefined,
      expiresAt,
    });
  }

  lift(id: number, token: string, written: Transaction | undefined, ttlMs: number): void {
    this.entries.delete(id);
    this.fills.delete(id);
    const marks = this.living(this.marks, id);
    if (!marks) return;
    const stood = marks.tokens.get(token)?.run === this.run;
    const tokens = new Map(marks.tokens);
    tokens.delete(token);
    let { newest, transaction } = marks;
    const nothingElseIsKept = tokens.size === 0 && newest === undefined;
    if (nothingElseIsKept && (!stood || !written)) {
      this.marks.delete(id);
      return;
    }
    if (!stood || !written) newest = 'none';
    else if (newest !== 'none' && (newest === undefined || newest < written.version)) {
      newest = written.version;
      transaction = written;
    }
    if (tokens.size > 0) {
      this.marks.set(id, { tokens, newest, transaction, expiresAt: marks.expiresAt });
      return;
    }
    if (newest !== 'none' && transaction) {
      this.entries.set(id, { run: this.run, transaction, expiresAt: this.now() + ttlMs });
    }
    this.marks.delete(id);
  }

  /** As FLUSHALL does; of one transaction: as an eviction does. */
  forget(id?: number, what?: 'entry' | 'token' | 'marks'): void {
    if (id === undefined) {
      this.entries.clear();
      this.fills.clear();
      this.marks.clear();
      return;
    }
    if (what !== 'token' && what !== 'marks') this.entries.delete(id);
    if (what !== 'entry' && what !== 'marks') this.fills.delete(id);
    if (what !== 'entry' && what !== 'token') this.marks.delete(id);
  }

  /** What a stale replica or an old file brings back later, under a name of its own. */
  snapshot(): () => void {
    const [entries, fills, marks] = [new Map(this.entries), new Map(this.fills), new Map(this.marks)];
    return () => {
      this.run += 1;
      this.entries = entries;
      this.fills = fills;
      this.marks = marks;
    };
  }

  private now(): number {
    return this.simulation.time + this.wall.aheadMs;
  }

  private living<Kept extends { readonly expiresAt: number }>(map: Map<number, Kept>, id: number): Kept | undefined {
    const kept = map.get(id);
    return kept && kept.expiresAt > this.now() ? kept : undefined;
  }
}

/** The port as one instance of the distributed deployment has it. */
export function createSimulatedTransactionCache(
  simulation: Simulation,
  line: Server,
  server: CacheServer,
  instance: Actor,
  clock: Clock,
  ttlMs: number,
  roomForFills: () => boolean,
): TransactionCache {
  let tokens = 0;
  const newToken = () => `${instance.name}:${++tokens}`;
  const ask = <T>(operation: string, id: number, execute: () => T) =>
    line.ask(instance, operation, String(id), execute);

  async function lookUpOnce(id: number): Promise<CacheLookUpResult | 'wait'> {
    const token = newToken();
    const found = await ask('looks up', id, () => server.lookUp(id, token));
    if (found === 'wait') return 'wait';
    if (found === 'load') return { state: 'miss', token };
    return found === 'pass' ? { state: 'bypass' } : { state: 'hit', transaction: found };
  }

  const forgo = (id: number, token: string) => ask('gives a token back for', id, () => server.forgo(id, token));

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
        await forgo(id, token);
        return false;
      }
      const filled = await ask('fills', id, () => server.fill(id, token, transaction, ttlMs));
      simulation.count(filled ? 'fills' : 'fills refused');
      return filled;
    },

    forgo,

    async mark(id) {
      const token = newToken();
      const askedAt = clock.monotonic();
      await ask('marks', id, () => server.mark(id, token));
      return { id, token, writeBy: askedAt + WRITE_DEADLINE_MS };
    },

    refresh: ({ id, token }, transaction) => ask('refreshes', id, () => server.lift(id, token, transaction, ttlMs)),

    evict: ({ id, token }) => ask('evicts', id, () => server.lift(id, token, undefined, ttlMs)),
  };
}
