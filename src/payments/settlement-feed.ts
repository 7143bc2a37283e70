import { type Clock, sleep } from '../platform/clock.js';
import { StoreUnavailable } from '../platform/faults.js';
import { FairPlaces } from './fair-places.js';
import { createPaymentCounts, type PaymentCounts } from './payment-counts.js';
import type { OperationKind } from './ports/payment-history.js';
import {
  MOST_ENDS,
  type Settlement,
  type SettlementBound,
  type SettlementPlace,
  type Settlements,
} from './ports/settlements.js';
import type { Patience } from './waiting.js';

/** While somebody waits, the bound is moved so often: with its distance from the clock, a settlement is shown within half a second. */
const LOOK_EVERY_MS = 200;
/** Rows that are read for a page. */
const READ_LIMIT = 10_000;
/** A page is read in parts, each of which takes a few milliseconds of the event loop if the store is in the process. */
const PART = { settlements: 50, rows: 1_000 };
/**
 * The pause of all readers of a process after a part is the time of the part, times this number. So payments have the event loop for most of
 * the time, also on a slow machine.
 */
const REST_OF_PART = 3;
/**
 * The longest pause for each settlement that a part shows and for each row that it reads, because a part may have waited for a database, or
 * for the parts of other readers. The embedded store takes a third of it on a slow machine.
 */
const MOST_REST_MS = { settlement: 0.3, row: 0.012 };
/** A timer cannot be shorter. */
const LEAST_REST_MS = 1;
/** Readers that wait at the same time in one process; one more is answered at once, as if it had not asked to wait. */
const MOST_READERS = 1_000;
/** While transactions are open since before the first look, readers wait for a bound until this time after it. Later ones are refused at once. */
const FIRST_BOUND_MS = 5_000;
/** Another incarnation may begin between the look and the page. */
const MOST_TRIES = 3;

/** A place in the feed that a reader may keep, and go on from later. */
export interface FeedPosition extends SettlementPlace {
  readonly incarnation: string;
}

export interface FeedQuestion {
  /**
   * A position that a page gave, `now` for the bound, or a time in microseconds since the epoch. If omitted, the oldest settlement that
   * retention has left.
   */
  readonly after?: FeedPosition | 'now' | { readonly fromUs: number } | undefined;
  /** Only settlements of this client; of all clients if it is undefined. */
  readonly client: string | undefined;
  /** Both kinds if it is undefined. */
  readonly kind: OperationKind | undefined;
  readonly limit: number;
  /** The client that reads. If omitted, nobody in particular. */
  readonly reader?: string | undefined;
  /** Waits for the first settlement. If omitted, the page may be empty. */
  readonly patience?: Patience | undefined;
}

/**
 * A page may be empty and have another position. `isLast`: there is nothing more up to the bound. `fromUs`: the time to begin again from, in
 * microseconds since the epoch.
 */
export type FeedPage<Shown = Settlement> =
  | {
      readonly state: 'page';
      readonly settlements: readonly Shown[];
      readonly next: FeedPosition;
      readonly isLast: boolean;
    }
  /** Settlements before the position may not have been shown, because rows were lost or a clock was set back. */
  | { readonly state: 'other incarnation'; readonly fromUs: number }
  /** Retention has removed settlements after the position. */
  | { readonly state: 'removed'; readonly fromUs: number };

interface WaitingReader extends Pick<FeedQuestion, 'client' | 'kind'> {
  readonly end: (isSettled: boolean) => void;
}

/** The feed of settlements in one process. All of its readers share one bound, and nothing is asked while there are none. */
export class SettlementFeed {
  private readonly waiting = new Set<WaitingReader>();
  private readonly places: FairPlaces;
  private bound: SettlementBound | undefined;
  private boundAt = Number.NEGATIVE_INFINITY;
  private lookedAt = Number.NEGATIVE_INFINITY;
  /** The first of the looks that found no bound. */
  private unboundSince = Number.POSITIVE_INFINITY;
  private mayReadAt = Number.NEGATIVE_INFINITY;
  private looking: Promise<void> | undefined;
  private keepsLooking = false;
  private isClosed = false;

