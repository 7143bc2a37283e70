import type { PoolClient, QueryResultRow } from 'pg';
import type { StoreOfRecordReport } from '../../../health/store-reports.js';
import { decisionIn } from '../../../payments/values/adoption.js';
import type { Clock } from '../../../platform/clock.js';
import { StoreUnavailable } from '../../../platform/faults.js';
import { CannotOpen } from '../../shared/deployment.js';
import {
  type Commit,
  type Incarnation,
  type LastCommits,
  type ProcessCommits,
  readCommits,
} from '../../shared/last-commits.js';
import { ADOPT, CHECKED, IDENTIFY, MISSING_COMMITS } from './database-identity-statements.js';
import type { PostgresPart } from './part.js';
import { type Postgres, StandbyRefused, type Statement } from './postgres.js';

/** A connection pooler may change the server behind an open connection; it is noticed within this time. */
const WATCH_EVERY_MS = 1_000;
/** Without an answer for this long the database counts as down. One question that waits in a busy pool is no sign of that. */
const DOWN_AFTER_MS = 3_000;

interface DatabaseRow extends Incarnation {
  id: string;
  /** No server was written down yet: the first one replaces none. */
  isNew: boolean;
  /** The server and the tables are those that were last written down. */
  known: boolean;
  /** Since the server started somebody found that no commit is lost. */
  checked: boolean;
  /** System identifier, database, timeline and incarnation. */
  server: string;
  adopter: string | null;
  /** The newest migration, and the newest one before which every process had to stop. Null while a dump is being restored. */
  newest: string | null;
  newestFullStop: string | null;
}

interface MissingRow {
  start: string;
  missing: number[];
}

/** The servers behind the address of the database. */
export interface Hosts {
  readonly count: number;
  /** Each connection that was opened before is closed when it would be used next. */
  renew(): void;
}

interface Seen extends Incarnation {
  readonly server: string;
  /** The order in which the questions were sent. */
  readonly question: number;
}

type Query = <Row extends QueryResultRow>(statement: Statement, values?: readonly unknown[]) => Promise<Row[]>;

/**
 * The deployment that the database belongs to, and the server that it is on (rule O5). A database that lacks commits, after a failover
 * to an asynchronous standby or a restore, is noticed before anything is claimed there. The signs are the server and its timeline, the
 * oid of the tables, and known commits that it does not have (docs/engineering/decisions/0068). The loss is written down once.
 */
export class DatabaseIdentity implements StoreOfRecordReport {
  private id: string | undefined;
  private adoptedBy: string | undefined;
  private refused: StoreUnavailable | undefined;
  private seen: Seen | undefined;
  private questions = 0;
  private isComparing = false;
  private isWatching = false;
  private stopped = false;
  private answeredAt = Number.NEGATIVE_INFINITY;
  private cancelNext = () => {};

  constructor(
    private readonly clock: Clock,
    private readonly lastCommits: LastCommits,
    private readonly onReplaced: () => void,
    /** The names of the migrations that this version knows, in order. */
    private readonly migrations: readonly string[],
    private readonly hosts: Hosts,
    private readonly onReached: () => void = () => {},
  ) {}

  /** Part of every name in Redis. */
  get deploymentId(): string {
    if (this.id === undefined) throw new Error('the database was not identified yet');
    return this.id;
  }

  /** The client that has adopted the rows without credentials, NOBODY, or a mark of AUTH, as it was at the start. */
  get adopter(): string | undefined {
    return this.adoptedBy;
  }

  /** Why this process writes nothing more: the database was changed in a way that it does not know. Undefined if it may write. */
  get refusal(): StoreUnavailable | undefined {
    return this.refused;
  }

  /** The server that was last seen. Data that was read from another server must not count as data of this one. */
  get server(): string {
    if (!this.seen) throw new Error('the database was not identified yet');
    return this.seen.server;
  }

  /** Sends no query: it looks at the result of the watch, which asks every second. */
  async ping(): Promise<void> {
    if (this.clock.monotonic() - this.answeredAt < DOWN_AFTER_MS) return;
    throw new StoreUnavailable('unchanged', `PostgreSQL did not answer for ${DOWN_AFTER_MS} ms`);
  }

  /** Once the schema is there. Throws when the database cannot be asked. */
  async start(database: Postgres): Promise<void> {
    const { id, adopter } = await identifyOnce(queryOf(database));
    this.id = id;
    this.adoptedBy = adopter ?? undefined;
  }

