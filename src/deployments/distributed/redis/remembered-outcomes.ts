import { LRUCache } from 'lru-cache';
import type { Clock } from '../../../clock.js';
import { type FinalOutcome, isVisibleTo } from '../../../payments/values/payment.js';

/** 700 bytes each, so 14 MB: those of ten seconds, at 2,000 payments a second in a process. */
const REMEMBERED_OUTCOMES = 20_000;
/**
 * Redis may have lost what it told (a promoted replica, FLUSHALL). So long after it told an outcome it is asked again, and a
 * record that it lost is then written anew. Clients repeat in seconds.
 */
export const ASK_AGAIN_AFTER_MS = 10_000;

/** The database as it is known at this moment. */
export interface KnownDatabase {
  readonly server: string;
  /** What its clock shows at most; undefined when it was not heard of for some seconds. */
  readonly latestMs: number | undefined;
}

/**
 * Outcomes that the key store told this process, so that a repeat asks nobody. A final row never changes, so none can be wrong:
 * they end with their expiry by the database's clock, with the database server that they were told beside, and after a while.
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

  /** `client` undefined: sees every key. Of another client's key nothing is known here: it must cost what an unknown key costs. */
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

  /** Rows may be lost with the server before: what was told of them is forgotten. */
  private sameDatabase(): KnownDatabase {
    const database = this.database();
    if (database.server !== this.server) this.outcomes.clear();
    this.server = database.server;
    return database;
  }
}