  constructor(
    private readonly settlements: Settlements,
    private readonly clock: Clock,
    private readonly counts: Pick<PaymentCounts, 'feedReaders'> = createPaymentCounts(),
  ) {
    this.places = new FairPlaces(MOST_READERS, clock);
  }

  /** `show`: the form in which the caller needs each settlement. It is called in the turn of the event loop in which the settlement was read. */
  async read<Shown = Settlement>(
    { patience, ...question }: FeedQuestion,
    show: (settlement: Settlement) => Shown = (settlement) => settlement as Shown,
  ): Promise<FeedPage<Shown>> {
    const waitsUntil = this.clock.monotonic() + (patience?.ms ?? 0);
    let { after } = question;
    for (;;) {
      const { page, bound } = await this.pageInParts(after, question, show);
      if (page.state !== 'page') return page;
      const mayWait = patience !== undefined && after !== 'now' && page.settlements.length === 0 && page.isLast;
      const ms = waitsUntil - this.clock.monotonic();
      if (!(mayWait && (await this.untilSettled(question, bound, { ms, gone: patience.gone })))) return page;
      after = page.next;
    }
  }

  /** How long ago the bound was moved last, in milliseconds. Undefined while nobody waits. */
  behindMs(): number | undefined {
    return this.waiting.size === 0 ? undefined : this.clock.monotonic() - this.boundAt;
  }

  /** Ends all waits when a drain begins, and begins no more. */
  close(): void {
    this.isClosed = true;
    for (const reader of this.waiting) reader.end(false);
  }

  /** If a part after the first is refused, the page ends before it, and the next page is refused. */
  private async pageInParts<Shown>(
    from: FeedQuestion['after'],
    question: Omit<FeedQuestion, 'after'>,
    show: (settlement: Settlement) => Shown,
  ): Promise<{ readonly bound: SettlementBound; readonly page: FeedPage<Shown> }> {
    const settlements: Shown[] = [];
    let next: FeedPosition | undefined;
    for (let rowsLeft = READ_LIMIT; ; ) {
      await this.rest();
      const begunAt = this.clock.monotonic();
      const limit = Math.min(PART.settlements, question.limit - settlements.length);
      const { page, bound } = await this.pageAfter(next ?? from, { ...question, limit });
      if (page.state !== 'page') {
        return { bound, page: next ? { state: 'page', settlements, next, isLast: false } : page };
      }
      const shown = page.settlements.length;
      const read = shown < limit && !page.isLast ? PART.rows : shown;
      settlements.push(...page.settlements.map(show));
      const mostMs = shown * MOST_REST_MS.settlement + read * MOST_REST_MS.row;
      this.restAfter(Math.min(REST_OF_PART * (this.clock.monotonic() - begunAt), mostMs));
      next = { ...page.next, incarnation: bound.incarnation };
      rowsLeft -= read;
      if (page.isLast || settlements.length >= question.limit || rowsLeft < PART.rows) {
        return { bound, page: { state: 'page', settlements, next, isLast: page.isLast } };
      }
    }
  }

  /** Parts that are read at the same time are not counted before they end, so a burst is as long as there are readers. */
  private restAfter(ms: number): void {
    this.mayReadAt = Math.max(this.mayReadAt, this.clock.monotonic()) + ms;
  }

  private async rest(): Promise<void> {
    for (;;) {
      const ms = this.mayReadAt - this.clock.monotonic();
      if (ms < LEAST_REST_MS) return;
      await sleep(this.clock, ms);
    }
  }

