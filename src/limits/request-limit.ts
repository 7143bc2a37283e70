import { LRUCache } from 'lru-cache';
import type { Clock } from '../platform/clock.js';

/** Port: what the processes of a deployment tell each other of their requests. Faults are StoreUnavailable. */
export interface SharedRequestCounts {
  /**
   * Notes that this process has served `taken` requests of the client in its present window, which ends in `remainingMs` if
   * no process has begun one. Resolves to the sum over all processes, and the time to the end of the window. Safe to repeat.
   */
  report(client: string, taken: number, remainingMs: number): Promise<{ total: number; remainingMs: number }>;
}

export interface TakeResult {
  readonly allowed: boolean;
  /** Requests that the client has left until then. */
  readonly remaining: number;
  /** Until the window ends: at least 1, at most a minute. */
  readonly resetSeconds: number;
}

interface Window {
  endsAt: number;
  taken: number;
  /** Served by other processes, as far as this one knows. */
  others: number;
}

const WINDOW_MS = 60_000;
/** The other processes learn of served requests after this time and a round trip. */
const REPORT_AFTER_MS = 20;
/** Pause after a failed report, in which each process counts for itself. */
const REPORT_AGAIN_AFTER_MS = 1_000;
/** About 200 bytes each. One that is forgotten begins a new window. */
const REMEMBERED_CLIENTS = 100_000;

/**
 * Limits what each client may ask for in a minute (rule A6). It decides in memory by this process's knowledge, and tells the others
 * afterwards. So a request never waits for it, and is never refused because the others cannot be reached.
 */
export class RequestLimit {
  private readonly windows = new LRUCache<string, Window>({ max: REMEMBERED_CLIENTS });
  private readonly unreported = new Map<string, Window>();
  private isReporting = false;

  constructor(
    readonly perMinute: number,
    private readonly clock: Clock,
    private readonly shared?: SharedRequestCounts,
  ) {}

  /** Counts a request of the client, unless it is one too many. */
  take(client: string): TakeResult {
    const now = this.clock.monotonic();
    const window = this.windowOf(client, now);
    const left = this.perMinute - window.taken - window.others;
    const resetSeconds = secondsTo(window.endsAt, now);
    if (left <= 0) return { allowed: false, remaining: 0, resetSeconds };
    window.taken += 1;
    if (this.shared) {
      this.unreported.set(client, window);
      if (!this.isReporting) this.reportLater(REPORT_AFTER_MS);
    }
    return { allowed: true, remaining: left - 1, resetSeconds };
  }

  private windowOf(client: string, now: number): Window {
    const known = this.windows.get(client);
    if (known && known.endsAt > now) return known;
    const window = { endsAt: now + WINDOW_MS, taken: 0, others: 0 };
    this.windows.set(client, window);
    return window;
  }

  private reportLater(afterMs: number): void {
    this.isReporting = true;
    this.clock.after(afterMs, () => this.reportAll());
  }

  private async reportAll(): Promise<void> {
    const reports = Array.from(this.unreported, ([client, window]) => this.report(client, window));
    this.unreported.clear();
    const arrived = (await Promise.all(reports)).every(Boolean);
    this.isReporting = false;
    if (this.unreported.size > 0 || !arrived) this.reportLater(arrived ? REPORT_AFTER_MS : REPORT_AGAIN_AFTER_MS);
  }

  /** Resolves to whether the report arrived. A lost report is not repeated: the next one has the full count. */
  private async report(client: string, window: Window): Promise<boolean> {
    const askedAt = this.clock.monotonic();
    const { taken, endsAt } = window;
    if (!this.shared || endsAt <= askedAt) return true;
    try {
      const { total, remainingMs } = await this.shared.report(client, taken, endsAt - askedAt);
      window.others = Math.max(0, total - taken);
      // The window began when the first process began it. It is never lengthened here, although an emptied Redis reports a new one.
      window.endsAt = Math.min(endsAt, askedAt + remainingMs);
      return true;
    } catch {
      return false;
    }
  }
}

/** At least 1, and not more than a window has: the sum of a time and a window may be rounded up, so their difference is longer. */
function secondsTo(endsAt: number, now: number): number {
  return Math.min(WINDOW_MS / 1000, Math.max(1, Math.ceil((endsAt - now) / 1000)));
}
