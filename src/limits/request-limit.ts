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
  /** Until the window ends: at least 1. */
  readonly resetSeconds: number;
}

export interface RequestLimit {
  readonly perMinute: number;
  /** Counts a request of the client, unless it is one too many. */
  take(client: string): TakeResult;
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
 * Limits what each client may ask for in a minute (decisions A6). It decides in memory by what this process knows, and tells
 * the others afterwards, so a request never waits for it, and is never refused because the others cannot be reached.
 */
export function createRequestLimit(perMinute: number, clock: Clock, shared?: SharedRequestCounts): RequestLimit {
  const windows = new LRUCache<string, Window>({ max: REMEMBERED_CLIENTS });
  const unreported = new Map<string, Window>();
  let isReporting = false;

  function windowOf(client: string, now: number): Window {
    const known = windows.get(client);
    if (known && known.endsAt > now) return known;
    const window = { endsAt: now + WINDOW_MS, taken: 0, others: 0 };
    windows.set(client, window);
    return window;
  }

  function reportLater(afterMs: number): void {
    isReporting = true;
    clock.after(afterMs, reportAll);
  }

  async function reportAll(): Promise<void> {
    const reports = Array.from(unreported, ([client, window]) => report(client, window));
    unreported.clear();
    const arrived = (await Promise.all(reports)).every(Boolean);
    isReporting = false;
    if (unreported.size > 0 || !arrived) reportLater(arrived ? REPORT_AFTER_MS : REPORT_AGAIN_AFTER_MS);
  }

  /** Resolves to whether the report arrived. A lost report is not repeated: the next one has the full count. */
  async function report(client: string, window: Window): Promise<boolean> {
    const askedAt = clock.monotonic();
    const { taken, endsAt } = window;
    if (!shared || endsAt <= askedAt) return true;
    try {
      const { total, remainingMs } = await shared.report(client, taken, endsAt - askedAt);
      window.others = Math.max(0, total - taken);
      // The window began when the first process began it. It is never lengthened here, although an emptied Redis reports a new one.
      window.endsAt = Math.min(endsAt, askedAt + remainingMs);
      return true;
    } catch {
      return false;
    }
  }

  return {
    perMinute,
    take(client) {
      const now = clock.monotonic();
      const window = windowOf(client, now);
      const left = perMinute - window.taken - window.others;
      const resetSeconds = Math.max(1, Math.ceil((window.endsAt - now) / 1000));
      if (left <= 0) return { allowed: false, remaining: 0, resetSeconds };
      window.taken += 1;
      if (shared) {
        unreported.set(client, window);
        if (!isReporting) reportLater(REPORT_AFTER_MS);
      }
      return { allowed: true, remaining: left - 1, resetSeconds };
    },
  };
}
