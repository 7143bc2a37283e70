import type { Clock } from '../../clock.js';
import type { Postgres, Statement } from './postgres.js';

/** Clocks drift by milliseconds in this time. */
const SYNCHRONIZE_EVERY_MS = 30_000;

const NOW: Statement = {
  name: 'database_now',
  text: 'SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now',
};

/**
 * Translates our monotonic clock into the database's, so that a deadline of ours can be judged by the database itself at
 * the moment it executes a statement, however long we were paused before.
 */
export class DatabaseClock {
  private offsetMs = 0;
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly database: Postgres,
    private readonly clock: Clock,
  ) {}

  /** Throws when the database cannot be asked. */
  async start(): Promise<void> {
    await this.synchronize();
    this.timer = setInterval(() => this.synchronize().catch(() => {}), SYNCHRONIZE_EVERY_MS).unref();
  }

  stop(): void {
    clearInterval(this.timer);
  }

  /** Milliseconds since the epoch on the database's clock; early by at most the way of one reply, never late. */
  at(monotonicMs: number): number {
    return monotonicMs + this.offsetMs;
  }

  private async synchronize(): Promise<void> {
    const [row] = await this.database.read<{ now: number }>(NOW);
    if (row) this.offsetMs = row.now - this.clock.monotonic();
  }
}
