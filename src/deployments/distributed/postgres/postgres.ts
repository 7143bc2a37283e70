import { setTimeout as delay } from 'node:timers/promises';
import { type Notification, Pool, type PoolClient, type QueryResultRow } from 'pg';
import { StoreUnavailable } from '../../../faults.js';
import { NOT_MEASURED, type StoreMeasures } from '../../store-measures.js';
import { STATEMENT_TIMEOUT_MS } from '../time-limits.js';

const CONNECT_TIMEOUT_MS = 2_000;
/** The client gives up after the server should have: what is still unanswered then is unknown. */
const QUERY_TIMEOUT_MS = STATEMENT_TIMEOUT_MS + 1_000;
/** Limit for the time before a statement is sent: waiting for a free connection, or opening one and checking its server. */
const CONNECT_LIMIT_MS = 3_000;
/** Requests that wait for a connection. */
const MAX_WAITING_FOR_CONNECTION = 10_000;
/** A drain waits this long for statements that are still under way. */
const CLOSE_LIMIT_MS = QUERY_TIMEOUT_MS + 1_000;
/** A snapshot waits this long for a slow reader of its list. */
const IDLE_IN_TRANSACTION_TIMEOUT_MS = 60_000;

/**
 * Planner settings for a few short queries on large tables (docs/decisions/0038). Each statement is written for one index and keeps its
 * first plan: a sequential scan that was chosen while a table was small would later read the whole large table. JIT compilation takes
 * longer than any of them runs.
 */
const SESSION_SETTINGS = { enable_seqscan: 'off', plan_cache_mode: 'force_generic_plan', jit: 'off' };

/** A statement with a name is parsed and planned once per connection. */
export interface Statement {
  readonly name: string;
  readonly text: string;
}

/** The server refused a statement, so it surely changed nothing. */
export class StatementRefused extends StoreUnavailable {
  constructor(
    readonly sqlState: string,
    cause: Error,
  ) {
    super('unchanged', `PostgreSQL refused a statement (${sqlState}): ${cause.message}`, cause);
  }

  /** A value of one item is at fault (SQLSTATE classes 22 and 23, or too large for an index), so the others of its batch may be fine. */
  get isOfOneItem(): boolean {
    return /^(22|23|54000)/.test(this.sqlState);
  }

  /** No disk or memory is left (53), a file fails (58), a right is missing, or the database is read-only. */
  get isOfServer(): boolean {
    return /^(53|58|42501|25006)/.test(this.sqlState);
  }
}

/** Connected to a server that follows another one, which nothing can be written to. */
export class StandbyRefused extends Error {
  override readonly name = 'StandbyRefused';
}

/** A pool of connections to the primary; every call ends by a deadline. */
export class Postgres {
  private readonly pool: Pool;
  /** Statements that failed because of the server's state, until one of them succeeds; success of others, such as reads, proves nothing. */
  private readonly refused = new Set<string>();

  /**
   * `onFailed` is called for each call that failed because the server is away or takes no writes, and `onServed` for the
   * others.
   * `onConnect` is asked about every new connection before it is used; where it throws, the connection is closed.
   */
  constructor(
    url: string,
    size: number,
    private readonly onFailed: (fault: StoreUnavailable) => void,
    onConnect: (client: PoolClient) => Promise<void> = async () => {},
    private readonly onServed: () => void = () => {},
    private readonly measures: StoreMeasures = NOT_MEASURED,
  ) {
    this.pool = new Pool({
      connectionString: url,
      max: size,
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      statement_timeout: STATEMENT_TIMEOUT_MS,
      query_timeout: QUERY_TIMEOUT_MS,
      idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_TIMEOUT_MS,
      keepAlive: true,
      application_name: 'idempay',
      verify: (client, done) => {
        setUp(client)
          .then(() => onConnect(client))
          .then(
            () => done(),
            (error: Error) => done(error),
          );
      },
    });
    // A lost idle connection is replaced when it is needed; calls report a server that is away.
    this.pool.on('error', ignore);
    // While a connection is verified or checked out the pool itself does not listen, and without a listener an error would
    // end the process. What was asked of the connection fails by itself.
    this.pool.on('connect', (client) => client.on('error', ignore));
    measures.queue('postgresql', 'connections').watch(() => this.pool.waitingCount);
  }

  /** Reads rows; a fault leaves nothing changed. */
  read<Row extends QueryResultRow>(statement: Statement, values: readonly unknown[] = []): Promise<Row[]> {
    return this.run<Row>(statement, values, 'unchanged');
  }

  /** Runs one statement, which commits by itself. A lost reply is an unknown commit: read it back, never repeat it. */
  write<Row extends QueryResultRow>(statement: Statement, values: readonly unknown[] = []): Promise<Row[]> {
    return this.run<Row>(statement, values, 'unknown');
  }

  /** A connection of one's own, for a transaction; `release(true)` closes it. */
  async connect(): Promise<PoolClient> {
    if (this.pool.waitingCount >= MAX_WAITING_FOR_CONNECTION) {
      throw new StoreUnavailable('unchanged', `${MAX_WAITING_FOR_CONNECTION} requests wait for PostgreSQL already`);
    }
    const connecting = this.pool.connect();
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

  async close(): Promise<void> {
    await Promise.race([this.pool.end(), delay(CLOSE_LIMIT_MS, undefined, { ref: false })]);
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
      if (this.refused.size === 0) this.onServed();
      return rows;
    } catch (error) {
      if (error instanceof StoreUnavailable) throw error;
      const refusal = refusalOf(error);
      unusable = refusal === undefined;
      if (refusal?.isOfServer) {
        this.refused.add(statement.name);
        this.failed(refusal);
      }
      throw refusal ?? this.failed(new StoreUnavailable(effectOfLostReply, 'PostgreSQL did not answer', error));
    } finally {
      client.off('notice', onNotice);
      client.release(unusable);
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
  let failed = true;
  try {
    const { rows } = await client.query<Row>({ ...statement, values: [...values] });
    failed = false;
    return rows;
  } finally {
    trips.end(begun, failed);
  }
}

/** An SQLSTATE; the codes of the operating system and of the driver look different. */
const SQL_STATE = /^[0-9A-Z]{5}$/;
/**
 * SQLSTATEs of the connection or the server, not of the statement: connection lost, completion unknown, shutdown, session
 * timed out, internal error.
 */
const NOTHING_CERTAIN = /^(08|40003|57P0|25P0[345]|XX)/;

/** By the code and not by the severity, which the server words in its own language. */
function refusalOf(error: unknown): StatementRefused | undefined {
  const { code } = error as { code?: unknown };
  if (typeof code !== 'string' || !SQL_STATE.test(code) || NOTHING_CERTAIN.test(code)) return undefined;
  return new StatementRefused(code, error as Error);
}

/**
 * Applies the session settings, and refuses a standby. It has the time limit of connecting, so that a server that accepts the
 * connection and then does not answer is given up as soon.
 */
async function setUp(client: PoolClient): Promise<void> {
  const settings = Object.entries(SESSION_SETTINGS).map(([name, value]) => `set_config('${name}', '${value}', false)`);
  const text = `SELECT pg_is_in_recovery() AS standby, ${settings.join(', ')}`;
  const question = { text, query_timeout: CONNECT_TIMEOUT_MS };
  const { rows } = await client.query<{ standby: boolean }>(question);
  if (rows[0]?.standby) throw new StandbyRefused('this PostgreSQL server is a standby; connect to the primary');
}

function ignore(): void {}
