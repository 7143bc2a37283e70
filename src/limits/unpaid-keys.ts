import { LRUCache } from 'lru-cache';
import type { Clock } from '../platform/clock.js';

/** Above this share of its `maxmemory` Redis gets no further unpaid keys: the rest is for the locks and records of payments. */
const REFUSED_ABOVE = 0.85;
/** From here on nobody gets one; in between, the clients that asked for most do not. */
const ALL_REFUSED_FROM = 0.95;
/** An order of the clients is used for a second, because each one costs a look at all of them. */
const ORDER_LIFE_MS = 1000;
const HOUR_MS = 3_600_000;
/** Clients that ask for most are never the ones that were seen longest ago. */
const REMEMBERED_CLIENTS = 10_000;
/** Requests without `AUTH`. */
const EVERYBODY = '';

/**
 * Refuses keys that cost memory of Redis before they are paid with (rule A6): a client that fills it keeps every payment out until they
 * expire. Keys of references and payments are never refused for it. Each process counts the keys that it was asked for, also those that
 * it refused: a client that goes on asking stays first, and a new process knows such a client after its first requests.
 */
export class UnpaidKeys {
  private thisHour = countsOfClients();
  private hourBefore = countsOfClients();
  private hourBegan: number;
  private refused: ReadonlySet<string> = new Set();
  private refusedUntilMs = 0;

  /** `memoryUsed` is the part of its `maxmemory` that the fullest server uses, 0 if it has no limit. If omitted, no key costs such memory. */
  constructor(
    private readonly clock: Clock,
    private readonly memoryUsed?: () => number,
  ) {
    this.hourBegan = clock.monotonic();
  }

  get isRefusing(): boolean {
    return this.used > REFUSED_ABOVE;
  }

  /** Counts a key that the client asks for. False if it gets none now. */
  take(client = EVERYBODY): boolean {
    if (!this.memoryUsed) return true;
    const nowMs = this.clock.monotonic();
    this.turnHour(nowMs);
    this.thisHour.set(client, (this.thisHour.get(client) ?? 0) + 1);
    return !this.isRefusing || !this.isRefused(client, nowMs);
  }

  private isRefused(client: string, nowMs: number): boolean {
    if (this.used >= ALL_REFUSED_FROM) return true;
    if (nowMs >= this.refusedUntilMs) {
      this.refused = this.firstClients(nowMs);
      this.refusedUntilMs = nowMs + ORDER_LIFE_MS;
    }
    return this.refused.has(client);
  }

  /**
   * At first the client that asked for most, and the fuller Redis is, the more of those behind it. Clients with the same count as the
   * first one that is served are served too: nothing shows that one of them is the cause. A client that is alone in its process is first.
   */
  private firstClients(nowMs: number): ReadonlySet<string> {
    const counts = [...this.countsOfLastHour(nowMs)].sort(([, one], [, other]) => other - one);
    const part = (this.used - REFUSED_ABOVE) / (ALL_REFUSED_FROM - REFUSED_ABOVE);
    const served = counts[Math.ceil(part * counts.length)];
    return new Set(counts.filter(([, count]) => count > (served?.[1] ?? 0)).map(([client]) => client));
  }

  /** The hour before this one counts with the part that is not an hour ago, as if it had been even. */
  private countsOfLastHour(nowMs: number): Map<string, number> {
    const left = 1 - (nowMs - this.hourBegan) / HOUR_MS;
    const counts = new Map<string, number>();
    for (const [client, count] of this.hourBefore.entries()) counts.set(client, left * count);
    for (const [client, count] of this.thisHour.entries()) counts.set(client, (counts.get(client) ?? 0) + count);
    return counts;
  }

  private get used(): number {
    return this.memoryUsed?.() ?? 0;
  }

  private turnHour(nowMs: number): void {
    const hours = Math.floor((nowMs - this.hourBegan) / HOUR_MS);
    if (hours === 0) return;
    this.hourBefore = hours === 1 ? this.thisHour : countsOfClients();
    this.thisHour = countsOfClients();
    this.hourBegan += hours * HOUR_MS;
  }
}

function countsOfClients(): LRUCache<string, number> {
  return new LRUCache({ max: REMEMBERED_CLIENTS });
}
