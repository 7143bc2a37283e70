import { LRUCache } from 'lru-cache';
import { type FinalOutcome, isVisibleTo } from '../../payments/values/payment.js';
import type { Clock } from '../../platform/clock.js';

/** 700 bytes each, so 14 MB: the outcomes of ten seconds, at 2,000 payments a second in a process. */
const REMEMBERED_OUTCOMES = 20_000;
/**
 * Redis may lose a record after it returned it (a promoted replica, FLUSHALL). So it is asked again after this time, and a lost
 * record is then written again. Clients usually repeat within seconds.
 */
export const ASK_AGAIN_AFTER_MS = 10_000;

/** The database as it is known at this moment. */
export interface KnownDatabase {
  readonly server: string;
  /** An upper bound of its clock; undefined when it has not answered for some seconds. */
  readonly latestMs: number | undefined;
}

/**
 * Outcomes that the key store returned to this process, so that a repeat needs no store. A final row never changes, so none can be
 * wrong. They are forgotten at their expiry by the database's clock, when the database server changes, and after a while.
 */
export class RememberedOutcomes {
  private readonly outcomes: LRUCache<string, FinalOutcome>;
  private server: string | undefined;

  constructor(
    private readonly database: () => KnownDatabase,
    clock: Clock,
    max = REMEMBERED_OUTCOMES,
  ) {
    this.outcomes = new LRUCache({
      max,
      ttl: ASK_AGAIN_AFTER_MS,
      ttlResolution: 0,
      perf: { now: () => clock.monotonic() },
    });
  }

  /** Without a `client` every key is visible. Another client's key is treated as an unknown key, at the same cost. */
  find(key: string, client: string | undefined): FinalOutcome | undefined {
    const { latestMs } = this.sameDatabase();
    const final = this.outcomes.get(key);
    if (!final || latestMs === undefined || !isVisibleTo(client, final.client)) return undefined;
    return final.expiresAt > latestMs ? final : undefined;
  }

  /** Only for an outcome that is not behind a lock. */
  remember(key: string, final: FinalOutcome): void {
    this.sameDatabase();
    this.outcomes.set(key, final);
  }

  /** Forgets all outcomes when the database server has changed, because rows may be lost. */
  private sameDatabase(): KnownDatabase {
    const database = this.database();
    if (database.server !== this.server) this.outcomes.clear();
    this.server = database.server;
    return database;
  }
}
