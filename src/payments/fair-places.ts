import type { Clock } from '../platform/clock.js';
import type { PaymentCounts } from './payment-counts.js';

/** While a client was refused so recently, the others get no more than their shares. */
const CONTENDED_MS = 1_000;
/**
 * A client that was refused comes back when Retry-After has passed, which is when the second is over too. It may have many payers, who come
 * one after the other. So a client that goes on asking for more than its share prolongs the time, until the other has asked nothing for
 * this time.
 */
const GONE_AFTER_MS = 10_000;

interface Refused {
  /** When it asked last, whether it got a place or not. */
  askedAt: number;
  lastAt: number;
}

export type Places = Pick<FairPlaces, 'take' | 'giveBack'>;

/** The places of the attempts that requests have in flight in this process. */
export interface PlacesInFlight {
  readonly payments: Places;
  /** At most a quarter of the same places, so that payers do not wait while many refunds are made or many orders are closed. */
  readonly refundsAndEndings: Places;
}

export function createPlacesInFlight(maxInFlight: number, clock: Clock): PlacesInFlight {
  const all = new FairPlaces(maxInFlight, clock);
  const quarter = new FairPlaces(Math.max(1, Math.floor(maxInFlight / 4)), clock);
  return {
    payments: all,
    refundsAndEndings: {
      take(client) {
        if (!quarter.take(client)) return false;
        if (all.take(client)) return true;
        quarter.giveBack(client);
        return false;
      },
      giveBack(client) {
        all.giveBack(client);
        quarter.giveBack(client);
      },
    },
  };
}

/** Awaits an attempt of a request in the place that it has taken, and gives the place back. */
export async function inPlace<Result>(
  places: Places,
  client: string | undefined,
  counts: Pick<PaymentCounts, 'attemptsOfRequests'>,
  attempt: Promise<Result>,
): Promise<Result> {
  counts.attemptsOfRequests += 1;
  try {
    return await attempt;
  } finally {
    counts.attemptsOfRequests -= 1;
    places.giveBack(client);
  }
}

/**
 * Places of which each client may have all while nobody else needs one, and no more than its share while another client was refused in
 * the last second (rule P16). Requests without a client, as without `AUTH`, share all places. Only clients that hold a place, or were
 * refused lately, are remembered.
 */
export class FairPlaces {
  private held = 0;
  private readonly holders = new Map<string, number>();
  private readonly refused = new Map<string, Refused>();

  constructor(
    private readonly places: number,
    private readonly clock: Clock,
  ) {}

  /** False if the client gets no place now. */
  take(client: string | undefined): boolean {
    if (this.held >= this.places || (client !== undefined && this.hasItsShare(client))) {
      this.noteRefused(client);
      return false;
    }
    this.held += 1;
    if (client === undefined) return true;
    this.holders.set(client, (this.holders.get(client) ?? 0) + 1);
    const refused = this.refused.get(client);
    if (refused) refused.askedAt = this.clock.monotonic();
    return true;
  }

  giveBack(client: string | undefined): void {
    this.held -= 1;
    if (client === undefined) return;
    const left = (this.holders.get(client) ?? 0) - 1;
    if (left > 0) this.holders.set(client, left);
    else this.holders.delete(client);
  }

  /** True if others were refused lately, and one more place would be more than the client's share. */
  private hasItsShare(client: string): boolean {
    if (this.refused.size === 0) return false;
    const now = this.clock.monotonic();
    const waiting: Refused[] = [];
    let clients = this.holders.size + (this.holders.has(client) ? 0 : 1);
    for (const [other, refused] of this.refused) {
      if (now - refused.lastAt > CONTENDED_MS || now - refused.askedAt > GONE_AFTER_MS) this.refused.delete(other);
      else if (other !== client) {
        waiting.push(refused);
        if (!this.holders.has(other)) clients += 1;
      }
    }
    const share = Math.max(1, Math.floor(this.places / clients));
    if (waiting.length === 0 || (this.holders.get(client) ?? 0) < share) return false;
    for (const refused of waiting) refused.lastAt = now;
    return true;
  }

  /** A client that was refused only because it holds its share is owed nothing by the others. */
  private noteRefused(client: string | undefined): void {
    if (client === undefined || this.held < this.places) return;
    const now = this.clock.monotonic();
    this.refused.set(client, { askedAt: now, lastAt: now });
  }
}
