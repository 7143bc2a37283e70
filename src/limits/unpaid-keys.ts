import { LRUCache } from 'lru-cache';
import type { Clock } from '../platform/clock.js';

/** Above this share of its `maxmemory` Redis gets no further unpaid keys: the rest is for the locks and records of payments. */
const REFUSED_ABOVE = 0.85;
/** From here on nobody gets one; in between, the clients that issued most do not. */
const ALL_REFUSED_ABOVE = 0.95;
const HOUR_MS = 3_600_000;
/** Clients that issue most are never the ones that were seen longest ago. */
const REMEMBERED_CLIENTS = 10_000;
/** Requests without `AUTH`. */
const EVERYBODY = '';

/**
 * Refuses keys that cost memory of Redis before they are paid with (rule A6): a client that fills it keeps every payment out until they
 * expire. Keys of references and payments are never refused for it. Each process counts the keys that it issued.
 */
export class UnpaidKeys {
  private thisHour = countsOfClients();
  private hourBefore = countsOfClients();
  private hourBegan: number;

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
    this.turnHour();
    if (this.isRefusing && this.isRefused(client)) return false;
    this.thisHour.set(client, (this.thisHour.get(client) ?? 0) + 1);
    return true;
  }

  /** At first the client that issued most, and the fuller Redis is, the more of those behind it. */
  private isRefused(client: string): boolean {
    const clients = new Set([...this.thisHour.keys(), ...this.hourBefore.keys(), client]);
    const part = (this.used - REFUSED_ABOVE) / (ALL_REFUSED_ABOVE - REFUSED_ABOVE);
    const refused = Math.ceil(part * clients.size);
    const own = this.issued(client);
    let ahead = 0;
    for (const other of clients) if (this.issued(other) > own) ahead += 1;
    return ahead < refused;
  }

  /** In the last hour. The hour before this one counts with the part that is not an hour ago, as if it had been even. */
  private issued(client: string): number {
    const gone = (this.clock.monotonic() - this.hourBegan) / HOUR_MS;
    return (this.thisHour.peek(client) ?? 0) + (1 - gone) * (this.hourBefore.peek(client) ?? 0);
  }

  private get used(): number {
    return this.memoryUsed?.() ?? 0;
  }

  private turnHour(): void {
    const hours = Math.floor((this.clock.monotonic() - this.hourBegan) / HOUR_MS);
    if (hours === 0) return;
    this.hourBefore = hours === 1 ? this.thisHour : countsOfClients();
    this.thisHour = countsOfClients();
    this.hourBegan += hours * HOUR_MS;
  }
}

function countsOfClients(): LRUCache<string, number> {
  return new LRUCache({ max: REMEMBERED_CLIENTS });
}
