import type { SeedResult } from './worker.js';

const LINE_EVERY_MS = 15_000;

/** What all seeds came to so far, and how fast. */
export class Report {
  readonly failures: SeedResult[] = [];
  private readonly beganAt = performance.now();
  private readonly counts = new Map<string, number>();
  private seeds = 0;
  private steps = 0;
  private toldAt = this.beganAt;

  constructor(private readonly planned: number) {}

  add(result: SeedResult): void {
    const { environment, seed, violations, steps, counts } = result;
    this.seeds += 1;
    this.steps += steps;
    for (const [what, times] of counts) {
      const counted = `${environment}: ${what}`;
      this.counts.set(counted, (this.counts.get(counted) ?? 0) + times);
    }
    if (violations.length > 0) {
      this.failures.push(result);
      // At once: a long run need not end to be looked at.
      console.error(`seed ${seed} (${environment}): ${violations[0]}`);
    }
    if (performance.now() - this.toldAt < LINE_EVERY_MS) return;
    this.toldAt = performance.now();
    const left = ((this.planned - this.seeds) / this.rate()).toFixed(0);
    console.error(`${this.seeds} of ${this.planned} seeds, ${left} s left, ${this.failures.length} with violations`);
  }

  summary(): string {
    return [
      `${this.seeds} seeds, every tenth run twice: ${this.rate().toFixed(1)} seeds a second`,
      `${this.steps} steps in one run of each seed`,
      ...[...this.counts].map(([what, times]) => `  ${what.padEnd(50)}${String(times).padStart(12)}`).sort(),
      `${this.failures.length} seeds with violations`,
    ].join('\n');
  }

  private rate(): number {
    return (this.seeds * 1000) / (performance.now() - this.beganAt);
  }
}
