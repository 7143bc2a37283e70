import type { Clock } from '../../../platform/clock.js';
import type { Postgres, Statement } from './postgres.js';

/** A change of the database's clock, or an outage of the database, is noticed within about this time. */
const SYNCHRONIZE_EVERY_MS = 1_000;
/** Without an answer for this long, the offset is too old to use. */
const OFFSET_VALID_MS = 3_000;

/** A slower reply is not used: its latency would set the translated clock back. */
const SLOW_REPLY_MS = 250;

const NOW: Statement = {
  name: 'database_now',
  text: 'SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now',
};

/**
 * Translates our monotonic clock into the database's, so that the database itself can check a deadline of ours when it
 * executes a statement, however long we were paused before.
 */
export class DatabaseClock {
  private offsetMs: number | undefined;
  /** When the newest question was asked that was answered, and how large the offset is at most. */
  private newest = { askedAt: Number.NEGATIVE_INFINITY, offsetMs: 0 };
  private isAsking = false;
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly database: Postgres,
    /** Ours, which is translated. */
    readonly clock: Clock,
  ) {}

  /** Throws when the database cannot be asked. */
  async start(): Promise<void> {
    await this.synchronize();
    // A start that waits for the database comes here more than once.
    clearInterval(this.timer);
    this.timer = setInterval(() => this.keepSynchronized(), SYNCHRONIZE_EVERY_MS).unref();
  }

  stop(): void {
    clearInterval(this.timer);
  }

  /** Milliseconds since the epoch on the database's clock; early by at most the latency of one reply, never late. */
  at(monotonicMs: number): number {
    return monotonicMs + (this.offsetMs ?? 0);
  }

  /** An upper bound of the database's clock now, in ms since the epoch; undefined after `OFFSET_VALID_MS` without an answer. */
  latest(): number | undefined {
    const now = this.clock.monotonic();
    return now - this.newest.askedAt < OFFSET_VALID_MS ? now + this.newest.offsetMs : undefined;
  }

  /** One question at a time: a database that hangs must not be asked over all connections. */
  private async keepSynchronized(): Promise<void> {
    if (this.isAsking) return;
    this.isAsking = true;
    await this.synchronize().catch(() => {});
    this.isAsking = false;
  }

  /** Measures the offset now. Also called after a refusal as too late, which an old offset may have caused. */
  async synchronize(): Promise<void> {
    const askedAt = this.clock.monotonic();
    const [row] = await this.database.read<{ now: number }>(NOW);
    const answeredAt = this.clock.monotonic();
    const first = this.offsetMs === undefined;
    if (row && askedAt > this.newest.askedAt) this.newest = { askedAt, offsetMs: row.now - askedAt };
    if (row && (first || answeredAt - askedAt < SLOW_REPLY_MS)) this.offsetMs = row.now - answeredAt;
  }
}
