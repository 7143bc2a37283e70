/** Enough to make one slow payment not matter, few enough to follow a processor that turned slow within a minute. */
const WINDOW = 64;

/** Remembers how long the last payments took, for the Retry-After of a payment in progress. */
export class RecentDurations {
  private readonly durationsMs: number[] = [];
  private next = 0;

  /** `typicalMs` is believed until something was measured. */
  constructor(private readonly typicalMs: number) {}

  add(durationMs: number): void {
    this.durationsMs[this.next] = durationMs;
    this.next = (this.next + 1) % WINDOW;
  }

  medianMs(): number {
    if (this.durationsMs.length === 0) return this.typicalMs;
    const sorted = this.durationsMs.toSorted((a, b) => a - b);
    return sorted[sorted.length >> 1] ?? this.typicalMs;
  }
}
