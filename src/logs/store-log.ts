import type { Logger } from 'pino';
import type { Clock } from '../platform/clock.js';
import { reasonOf, type StoreUnavailable } from '../platform/faults.js';
import type { StoreEvents } from '../stores/shared/deployment.js';

/** How often the log counts what could not be served. */
const COUNT_EVERY_MS = 10_000;
/** A store is back when it has served without a failure for this long; a single success proves nothing. */
const BACK_AFTER_MS = 2_000;
/** Most reasons in one log line, because each fault may have another text. */
const MAX_REASONS = 5;

export interface StoreLog extends StoreEvents {
  /** A request, or work behind the requests, ended because a store could not serve it. */
  refused(fault: StoreUnavailable, work: 'requests' | 'background'): void;
  /** Whether it could not serve when it was last asked. */
  isAway(store: string): boolean;
}

interface Outage {
  readonly since: number;
  lastFailureAt: number;
  /** What the last line about it said, and when. */
  reason: string;
  reportedAt: number;
}

/**
 * What the log says while a store is away: one line when it goes, one when it is back, and every few seconds between them how
 * much could not be served and why. No stacks: such an outage is expected (`docs/operations/deployment.md`).
 */
export function createStoreLog(logger: Logger, clock: Clock): StoreLog {
  const outages = new Map<string, Outage>();
  let counts = { requests: 0, background: 0 };
  let reasons = new Map<string, number>();
  let countingSince: number | undefined;
  let cancelCount = () => {};

  function report(): void {
    if (countingSince === undefined) return;
    const seconds = Math.round((clock.monotonic() - countingSince) / 1000);
    logger.warn({ ...counts, seconds, reasons: Object.fromEntries(reasons) }, 'a store could not serve what was asked');
    cancelCount();
    countingSince = undefined;
    counts = { requests: 0, background: 0 };
    reasons = new Map();
  }

  return {
    failed(store, fault) {
      const now = clock.monotonic();
      const reason = reasonOf(fault);
      const outage = outages.get(store);
      if (!outage) {
        outages.set(store, { since: now, lastFailureAt: now, reason, reportedAt: now });
        logger.warn({ store, reason }, `${store} cannot serve; requests that need it get 503`);
        return;
      }
      outage.lastFailureAt = now;
      // A server that is back may refuse us for another reason, such as its password, which the log must show.
      if (reason === outage.reason || now - outage.reportedAt < COUNT_EVERY_MS) return;
      Object.assign(outage, { reason, reportedAt: now });
      logger.warn({ store, reason }, `${store} still cannot serve, for another reason`);
    },

    served(store) {
      const outage = outages.get(store);
      if (!outage) return;
      const now = clock.monotonic();
      if (now - outage.lastFailureAt < BACK_AFTER_MS) return;
      outages.delete(store);
      report();
      logger.info({ store, seconds: Math.round((now - outage.since) / 1000) }, `${store} serves again`);
    },

    isAway: (store) => outages.has(store),

    refused(fault, work) {
      if (countingSince === undefined) {
        countingSince = clock.monotonic();
        cancelCount = clock.after(COUNT_EVERY_MS, report);
      }
      counts[work] += 1;
      const reason = reasonOf(fault);
      if (reasons.has(reason) || reasons.size < MAX_REASONS) reasons.set(reason, (reasons.get(reason) ?? 0) + 1);
    },
  };
}
