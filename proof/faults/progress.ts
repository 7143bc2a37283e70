import { faultsOf, sigkillsOf, type Tally } from './tally.js';

const LINE_EVERY_MS = 10_000;

/** One line that says how far a run is: rewritten on a terminal, else another one every ten seconds. */
export class Progress {
  #lastAt = Number.NEGATIVE_INFINITY;
  readonly #startedAt: number;

  constructor(
    private readonly totalMs: number,
    elapsedMs: number,
  ) {
    this.#startedAt = performance.now() - elapsedMs;
  }

  show(tally: Tally): void {
    const now = performance.now();
    const { isTTY } = process.stdout;
    if (!isTTY && now - this.#lastAt < LINE_EVERY_MS) return;
    this.#lastAt = now;
    const elapsedMs = now - this.#startedAt;
    const line =
      `${minutes(elapsedMs)} gone, ${minutes(Math.max(0, this.totalMs - elapsedMs))} left · ` +
      `${tally.sessions} sessions · ${faultsOf(tally)} faults · ${sigkillsOf(tally)} kills · ` +
      `${faultsOf(tally, 'redis')} of Redis · ${faultsOf(tally, 'postgres')} of PostgreSQL · ${tally.violations} violations`;
    process.stdout.write(isTTY ? `\r\x1b[K${line}` : `${line}\n`);
  }

  /** Ends the line that was rewritten. */
  end(): void {
    if (process.stdout.isTTY) process.stdout.write('\n');
  }
}

function minutes(ms: number): string {
  const seconds = Math.round(ms / 1_000);
  return `${Math.floor(seconds / 60)}:${`${seconds % 60}`.padStart(2, '0')}`;
}
