import { setTimeout as delay } from 'node:timers/promises';
import { DatabaseError, type Notification, Pool, type PoolClient, type QueryResultRow } from 'pg';
import { StoreUnavailable } from '../../../platform/faults.js';
import { CannotOpen } from '../../shared/deployment.js';
import type { Commit, LastCommits } from '../../shared/last-commits.js';
import { NOT_MEASURED, type StoreMeasures } from '../../shared/store-measures.js';
import { STATEMENT_TIMEOUT_MS } from '../../shared/time-limits.js';
import { AddressedClient, type DatabaseAddress } from './address.js';
import { IS_READ_ONLY, LimitWatch, type SessionStart, WATCH_LIMITS_EVERY_MS } from './session.js';

const CONNECT_TIMEOUT_MS = 2_000;
/** The client gives up after the server should have: what is still unanswered then is unknown. */
const QUERY_TIMEOUT_MS = STATEMENT_TIMEOUT_MS + 1_000;
/** Limit for the time before a statement is sent: waiting for a free connection, or opening one and checking its server. */
const CONNECT_LIMIT_MS = 3_000;
/** Requests that wait for a connection. */
const MAX_WAITING_FOR_CONNECTION = 10_000;
/** A drain waits this long for statements that are still under way. */
const CLOSE_LIMIT_MS = QUERY_TIMEOUT_MS + 1_000;
/** A statement with a name is parsed and planned once per connection. */
export interface Statement {
  readonly name: string;
  readonly text: string;
  /** A row that it wrote, by which its commit is found again, of those that it returns. */
  readonly commitOf?: (rows: readonly QueryResultRow[]) => Commit | undefined;
}

/** The server refused a statement, so it surely changed nothing. */
export class StatementRefused extends StoreUnavailable {
  constructor(
    readonly sqlState: string,
    cause: Error,
  ) {
    super('unchanged', `PostgreSQL refused a statement (${sqlState}): ${cause.message}`, cause);
  }

  /**
   * One item is at fault, so the others of its batch may be fine. Its value was refused (SQLSTATE classes 22 and 23, or too large for an
   * index), or another session blocks its row (55P03 lock time-out, 40P01 deadlock).
   */
  get isOfOneItem(): boolean {
    return /^(22|23|54000|55P03|40P01)/.test(this.sqlState);
  }

  /** No disk or memory is left (53), a file fails (58), a right is missing, or the database is read-only. */
  get isOfServer(): boolean {
    return /^(53|58|42501|25006)/.test(this.sqlState);
  }

  /** The session stays read-only, also when the server is not any more. */
  get isOfReadOnlySession(): boolean {
    return this.sqlState === '25006';
  }
}

const STANDBY = 'this PostgreSQL server is a standby; connect to the primary';
const READ_ONLY = 'PostgreSQL is set to read only (default_transaction_read_only)';
const ASK_READ_ONLY = `SELECT pg_is_in_recovery() AS standby, ${IS_READ_ONLY} AS "readOnly"`;

type ReadOnlyRow = Omit<SessionStart, 'mark'>;

/** Connected to a server that follows another one, or that was replaced by another one, which nothing may be written to. */
export class StandbyRefused extends Error {
  override readonly name = 'StandbyRefused';

  /** `hostCount`: the hosts of the address. Of several, another one may be the primary, or become it. */
  constructor(
    readonly hostCount: number,
    sentence: string = STANDBY,
  ) {
    super(sentence);
  }
}

interface PostgresOptions {
  /** Asked about every new connection before it is used; if it throws, the connection is closed. */
  readonly onConnect?: (client: PoolClient) => Promise<void>;
  /** Called for each call that did not fail because of the server. */
  readonly onServed?: () => void;
  readonly measures?: StoreMeasures | undefined;
  readonly lastCommits?: LastCommits;
  /** The reason why nothing may be written. Undefined if there is none. */
  readonly refusal?: () => StoreUnavailable | undefined;
}

/** A pool of connections to the primary; every call ends by a deadline. */
export class Postgres {
  private readonly pool: Pool;
  /** Statements that failed because of the server's state, until one of them succeeds; success of others, such as reads, proves nothing. */
  private readonly refused = new Set<string>();
  private readonly limits = new LimitWatch();
  /** The value of `renewals` when a connection was opened. */
  private readonly openedAt = new WeakMap<PoolClient, number>();
  private renewals = 0;
  private watching: NodeJS.Timeout | undefined;
  /** Why the newest session cannot write, by what the server says of it. Meanwhile those that only read are kept. */
  private readOnly: typeof STANDBY | typeof READ_ONLY | undefined;
  private readonly onServed: () => void;
  private readonly measures: StoreMeasures;
  readonly lastCommits: LastCommits | undefined;
  private readonly forbidden: () => StoreUnavailable | undefined;

