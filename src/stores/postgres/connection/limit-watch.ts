import type { PoolClient } from 'pg';
import { StoreUnavailable } from '../../../platform/faults.js';
import { askSessionLimits, endsInTime, type SessionLimits, type SessionStart, setUpSession } from './session.js';

/** A pooler may change the session behind an open connection; it is noticed within this time. */
export const WATCH_LIMITS_EVERY_MS = 1_000;
/** One good session proves nothing while a pooler has others: all that were asked for this long must be good. */
const GOOD_AFTER_MS = 10_000;

export const LIMIT_ADVICE =
  "Set it for the user of DATABASE_URL (ALTER ROLE ... SET statement_timeout = '5s'), and let the pooler open its connections anew";

/**
 * Whether the server ends our statements in time. A statement that runs on after its time outlives the write mark that protects the
 * cache, and the end of claims that retention relies on.
 */
export class LimitWatch {
  private readonly sessions = new WeakMap<PoolClient, { readonly mark: string; readonly setUpAt: number }>();
  private latest: SessionLimits | undefined;
  private badAt = Number.NEGATIVE_INFINITY;

  /** For every new connection. */
  async setUp(client: PoolClient, limitMs: number): Promise<Omit<SessionStart, 'mark'>> {
    const { mark, ...start } = await setUpSession(client, limitMs);
    this.sessions.set(client, { mark, setUpAt: performance.now() });
    if (!start.standby) await this.look(client);
    return start;
  }

  /** Asks behind a connection that was set up. */
  async look(client: PoolClient): Promise<SessionLimits> {
    const limits = await askSessionLimits(client, this.sessions.get(client)?.mark ?? '');
    if (!endsInTime(limits)) {
      this.latest = limits;
      this.badAt = performance.now();
    }
    return limits;
  }

  /** Whether it is to be closed after use: it was set up before a bad session was found, and may have lost its settings with that one. */
  isDoubtful(client: PoolClient): boolean {
    return (this.sessions.get(client)?.setUpAt ?? 0) < this.badAt;
  }

  /** Why nothing may be changed; undefined where it may. */
  get refusal(): StoreUnavailable | undefined {
    if (!this.latest || performance.now() - this.badAt >= GOOD_AFTER_MS) return undefined;
    return new StoreUnavailable('unchanged', `${wordsOf(this.latest)}. ${LIMIT_ADVICE}`);
  }
}

function wordsOf({ statementTimeoutMs, isAnother }: SessionLimits): string {
  const found = statementTimeoutMs === 0 ? 'no statement_timeout' : `a statement_timeout of ${statementTimeoutMs} ms`;
  const where = isAnother ? 'A connection pooler leads to sessions of PostgreSQL that have' : 'PostgreSQL has';
  return `${where} ${found}, so a change could be committed after the service has given it up`;
}
