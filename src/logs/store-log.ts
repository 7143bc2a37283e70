import type { Logger } from 'pino';
import type { Clock } from '../platform/clock.js';
import { reasonOf, type StoreUnavailable } from '../platform/faults.js';
import type { StoreEvents } from '../stores/shared/deployment.js';

/** How often the log counts operations that could not be served. */
const COUNT_EVERY_MS = 10_000;
/** A store is back when it has served without a failure for this long; a single success proves nothing. */
const BACK_AFTER_MS = 2_000;
/** Most reasons in one log line, because each fault may have another text. */
const MAX_REASONS = 5;

interface Outage {
  readonly since: number;
  lastFailureAt: number;
  /** The text of the last line about it, and its time. */
  reason: string;
  reportedAt: number;
}

/**
 * The lines of the log while a store is down: one when it goes down, one when it is back, and one every few seconds between them, with the
 * number of operations that were not served, and the reason. No stacks: such an outage is expected (`docs/operations/deployment.md`).
 */
export class StoreLog implements StoreEvents {
  private readonly outages = new Map<string, Outage>();
  private counts = { requests: 0, background: 0 };
  private reasons = new Map<string, number>();
  private countingSince: number | undefined;
  private cancelCount = () => {};

  constructor(
    private readonly logger: Logger,
    private readonly clock: Clock,
  ) {}

  failed(store: string, fault: unknown): void {
    const now = this.clock.monotonic();
    const reason = reasonOf(fault);
    const outage = this.outages.get(store);
    if (!outage) {
      this.outages.set(store, { since: now, lastFailureAt: now, reason, reportedAt: now });
      this.logger.warn({ store, reason }, `${store} cannot serve; requests that need it get 503`);
      return;
    }
    outage.lastFailureAt = now;
    // A server that is back may refuse us for another reason, such as its password, which the log must show.
    if (reason === outage.reason || now - outage.reportedAt < COUNT_EVERY_MS) return;
    Object.assign(outage, { reason, reportedAt: now });
    this.logger.warn({ store, reason }, `${store} still cannot serve, for another reason`);
  }

  served(store: string): void {
    const outage = this.outages.get(store);
    if (!outage) return;
    const now = this.clock.monotonic();
    if (now - outage.lastFailureAt < BACK_AFTER_MS) return;
    this.outages.delete(store);
    this.report();
    this.logger.info({ store, seconds: Math.round((now - outage.since) / 1000) }, `${store} serves again`);
  }

  /** True if it could not serve when it was last asked. */
  isDown(store: string): boolean {
    return this.outages.has(store);
  }

  /** A request, or work behind the requests, ended because a store could not serve it. */
  refused(fault: StoreUnavailable, work: 'requests' | 'background'): void {
    if (this.countingSince === undefined) {
      this.countingSince = this.clock.monotonic();
      this.cancelCount = this.clock.after(COUNT_EVERY_MS, () => this.report());
    }
    this.counts[work] += 1;
    const reason = reasonOf(fault);
    const { reasons } = this;
    if (reasons.has(reason) || reasons.size < MAX_REASONS) reasons.set(reason, (reasons.get(reason) ?? 0) + 1);
  }

  private report(): void {
    if (this.countingSince === undefined) return;
    const seconds = Math.round((this.clock.monotonic() - this.countingSince) / 1000);
    const reasons = Object.fromEntries(this.reasons);
    this.logger.warn({ ...this.counts, seconds, reasons }, 'a store could not serve what was asked');
    this.cancelCount();
    this.countingSince = undefined;
    this.counts = { requests: 0, background: 0 };
    this.reasons = new Map();
  }
}