  /** `onFailed` is called for each call that failed because the server is down or takes no writes. */
  constructor(
    private readonly address: DatabaseAddress,
    private readonly size: number,
    private readonly onFailed: (fault: StoreUnavailable) => void,
    {
      onConnect = async () => {},
      onServed = () => {},
      measures = NOT_MEASURED,
      lastCommits,
      refusal = () => undefined,
    }: PostgresOptions = {},
  ) {
    this.forbidden = refusal;
    this.onServed = onServed;
    this.measures = measures;
    this.lastCommits = lastCommits;
    this.pool = new Pool({
      Client: address.clientClass(),
      max: size,
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      query_timeout: QUERY_TIMEOUT_MS,
      keepAlive: true,
      application_name: 'idempay',
      verify: (client, done) => {
        this.setUp(client)
          .then(() => onConnect(client))
          .then(
            () => {
              this.openedAt.set(client, this.renewals);
              done();
            },
            (error: Error) => {
              if (error instanceof StandbyRefused && client instanceof AddressedClient) client.leave();
              done(error);
            },
          );
      },
    });
    // A lost idle connection is replaced when it is needed; calls report a server that is down.
    this.pool.on('error', ignore);
    measures.queue('postgresql', 'connections').watch(() => this.pool.waitingCount);
  }

  /** Reads rows; a fault leaves nothing changed. */
  read<Row extends QueryResultRow>(statement: Statement, values: readonly unknown[] = []): Promise<Row[]> {
    return this.run<Row>(statement, values, 'unchanged');
  }

  /**
   * Runs one statement, which commits by itself. A lost reply is an unknown commit: read it back, never repeat it. Refused while the
   * server does not end statements in time.
   */
  async write<Row extends QueryResultRow>(statement: Statement, values: readonly unknown[] = []): Promise<Row[]> {
    const { refusal } = this.limits;
    if (refusal) throw this.failed(refusal);
    return this.commit<Row>(statement, values);
  }

  /** The same for what may come late without harm: it ends what was begun, or changes nothing that others rely on. */
  writeHoweverLate<Row extends QueryResultRow>(statement: Statement, values: readonly unknown[] = []): Promise<Row[]> {
    return this.commit<Row>(statement, values);
  }

  private async commit<Row extends QueryResultRow>(statement: Statement, values: readonly unknown[]): Promise<Row[]> {
    const forbidden = this.forbidden();
    if (forbidden) throw this.failed(forbidden);
    const begunAt = this.lastCommits?.begin();
    const rows = await this.run<Row>(statement, values, 'unknown');
    const commit = statement.commitOf?.(rows);
    if (commit) this.lastCommits?.add(commit, begunAt);
    return rows;
  }

  /** Why nothing may be changed, although the server answers; undefined if it may. */
  get refusal(): StoreUnavailable | undefined {
    return (
      this.forbidden() ?? this.limits.refusal ?? (this.readOnly && new StoreUnavailable('unchanged', this.readOnly))
    );
  }

  /**
   * Throws if the server does not end our statements in time, also behind a pooler that gives each transaction another session: the
   * second connection has then replaced what the first one has set.
   */
  async start(): Promise<void> {
    const first = await this.connect();
    try {
      // A pool of one, in tests, has no second.
      const second = this.size > 1 ? await this.connect() : undefined;
      try {
        await this.limits.look(first);
      } finally {
        second?.release();
      }
    } finally {
      first.release();
    }
    const { refusal } = this.limits;
    if (refusal) throw new CannotOpen(`DATABASE_URL: PostgreSQL cannot be used: ${refusal.message}.`);
    this.watching ??= setInterval(() => this.lookAtLimits(), WATCH_LIMITS_EVERY_MS).unref();
  }

  private async lookAtLimits(): Promise<void> {
    // One session a second is opened while new ones cannot write: this one, which is never used.
    if (this.readOnly) await this.judgeNewSession();
    const client = await this.connect().catch(ignore);
    if (!client) return;
    const limits = await this.limits.look(client).catch(ignore);
    const isStale = limits?.readOnly === true && !this.readOnly;
    client.release(!limits || isStale || this.limits.isDoubtful(client));
    if (isStale) await this.judgeNewSession();
    const { refusal } = this;
    if (refusal) this.failed(refusal);
  }

  /**
   * If none can be opened, what was known stays: calls report a server that is down. With several hosts the next look asks the next host,
   * because no other connection may be opened meanwhile.
   */
  private async judgeNewSession(): Promise<void> {
    const limits = { connectionTimeoutMillis: CONNECT_TIMEOUT_MS, query_timeout: CONNECT_TIMEOUT_MS };
    const client = this.address.client({ ...limits, application_name: 'idempay' });
    try {
      await client.connect();
      const session = (await client.query<ReadOnlyRow>(ASK_READ_ONLY)).rows[0];
      this.judge(session);
      if (session?.standby) client.leave();
    } catch {
      // It is asked again in a second.
      client.leave();
    } finally {
      client.end().catch(ignore);
    }
  }

  private judge(session: ReadOnlyRow | undefined): void {
    if (session?.standby) this.readOnly = STANDBY;
    else this.readOnly = session?.readOnly ? READ_ONLY : undefined;
  }