  /** For every new connection, before it is used. */
  async observe(client: PoolClient): Promise<void> {
    // Before that the schema may not be there, and Redis cannot be asked.
    if (!this.seen) return;
    await this.identify(async (statement, values = []) => {
      return (await client.query({ ...statement, values: [...values] })).rows;
    });
  }

  /**
   * Looks every second, beginning at once. Throws when the database cannot be asked at first, and StandbyRefused if its server was replaced;
   * then it may be called again.
   */
  async watch(database: Postgres, payments: PostgresPart): Promise<void> {
    const query = queryOf(database, payments);
    await this.compare(query);
    if (!this.isWatching) this.scheduleNext(query);
    this.isWatching = true;
  }

  stop(): void {
    this.stopped = true;
    this.cancelNext();
  }

  private scheduleNext(query: Query): void {
    if (this.stopped) return;
    this.cancelNext = this.clock.after(WATCH_EVERY_MS, () => {
      this.identify(query)
        .then(() => {
          this.onReached();
          this.compareBeside(query);
        })
        .catch((error: unknown) => this.renewIfRefused(error))
        .finally(() => this.scheduleNext(query));
    });
  }

  /** It may wait for a locked table, which is no reason to call the database down. */
  private compareBeside(query: Query): void {
    if (this.isComparing) return;
    this.isComparing = true;
    this.compare(query)
      .catch((error: unknown) => this.renewIfRefused(error))
      .finally(() => {
        this.isComparing = false;
      });
  }

  /** Other connections may lead to the refused server too. New ones are observed, and those that are refused leave the host. */
  private renewIfRefused(error: unknown): void {
    if (error instanceof StandbyRefused) this.hosts.renew();
  }

  /** Without the commits of others, unless the server or its tables are others than before. */
  private async identify(query: Query): Promise<void> {
    const question = this.nextQuestion();
    const row = await identifyOnce(query);
    this.refuseUnknown(row);
    if (row.known && row.checked && this.seen?.incarnation === row.incarnation) this.accept(row, question);
    else await this.compare(query);
  }

  /**
   * The remembered commits are read before the database is asked, so that a database which lost nothing has all of them. Without Redis it
   * is compared with the commits that this process knows; then a server that was started since the last check stays unchecked.
   */
  private async compare(query: Query): Promise<void> {
    const texts = await this.lastCommits.ofAll().catch(() => undefined);
    const remembered = [...(texts?.values() ?? [])].map(readCommits);
    const own = this.lastCommits.own;
    const known: ProcessCommits[] = own ? [...remembered, own] : remembered;
    const incarnations: Incarnation[] = this.seen ? [...known, this.seen] : known;
    const commits = known.flatMap((each) => each.commits);
    const question = this.nextQuestion();

    let row = await identifyOnce(query);
    this.refuseReplaced(row, incarnations);
    this.refuseUnknown(row);
    const found = await findMissing(query, commits);
    const { incarnation } = row;
    // Commits of an earlier incarnation may be lost: that was written down already.
    const ofThis = known.filter((each) => each.incarnation === incarnation).flatMap((each) => each.commits);
    const isSetBack =
      incarnations.some((each) => isLater(each, row)) || ofThis.some((commit) => found.missing.has(commit));
    if (isSetBack || !row.known) {
      const generation = Math.max(0, ...incarnations.map((each) => each.generation));
      await query(ADOPT, [isSetBack ? incarnation : null, generation]);
      const { isNew } = row;
      row = await identifyOnce(query);
      // A start has seen no other server before, with which `accept` could compare this one.
      if (!this.seen && !isNew && row.incarnation !== incarnation) this.onReplaced();
    } else if (!row.checked && texts) await query(CHECKED, [found.start]);
    if (!this.accept(row, question)) return;
    this.lastCommits.moveTo(row, found.missing);
    if (texts) this.lastCommits.found(texts).catch(() => {});
  }

  private nextQuestion(): number {
    this.questions += 1;
    return this.questions;
  }

  /**
   * A failover raises the timeline, so a server with an earlier one than the deployment was on last is a primary that was replaced, and that
   * nobody has fenced: what is paid there is lost with it. With one host the operator has chosen the server, which may have been restored,
   * and its adoption makes its generation the highest. Throws StandbyRefused.
   */
  private refuseReplaced({ server, generation }: DatabaseRow, known: readonly Incarnation[]): void {
    if (this.hosts.count === 1) return;
    const latest = known.reduce<Incarnation | undefined>(
      (one, other) => (one && !isNewer(other, one) ? one : other),
      undefined,
    );
    if (!latest || generation > latest.generation) return;
    const [system = '', database, timeline = ''] = server.split('-');
    const [knownSystem, knownDatabase, knownTimeline = ''] = latest.server?.split('-') ?? [];
    // Without the right to read it, the servers of all clusters look the same.
    if (system === '' || timeline === '') return;
    if (system !== knownSystem || database !== knownDatabase || timeline >= knownTimeline) return;
    const sentence = `this PostgreSQL server was replaced by a failover: it is on timeline ${timeline}, and the deployment was on ${knownTimeline} already. Stop it. If it was restored on purpose, start once with it as the only host in DATABASE_URL`;
    throw new StandbyRefused(this.hosts.count, sentence);
  }

