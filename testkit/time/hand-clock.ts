import type { Clock } from '#idempay/platform/clock.js';

/** A clock that stands still until a test moves it. */
export class HandClock implements Clock {
  private readonly alarms = new Set<{ readonly atMs: number; readonly callBack: () => void }>();

  constructor(private nowMs = 1_000_000) {}

  get pending(): number {
    return this.alarms.size;
  }

  readonly now = () => this.nowMs;
  readonly monotonic = () => this.nowMs;

  after(ms: number, callBack: () => void): () => void {
    const alarm = { atMs: this.nowMs + ms, callBack };
    this.alarms.add(alarm);
    return () => this.alarms.delete(alarm);
  }

  /** Moves on, and calls back on the way what is due, earliest first. */
  advance(ms: number): void {
    const untilMs = this.nowMs + ms;
    for (;;) {
      const due = [...this.alarms].filter(({ atMs }) => atMs <= untilMs).sort((a, b) => a.atMs - b.atMs)[0];
      if (!due) break;
      this.alarms.delete(due);
      this.nowMs = Math.max(this.nowMs, due.atMs);
      due.callBack();
    }
    this.nowMs = untilMs;
  }

  /** As when the process was stopped: time has passed, and nothing was called back yet. */
  leap(ms: number): void {
    this.nowMs += ms;
  }
}