  private async pageAfter(after: FeedQuestion['after'], question: Omit<FeedQuestion, 'after'>) {
    for (let tries = 0; tries < MOST_TRIES; tries += 1) {
      const bound = await this.freshBound();
      if (after === 'now')
        return { bound, page: { state: 'page', settlements: [], next: bound, isLast: true } as const };
      const place = after && 'fromUs' in after ? { incarnation: bound.incarnation, atUs: after.fromUs } : after;
      const page = await this.settlements.page({ ...question, after: place, bound, readLimit: PART.rows });
      if (page.state !== 'bound is over') return { bound, page };
      this.lookedAt = Number.NEGATIVE_INFINITY;
    }
    throw new StoreUnavailable('unchanged', 'the incarnation of the feed changes again and again');
  }

  private async freshBound(): Promise<SettlementBound> {
    for (;;) {
      if (this.clock.monotonic() - this.lookedAt >= LOOK_EVERY_MS) await this.look();
      if (this.bound) return this.bound;
      if (this.clock.monotonic() - this.unboundSince >= FIRST_BOUND_MS)
        throw new StoreUnavailable('unchanged', 'transactions on payments are open since before the first look');
      await sleep(this.clock, LOOK_EVERY_MS);
    }
  }

  /** Calls at the same time share one look. */
  private look(): Promise<void> {
    this.looking ??= this.lookOnce().finally(() => {
      this.looking = undefined;
    });
    return this.looking;
  }

  private async lookOnce(): Promise<void> {
    const before = this.bound;
    const at = this.clock.monotonic();
    const now = await this.settlements.look();
    this.lookedAt = at;
    this.unboundSince = now ? Number.POSITIVE_INFINITY : Math.min(this.unboundSince, at);
    if (now?.incarnation === before?.incarnation && now?.atUs === before?.atUs) return;
    this.bound = now;
    this.boundAt = at;
    if (now && this.waiting.size > 0) await this.wake(before, now);
  }

  /** Wakes only readers for which something was settled, because each of them then reads a page of its own. */
  private async wake(before: SettlementBound | undefined, now: SettlementBound): Promise<void> {
    const isSame = before?.incarnation === now.incarnation;
    const ends = isSame ? await this.settlements.ends(before.atUs, now.atUs).catch(() => undefined) : undefined;
    for (const reader of this.waiting) {
      const { client, kind } = reader;
      const isTold = (end: { readonly client: string | undefined; readonly kind: OperationKind }) =>
        (client ?? end.client) === end.client && (kind ?? end.kind) === end.kind;
      if (!ends || ends.length >= MOST_ENDS || ends.some(isTold)) reader.end(true);
    }
  }

  /** False if nothing was settled for this reader until then. `seen`: the bound of the page that it has read. */
  private async untilSettled(
    { client, kind }: Pick<FeedQuestion, 'client' | 'kind'>,
    seen: SettlementBound,
    { ms, gone }: Patience,
  ): Promise<boolean> {
    if (ms <= 0 || gone.aborted || this.isClosed) return false;
    // The bound was moved while the page was read.
    if (this.bound !== seen) return true;
    if (!this.places.take(client)) return false;
    return new Promise((resolve) => {
      const leave = () => reader.end(false);
      const cancelLimit = this.clock.after(ms, leave);
      const reader: WaitingReader = {
        client,
        kind,
        end: (isSettled) => {
          if (!this.waiting.delete(reader)) return;
          this.counts.feedReaders = this.waiting.size;
          this.places.giveBack(client);
          cancelLimit();
          gone.removeEventListener('abort', leave);
          resolve(isSettled);
        },
      };
      gone.addEventListener('abort', leave, { once: true });
      this.waiting.add(reader);
      this.counts.feedReaders = this.waiting.size;
      this.keepLooking();
    });
  }

  /** Looks again and again while somebody waits. After a fault the next look tries again. */
  private keepLooking(): void {
    if (this.keepsLooking) return;
    this.keepsLooking = true;
    this.clock.after(LOOK_EVERY_MS, async () => {
      await this.look().catch(() => {});
      this.keepsLooking = false;
      if (this.waiting.size > 0) this.keepLooking();
    });
  }
}
