import type { Clock } from '../../../clock.js';
import type { Postgres, Statement } from './postgres.js';

/** Clocks drift by milliseconds in this time. */
const SYNCHRONIZE_EVERY_MS = 30_000;

/** A reply that took this long would set the clock back by it. */
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
    this.timer = setInterval(() => this.synchronize().catch(() => {}), SYNCHRONIZE_EVERY_MS).unref();
  }

  stop(): void {
    clearInterval(this.timer);
  }

  /** Milliseconds since the epoch on the database's clock; early by at most the way of one reply, never late. */
  at(monotonicMs: number): number {
    return monotonicMs + (this.offsetMs ?? 0);
  }

  /** Measures the offset now: a refusal as too late may come from an old one. */
  async synchronize(): Promise<void> {
    const askedAt = this.clock.monotonic();
    const [row] = await this.database.read<{ now: number }>(NOW);
    const answeredAt = this.clock.monotonic();
    const first = this.offsetMs === undefined;
    if (row && (first || answeredAt - askedAt < SLOW_REPLY_MS)) this.offsetMs = row.now - answeredAt;
  }
}
