import type { ChunkResult, Failure } from './worker.js';

const PLAIN_LINE_EVERY_MS = 30_000;
const TERMINAL_LINE_EVERY_MS = 200;

/** What all seeds came to so far, and how fast. */
export class Report {
  readonly failures: Failure[] = [];
  private readonly beganAt = performance.now();
  private readonly counts = new Map<string, number>();
  private seeds = 0;
  private steps = 0;
  private toldAt = this.beganAt;

  constructor(
    private readonly planned: number,
    private readonly progress: NodeJS.WriteStream,
  ) {}

  add(result: ChunkResult): void {
    this.seeds += result.seeds;
    this.steps += result.steps;
    for (const failure of result.failures) this.tellFailure(failure);
    for (const [what, times] of result.counts) this.counts.set(what, (this.counts.get(what) ?? 0) + times);
    this.tellProgress();
  }

  summary(): string {
    const seconds = this.elapsedMs() / 1000;
    const rate = (this.seeds / seconds).toFixed(1);
    const counted = [...this.counts].sort(([a], [b]) => (a < b ? -1 : 1));
    return [
      `${this.seeds} seeds, every tenth run twice, in ${duration(this.elapsedMs())}: ${rate} seeds a second`,
      `${this.steps} steps in one run of each, ${Math.round(this.steps / this.seeds)} a seed`,
      ...counted.map(([what, times]) => `  ${what.padEnd(50)}${String(times).padStart(12)}`),
      `${this.failures.length} seeds with violations`,
    ].join('\n');
  }

  /** Makes room for other lines. */
  clearLine(): void {
    if (this.progress.isTTY) this.progress.write('\r\x1b[K');
  }

  /** At once: a long run need not end to be looked at. */
  private tellFailure(failure: Failure): void {
    this.failures.push(failure);
    this.clearLine();
    this.progress.write(`seed ${failure.seed} (${failure.environment}): ${failure.violations[0]}\n`);
  }

  private tellProgress(): void {
    const now = performance.now();
    const { isTTY } = this.progress;
    if (now - this.toldAt < (isTTY ? TERMINAL_LINE_EVERY_MS : PLAIN_LINE_EVERY_MS)) return;
    this.toldAt = now;
    const rate = this.seeds / (this.elapsedMs() / 1000);
    const left = duration(((this.planned - this.seeds) / rate) * 1000);
    const line = `${this.seeds} of ${this.planned} seeds, ${rate.toFixed(1)} a second, ${left} left, ${this.failures.length} with violations`;
    this.progress.write(isTTY ? `\r\x1b[K${line}` : `${line}\n`);
  }

  private elapsedMs(): number {
    return performance.now() - this.beganAt;
  }
}

function duration(ms: number): string {
  const seconds = Math.round(ms / 1000);
  return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}
