import { FairLine } from '../../limits/fair-line.js';
import { AllSnapshotsInUse } from '../../platform/faults.js';

/** Longer than a stalled reader keeps its snapshot while others wait, on a busy machine too. */
const WAIT_MS = 10_000;
/** Waiting at most; each is a request with a client. */
const MOST_WAITING = 256;
/** If a client waits this long, another one that has more than half of the permits must give some of them back. */
const OWED_AFTER_MS = 2_000;
/** A quarter of the permits is kept for lists that begin: most have one page, and release their permit at once. */
const KEPT_FOR_SHORT = 0.25;

/** The right to read; it must be released. */
export interface Permit {
  /** True if others wait for one. */
  isWanted(): boolean;
  /** Its client has more than half of all permits, and another one has waited for a while. */
  isOwed(): boolean;
  /**
   * Makes it the permit of a long list. If there are too many of these, it returns a place in the line: then it must be released, and
   * one for a long list be taken at that place.
   */
  lengthen(): number | undefined;
  release(): void;
}

interface PermitRequest {
  readonly since: number;
  readonly client: string;
  readonly isLong: boolean;
  readonly place: number;
  readonly resolve: (permit: Permit) => void;
}

/**
 * A bounded number of permits, such as one for each snapshot that lists are read from. A request beyond it waits, and gives up after a while.
 * Long lists have a part of them, so that they never keep short ones waiting. While clients wait, each gets a permit in each round,
 * and none that has half of all permits gets a further one. A client's newest and oldest requests are served alternately:
 * the newest because clients that do not read their answers must not keep it waiting, the oldest so that it is served at all.
 */
export class Permits {
  private readonly short = new FairLine<PermitRequest>();
  private readonly long = new FairLine<PermitRequest>();
  private readonly heldBy = new Map<string, number>();
  private readonly mostLong: number;
  private held = 0;
  private heldLong = 0;
  private lastWasShort = false;
  private lastPlace = 0;

  constructor(private readonly most: number) {
    this.mostLong = Math.max(1, most - Math.ceil(most * KEPT_FOR_SHORT));
  }

  /**
   * Resolves when a permit is free; rejects with AllSnapshotsInUse after a while. `long`: for a long list, at the place that `lengthen`
   * told, or at the end of the line.
   */
  async take(client = '', long?: number | 'at the end'): Promise<Permit> {
    this.lastPlace += 1;
    const isLong = long !== undefined;
    const place = typeof long === 'number' ? long : this.lastPlace;
    if (this.held < this.most && (!isLong || this.heldLong < this.mostLong)) return this.hold(client, isLong, place);
    const line = isLong ? this.long : this.short;
    if (this.short.length + this.long.length >= MOST_WAITING) throw new AllSnapshotsInUse(this.most);
    return new Promise<Permit>((resolve, reject) => {
      const waiting: PermitRequest = {
        ...{ client, isLong, place, since: performance.now() },
        resolve(permit) {
          clearTimeout(timer);
          resolve(permit);
        },
      };
      const timer = setTimeout(() => {
        line.remove(client, waiting);
        reject(new AllSnapshotsInUse(this.most));
      }, WAIT_MS);
      line.add(client, waiting, (other) => other.place > place);
    });
  }

  /** Works with a permit. */
  async during<T>(client: string | undefined, work: () => Promise<T>): Promise<T> {
    const permit = await this.take(client);
    try {
      return await work();
    } finally {
      permit.release();
    }
  }

  private hold(client: string, begunLong: boolean, place: number): Permit {
    let isLong = begunLong;
    this.held += 1;
    this.heldLong += isLong ? 1 : 0;
    this.heldBy.set(client, (this.heldBy.get(client) ?? 0) + 1);
    return {
      isWanted: () => this.short.length + this.long.length > 0,
      isOwed: () => this.hasOverHalf(client) && this.isOwedToOthers(client),
      lengthen: () => {
        if (!isLong && this.heldLong >= this.mostLong) return place;
        this.heldLong += isLong ? 0 : 1;
        isLong = true;
        return undefined;
      },
      release: () => {
        this.held -= 1;
        this.heldLong -= isLong ? 1 : 0;
        const left = (this.heldBy.get(client) ?? 1) - 1;
        if (left > 0) this.heldBy.set(client, left);
        else this.heldBy.delete(client);
        this.admit();
      },
    };
  }

  private admit(): void {
    const mustYield = (client: string) => (this.heldBy.get(client) ?? 0) * 2 >= this.most;
    while (this.held < this.most) {
      const fitting = this.heldLong < this.mostLong ? [this.short, this.long] : [this.short];
      // Alternately, so that neither kind waits for ever.
      const lines = this.lastWasShort ? fitting.toReversed() : fitting;
      const next = lines[0]?.next(mustYield, true) ?? lines[1]?.next(mustYield, true);
      if (!next) return;
      this.lastWasShort = !next.isLong;
      next.resolve(this.hold(next.client, next.isLong, next.place));
    }
  }

  private hasOverHalf(client: string): boolean {
    return (this.heldBy.get(client) ?? 0) * 2 > this.most;
  }

  private isOwedToOthers(client: string): boolean {
    const before = performance.now() - OWED_AFTER_MS;
    for (const line of [this.short, this.long]) {
      for (const { since } of line.others(client)) if (since <= before) return true;
    }
    return false;
  }
}
