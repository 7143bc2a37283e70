import type { PoolClient, QueryResultRow } from 'pg';
import type { Clock } from '../../../clock.js';
import { StoreUnavailable } from '../../../faults.js';
import type { StoreOfRecordReport } from '../../../health/store-of-record.js';
import { CannotOpen } from '../../deployment.js';
import type { LogPositions } from '../log-positions.js';
import { ADOPT, IDENTIFY } from './database-identity-statements.js';
import type { Postgres, Statement } from './postgres.js';

/** A connection pooler may change the server behind an open connection; it is noticed within this time. */
const WATCH_EVERY_MS = 1_000;
/** Without an answer for this long the database counts as away. One question that waits in a busy pool is no sign of that. */
const AWAY_AFTER_MS = 3_000;

interface DatabaseRow {
  id: string;
  incarnation: string;
  timeline: string;
  /** The server is the one that was last written down. */
  known: boolean;
  /** System identifier, database, timeline and incarnation. */
  server: string;
  position: number;
}

interface Seen {
  readonly server: string;
  readonly timeline: string;
  readonly position: number;
  /** The order in which the questions were sent. */
  readonly question: number;
}

type Query = <Row extends QueryResultRow>(statement: Statement, values?: readonly unknown[]) => Promise<Row[]>;

/**
 * Which deployment the database belongs to, and which server it is on (decisions O5). Another server, or another timeline,
 * may lack rows that were committed before, after a failover to an asynchronous standby or a restore: that is written
 * down once, before anything is claimed there.
 */
export class DatabaseIdentity implements StoreOfRecordReport {
  private id: string | undefined;
  private seen: Seen | undefined;
  private questions = 0;
  private positions: LogPositions | undefined;
  private stopped = false;
  private answeredAt = Number.NEGATIVE_INFINITY;
  private cancelNext = () => {};

  constructor(
    private readonly clock: Clock,
    private readonly onReplaced: () => void,
  ) {}

  /** Part of every name in Redis. */
  get deploymentId(): string {
    if (this.id === undefined) throw new Error('the database was not identified yet');
    return this.id;
  }

  /** The server that was last seen. Data that was read from another server must not count as data of this one. */
  get server(): string {
    if (!this.seen) throw new Error('the database was not identified yet');
    return this.seen.server;
  }

  /** Sends no query: it looks at the result of the watch, which asks every second. */
  async ping(): Promise<void> {
    if (this.clock.monotonic() - this.answeredAt < AWAY_AFTER_MS) return;
    throw new StoreUnavailable('unchanged', `PostgreSQL did not answer for ${AWAY_AFTER_MS} ms`);
  }

  /** Once the schema is there. Throws when the database cannot be asked. */
  async start(database: Postgres): Promise<void> {
    await this.identify(queryOf(database));
  }

  /** For every new connection, before it is used. */
  async observe(client: PoolClient): Promise<void> {
    // Before the start the schema may not be there.
    if (!this.seen) return;
    await this.identify(async (statement, values = []) => {
      return (await client.query({ ...statement, values: [...values] })).rows;
    });
  }

  /** Looks every second, beginning at once: resolves when the positions that were remembered before have been compared. */
  async watch(database: Postgres, positions: LogPositions): Promise<void> {
    this.positions = positions;
    const query = queryOf(database);
    await this.remember();
    // A database that went away is identified again on each new connection and every second.
    await this.identify(query).catch((fault: unknown) => {
      if (fault instanceof CannotOpen) throw fault;
    });
    this.scheduleNext(query);
  }

  stop(): void {
    this.stopped = true;
    this.cancelNext();
  }

  private scheduleNext(query: Query): void {
    if (this.stopped) return;
    this.cancelNext = this.clock.after(WATCH_EVERY_MS, () => {
      this.identify(query)
        .catch(() => {})
        .then(() => this.remember())
        .finally(() => this.scheduleNext(query));
    });
  }

  private async identify(query: Query): Promise<void> {
    const before = this.seen;
    this.questions += 1;
    const question = this.questions;
    let row = await identifyOnce(query);
    if (this.id !== undefined && row.id !== this.id) {
      throw new CannotOpen(
        'DATABASE_URL leads to the database of another deployment now. Restart the process to use it.',
      );
    }
    // What was remembered before the question is the least that the server must have reached.
    const steppedBack = before?.server === row.server && row.position < before.position;
    if (steppedBack || !row.known) {
      await query(ADOPT, [steppedBack ? row.incarnation : null]);
      row = await identifyOnce(query);
    }
    this.id = row.id;
    this.answeredAt = this.clock.monotonic();
    this.accept(row, question);
  }

  /** Ignores a late reply that names an older timeline. */
  private accept({ server, timeline, position }: DatabaseRow, question: number): void {
    const { seen } = this;
    if (seen && question < seen.question && timeline <= seen.timeline) return;
    const highest = seen?.server === server ? Math.max(seen.position, position) : position;
    this.seen = { server, timeline, position: highest, question };
    if (seen && seen.server !== server) this.onReplaced();
  }

  /** Best effort: while Redis is away, only processes that run during a restore notice it. */
  private async remember(): Promise<void> {
    const { seen, positions } = this;
    if (!seen || !positions) return;
    const highest = await positions.raise(seen.server, seen.position).catch(() => seen.position);
    if (this.seen?.server === seen.server) {
      this.seen = { ...this.seen, position: Math.max(this.seen.position, highest) };
    }
  }
}

async function identifyOnce(query: Query): Promise<DatabaseRow> {
  const [row] = await query<DatabaseRow>(IDENTIFY);
  if (!row) throw new CannotOpen('The table idempay.deployment is empty. Restore the database with all of its rows.');
  return row;
}

function queryOf(database: Postgres): Query {
  return (statement, values) => database.writeHoweverLate(statement, values);
}