  /** A connection of one's own, for a transaction; `release(true)` closes it. */
  async connect(): Promise<PoolClient> {
    if (this.pool.waitingCount >= MAX_WAITING_FOR_CONNECTION) {
      throw new StoreUnavailable('unchanged', `${MAX_WAITING_FOR_CONNECTION} requests wait for PostgreSQL already`);
    }
    // A pool without sessions would open one for each request, and each would be refused. `start` looks for itself.
    if (this.readOnly === STANDBY && this.watching && this.pool.totalCount === 0) {
      throw this.failed(new StoreUnavailable('unchanged', STANDBY, new StandbyRefused(this.address.hostCount)));
    }
    const connecting = this.takeConnection();
    let timer: NodeJS.Timeout | undefined;
    const limit = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        // The connection goes to the next request.
        connecting.then((client) => client.release(), ignore);
        reject(new Error(`timeout: no connection within ${CONNECT_LIMIT_MS} ms`));
      }, CONNECT_LIMIT_MS);
    });
    try {
      return await Promise.race([connecting, limit]);
    } catch (error) {
      throw this.failed(new StoreUnavailable('unchanged', 'PostgreSQL cannot be reached', error));
    } finally {
      clearTimeout(timer);
    }
  }

  /** Each connection that was opened before is closed when it would be used next. */
  renew(): void {
    this.renewals += 1;
  }

  private async takeConnection(): Promise<PoolClient> {
    for (;;) {
      const client = await this.pool.connect();
      if (this.openedAt.get(client) === this.renewals) return client;
      client.release(true);
    }
  }

  async close(): Promise<void> {
    clearInterval(this.watching);
    await Promise.race([this.pool.end(), delay(CLOSE_LIMIT_MS, undefined, { ref: false })]);
  }

  /**
   * Sets the session up, and refuses a standby. It has the time limit of connecting, so that a server that accepts the connection and
   * then does not answer is given up as soon.
   */
  private async setUp(client: PoolClient): Promise<void> {
    const session = await this.limits.setUp(client, CONNECT_TIMEOUT_MS);
    this.judge(session);
    if (session.standby) throw new StandbyRefused(this.address.hostCount);
  }

  private failed(fault: StoreUnavailable): StoreUnavailable {
    this.onFailed(fault);
    return fault;
  }

  private async run<Row extends QueryResultRow>(
    statement: Statement,
    values: readonly unknown[],
    effectOfLostReply: 'unchanged' | 'unknown',
  ): Promise<Row[]> {
    const client = await this.connect();
    let standbyWaitCancelled = false;
    const onNotice = (notice: Notification | { routine?: string }) => {
      if ('routine' in notice && notice.routine === 'SyncRepWaitForLSN') standbyWaitCancelled = true;
    };
    client.on('notice', onNotice);
    let unusable = true;
    try {
      const rows = await ask<Row>(client, statement, values, this.measures);
      unusable = false;
      // Committed here, but perhaps on no standby: a failover could still take it back.
      if (standbyWaitCancelled)
        throw new StoreUnavailable('unknown', 'the wait for a synchronous standby was cancelled');
      if (this.refused.size > 0 && this.refused.has(statement.name)) this.refused.clear();
      if (this.refused.size === 0 && !this.refusal) this.onServed();
      return rows;
    } catch (error) {
      if (error instanceof StoreUnavailable) throw error;
      const refusal = refusalOf(error);
      // While new sessions cannot write either, another one would only be refused again.
      unusable = refusal === undefined || (refusal.isOfReadOnlySession && !this.readOnly);
      if (refusal?.isOfServer) {
        this.refused.add(statement.name);
        this.failed(refusal);
      }
      throw refusal ?? this.failed(new StoreUnavailable(effectOfLostReply, 'PostgreSQL did not answer', error));
    } finally {
      client.off('notice', onNotice);
      client.release(unusable || this.limits.isDoubtful(client));
    }
  }
}

/** One measured round trip. Rejects with what the driver says. */
export async function ask<Row extends QueryResultRow>(
  client: PoolClient,
  statement: Statement,
  values: readonly unknown[],
  measures: StoreMeasures,
): Promise<Row[]> {
  const trips = measures.roundTrips('postgresql', statement.name);
  const begun = trips.begin();
  try {
    const { rows } = await client.query<Row>({ ...statement, values: [...values] });
    return rows;
  } finally {
    trips.end(begun);
  }
}

/**
 * SQLSTATEs of the connection or the server, not of the statement: connection lost, completion unknown, shutdown, session
 * timed out, internal error.
 */
const NOTHING_CERTAIN = /^(08|40003|57P0|25P0[345]|XX)/;

/** By the code and not by the severity, which the server words in its own language. */
function refusalOf(error: unknown): StatementRefused | undefined {
  // Only the server gives SQLSTATEs: a code of the operating system may look like one (EPIPE).
  if (!(error instanceof DatabaseError) || error.code === undefined || NOTHING_CERTAIN.test(error.code))
    return undefined;
  return new StatementRefused(error.code, error);
}

function ignore(): undefined {}
