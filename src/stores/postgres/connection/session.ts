import { randomUUID } from 'node:crypto';
import type { ClientBase, PoolClient } from 'pg';
import { StoreUnavailable } from '../../../platform/faults.js';
import { LOCK_TIMEOUT_MS, STATEMENT_TIMEOUT_MS } from '../../shared/time-limits.js';

/** A snapshot waits this long for a slow reader of its list, and a transaction of a command for a program that does not go on. */
const IDLE_IN_TRANSACTION_TIMEOUT_MS = 60_000;

/**
 * Planner settings for a few short queries on large tables (docs/engineering/decisions/0038). Each statement is written for one index and keeps its
 * first plan: a sequential scan that was chosen while a table was small would later read the whole large table. JIT compilation takes
 * longer than any of them runs.
 */
const PLANNER = { enable_seqscan: 'off', plan_cache_mode: 'force_generic_plan', jit: 'off' };

/**
 * A host that died in the middle of a statement holds its locks until the server ends the session: within about ten seconds, and not
 * the two hours that are usual. In seconds, except `tcp_user_timeout`, which is in ms. A server that cannot set one ignores it.
 */
const DEAD_HOST = {
  tcp_keepalives_idle: '5',
  tcp_keepalives_interval: '2',
  tcp_keepalives_count: '3',
  tcp_user_timeout: '11000',
};

/**
 * A statement that waited for a row goes on with that row as it is now, and the guard of the cache's epoch reads the newest one. In a higher
 * level, which a user or a database may have, the statement would be refused (40001). Lists name their own level.
 */
const ISOLATION = { default_transaction_isolation: 'read committed' };

/**
 * Only a warning tells that the wait of a commit for its standby was cancelled. Times in microseconds have 16 digits, which a server with the
 * default of before version 12 would cut, so that a page begins with the last row of the page before.
 */
const ANSWERS = { client_min_messages: 'warning', extra_float_digits: '1' };

const SESSION_SETTINGS = {
  statement_timeout: String(STATEMENT_TIMEOUT_MS),
  lock_timeout: String(LOCK_TIMEOUT_MS),
  idle_in_transaction_session_timeout: String(IDLE_IN_TRANSACTION_TIMEOUT_MS),
  ...ISOLATION,
  ...ANSWERS,
  ...PLANNER,
  ...DEAD_HOST,
};

/** Rows of SQL. */
const rowsOf = (settings: Readonly<Record<string, string>>) =>
  Object.entries(settings)
    .map(([name, value]) => `('${name}', '${value}')`)
    .join(', ');

/** For a session that may hold a lock between its transactions. */
export const END_WITH_HOST = `
  SELECT set_config(name, value, false) FROM (VALUES ${rowsOf(DEAD_HOST)}) AS wanted (name, value)`;

/**
 * For each transaction of a command that changes many rows, because a pooler may give the next one another session. It takes as long as it
 * takes, also if the role or the database sets a limit, and ends only with its host or its program. Some limits exist only in later versions.
 */
export const LIMITS_OF_COMMAND = `
  SELECT set_config(name, value, true) FROM (VALUES ${rowsOf({
    statement_timeout: '0',
    lock_timeout: '0',
    transaction_timeout: '0',
    idle_in_transaction_session_timeout: String(IDLE_IN_TRANSACTION_TIMEOUT_MS),
    ...DEAD_HOST,
  })}) AS wanted (name, value) JOIN pg_settings USING (name)`;

/** A setting of no meaning to the server, by which a session is recognized. */
const MARK = 'idempay.session';

/**
 * For statements whose effect must not come later than the service expects: write marks of the cache and the horizon of retention are
 * made for this limit. Without it they do nothing, also in a session that a pooler put behind our connection a moment ago.
 */
export const ENDS_IN_TIME = `current_setting('statement_timeout')::interval
        BETWEEN interval '1 ms' AND interval '${STATEMENT_TIMEOUT_MS} ms'`;

/** In recovery every transaction is read-only; without it, a user, a database or the server may be set to it. */
export const IS_READ_ONLY = `current_setting('transaction_read_only') = 'on'`;

