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

/** If the clock lost more than this against ours, it was set back. Smaller steps are harmless (`settlement-reads.ts`). */
const SET_BACK_MS = 50;
/** Two clocks may run apart by this part of the time, with some reserve. */
const MOST_DRIFT = 0.001;

/**
 * Translates our monotonic clock into the database's, so that the database itself can check a deadline of ours when it
 * executes a statement, however long we were paused before.
 */
export class DatabaseClock {
  private offsetMs: number | undefined;
  /** When the newest question was asked that was answered, and how large the offset is at most. */
  private newest = { askedAt: Number.NEGATIVE_INFINITY, offsetMs: 0 };
  /** The clock was at least so far ahead of ours when this answer had come. */
  private least = { answeredAt: Number.NEGATIVE_INFINITY, offsetMs: Number.NEGATIVE_INFINITY };
  private wasSetBack = false;
  private isAsking = false;
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly database: Postgres,
    /** Ours, which is translated. */
    readonly clock: Clock,
    /** Called when the database's clock was set back; again with the next question if it rejects. */
    private readonly onSetBack: () => Promise<unknown> = async () => {},
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

  private async reportSetBack(): Promise<void> {
    await this.onSetBack();
    this.wasSetBack = false;
  }

  /** Measures the offset now. Also called after a refusal as too late, which an old offset may have caused. */
  async synchronize(): Promise<void> {
    const askedAt = this.clock.monotonic();
    const [row] = await this.database.read<{ now: number }>(NOW);
    const answeredAt = this.clock.monotonic();
    if (row) this.compare(row.now, askedAt, answeredAt);
    const first = this.offsetMs === undefined;
    if (row && askedAt > this.newest.askedAt) this.newest = { askedAt, offsetMs: row.now - askedAt };
    if (row && (first || answeredAt - askedAt < SLOW_REPLY_MS)) this.offsetMs = row.now - answeredAt;
    if (this.wasSetBack) await this.reportSetBack().catch(() => {});
  }
  /** The clock was read between the question and the answer, so each of these gives a limit of how far it is ahead of ours. */
  private compare(now: number, askedAt: number, answeredAt: number): void {
    const { least } = this;
    const leastMs = least.offsetMs - Math.max(0, answeredAt - least.answeredAt) * MOST_DRIFT;
    const isSetBack = askedAt >= least.answeredAt && now - askedAt < leastMs - SET_BACK_MS;
    if (isSetBack) this.wasSetBack = true;
    if (isSetBack || now - answeredAt > leastMs) this.least = { answeredAt, offsetMs: now - answeredAt };
  }
}