  /** Throws CannotOpen. */
  private refuseUnknown(row: DatabaseRow): void {
    const sentence = this.whyUnknown(row);
    this.refused = sentence === undefined ? undefined : new StoreUnavailable('unchanged', sentence);
    if (sentence !== undefined) throw new CannotOpen(sentence);
  }

  private whyUnknown({ id, adopter, newest, newestFullStop }: DatabaseRow): string | undefined {
    if (id !== this.id) {
      return 'DATABASE_URL leads to the database of another deployment now. Restart the process to use it.';
    }
    const own = this.migrations.at(-1) ?? '';
    if (newest === null || newest < own) {
      return `The database has an earlier schema now, without the migration ${own}. Restart the process, which brings it forward.`;
    }
    if (newestFullStop !== null && !this.migrations.includes(newestFullStop)) {
      return `A later version has migrated the database (${newestFullStop}), and this version can write nothing to it. Stop the process, and start the later version.`;
    }
    if (decisionIn(adopter) !== decisionIn(this.adoptedBy)) {
      return "The orders without a client were given to another client, or left to nobody, by 'idempay adopt' or by a restore. Restart the process.";
    }
    return undefined;
  }

  /** Ignores a late reply that names an earlier incarnation. */
  private accept({ server, generation, incarnation }: DatabaseRow, question: number): boolean {
    this.answeredAt = this.clock.monotonic();
    const { seen } = this;
    if (seen && question < seen.question && generation <= seen.generation) return false;
    this.seen = { server, generation, incarnation, question };
    // A connection that was opened before may lead to the server that was replaced, or was never compared.
    if (seen ? seen.server !== server : this.hosts.count > 1) this.hosts.renew();
    if (seen && seen.server !== server) this.onReplaced();
    return true;
  }
}

/** It was known, and the database is at an earlier one, or at another one of this generation. */
function isLater(known: Incarnation, { generation, incarnation }: Incarnation): boolean {
  return known.generation > generation || (known.generation === generation && known.incarnation !== incarnation);
}

/** `one` is of a higher generation, or of the same generation and on a later timeline. */
function isNewer(one: Incarnation, other: Incarnation): boolean {
  if (one.generation !== other.generation) return one.generation > other.generation;
  return timelineOf(one) > timelineOf(other);
}

const timelineOf = ({ server = '' }: Incarnation) => server.split('-')[2] ?? '';

async function identifyOnce(query: Query): Promise<DatabaseRow> {
  const [row] = await query<DatabaseRow>(IDENTIFY);
  if (!row) throw new CannotOpen('The table idempay.deployment is empty. Restore the database with all of its rows.');
  return row;
}

async function findMissing(query: Query, commits: readonly Commit[]) {
  const column = <Value>(of: (commit: Commit) => Value | undefined) => commits.map((commit) => of(commit) ?? null);
  const [row] = await query<MissingRow>(MISSING_COMMITS, [
    column((commit) => ('key' in commit ? commit.key : undefined)),
    column((commit) => ('key' in commit ? commit.epoch : undefined)),
    column((commit) => ('key' in commit ? commit.settled : undefined)),
    column((commit) => ('id' in commit ? commit.id : undefined)),
    column((commit) => ('id' in commit ? commit.version : 'key' in commit ? undefined : commit.listVersion)),
    column((commit) => ('key' in commit ? commit.atMs : undefined)),
  ]);
  const missing = new Set(row?.missing.flatMap((position) => commits[position - 1] ?? []));
  return { start: row?.start ?? '', missing };
}

/** The look for missing commits reads payments, so it is one of the statements that wait for their table together. */
function queryOf(database: Postgres, payments: PostgresPart = database): Query {
  return (statement, values) => {
    // Also while nothing may be written.
    if (statement === IDENTIFY) return database.read(statement, values);
    return (statement === MISSING_COMMITS ? payments : database).writeHoweverLate(statement, values);
  };
}