/** The server's restrictions on a session, and the name by which the session is recognized. */
export interface SessionStart {
  readonly standby: boolean;
  readonly readOnly: boolean;
  readonly mark: string;
}

/**
 * Sets what the service needs of a session, by a statement: poolers drop or refuse settings in the start-up message. `limitMs`: how long
 * the answer may take, because the server has no limit yet.
 */
export async function setUpSession(client: ClientBase, limitMs: number): Promise<SessionStart> {
  const mark = randomUUID();
  const settings = Object.entries({ ...SESSION_SETTINGS, [MARK]: mark }).map(
    ([name, value]) => `set_config('${name}', '${value}', false)`,
  );
  const text = `SELECT pg_is_in_recovery() AS standby, ${IS_READ_ONLY} AS "readOnly", ${settings.join(', ')}`;
  const question = { text, query_timeout: limitMs } as { text: string };
  const { rows } = await client.query<{ standby: boolean; readOnly: boolean }>(question);
  return { standby: rows[0]?.standby === true, readOnly: rows[0]?.readOnly === true, mark };
}

/** The limits that the server uses behind a connection at this moment; 0 means that there is no limit. */
export interface SessionLimits {
  readonly statementTimeoutMs: number;
  readonly lockTimeoutMs: number;
  /** The session is another one than that which was set up, or its settings were reset. */
  readonly isAnother: boolean;
  /** Nothing can be written in it: the server is a standby, or it, the database or the user is set to that. */
  readonly readOnly: boolean;
}

/**
 * Asks in a statement of its own: a pooler may answer it from another session. If it does, the next statement may meet a session that
 * was never set up, so what counts then is what new sessions of this user begin with.
 */
export async function askSessionLimits(client: ClientBase, mark: string): Promise<SessionLimits> {
  const { rows } = await client.query<{
    name: string;
    setting: number;
    initial: number;
    mark: string | null;
    readOnly: boolean;
  }>({
    name: 'session_limits',
    text: `
      SELECT name, setting::float8 AS setting, reset_val::float8 AS initial, current_setting('${MARK}', true) AS mark,
        ${IS_READ_ONLY} AS "readOnly"
      FROM pg_settings WHERE name IN ('statement_timeout', 'lock_timeout')`,
  });
  const isAnother = rows.some((row) => row.mark !== mark);
  const limitOf = (wanted: string) => {
    const row = rows.find(({ name }) => name === wanted);
    return weakest(row?.setting ?? 0, isAnother ? (row?.initial ?? 0) : (row?.setting ?? 0));
  };
  const readOnly = rows.some((row) => row.readOnly);
  return {
    statementTimeoutMs: limitOf('statement_timeout'),
    lockTimeoutMs: limitOf('lock_timeout'),
    isAnother,
    readOnly,
  };
}

function weakest(oneMs: number, otherMs: number): number {
  return oneMs === 0 || otherMs === 0 ? 0 : Math.max(oneMs, otherMs);
}

/** True if a statement surely ends when the service expects it to. */
export function endsInTime({ statementTimeoutMs }: SessionLimits): boolean {
  return statementTimeoutMs > 0 && statementTimeoutMs <= STATEMENT_TIMEOUT_MS;
}

/** A pooler may change the session behind an open connection; it is noticed within this time. */
export const WATCH_LIMITS_EVERY_MS = 1_000;
/** One good session proves nothing while a pooler has others: all that were asked for this long must be good. */
const GOOD_AFTER_MS = 10_000;

const LIMIT_ADVICE =
  "Set it for the user of DATABASE_URL (ALTER ROLE ... SET statement_timeout = '5s'), and let the pooler open its connections anew";

/**
 * Watches that the server ends our statements in time. A statement that runs on after its time outlives the write mark that protects the
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

  /** True if it is to be closed after use: it was set up before a bad session was found, and may have lost its settings with that one. */
  isDoubtful(client: PoolClient): boolean {
    return (this.sessions.get(client)?.setUpAt ?? 0) < this.badAt;
  }

  /** Why nothing may be changed; undefined if it may. */
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
