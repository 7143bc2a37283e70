import type { Settlement } from '../payments/ports/settlements.js';
import type { FeedPosition } from '../payments/settlement-feed.js';

/** Deliveries that were not taken yet, at most. */
export const MOST_OPEN = 100;
/**
 * Deliveries behind an open one that were taken already, at most. After a crash all of them come once more; with fewer, one that is refused
 * would soon hold up all others.
 */
const MOST_TAKEN = 10_000;
const FIRST_RETRY_MS = 1_000;
const LONGEST_RETRY_MS = 300_000;
/** A receiver that is down for a moment refuses everything; several receivers behind one address take turns. */
const SET_ASIDE_AFTER_REFUSALS = 5;
const SET_ASIDE_AFTER_MS = 60_000;
const PROBE_EVERY_MS = 60_000;

export interface Delivery {
  readonly settlement: Settlement;
  readonly position: FeedPosition;
}

interface OpenDelivery extends Delivery {
  isSending: boolean;
  /** The time of its next try, by the monotonic clock, as all times here. */
  dueAt: number;
  refusals: number;
  /** Refusals while others were taken, and the first of these. */
  counted: number;
  countedSince: number;
  /** A delivery that was taken after this time makes the next refusal count. */
  comparedSince: number;
}

/** A place in the order: open, or undefined if it may be passed. */
interface Place {
  readonly position: FeedPosition;
  open: OpenDelivery | undefined;
}

/** The settlements of one endpoint that are read and not passed yet, in their order. It computes only: times and random numbers are given. */
export class DeliveryWindow {
  /** In the order of the feed. `first` of them were passed. */
  private places: Place[] = [];
  private first = 0;
  private readonly open = new Map<Delivery, Place>();
  private lastTakenAt = Number.NEGATIVE_INFINITY;
  private probedAt = Number.NEGATIVE_INFINITY;

  constructor(
    /** From 0 to 1. */
    private readonly random: () => number,
  ) {}

  get hasRoom(): boolean {
    return this.open.size < MOST_OPEN && this.places.length - this.first < MOST_TAKEN;
  }

  get isEmpty(): boolean {
    return this.places.length === this.first;
  }

  /** The settlement that was read first of those that are open. */
  get oldest(): Delivery | undefined {
    return this.open.keys().next().value;
  }

  /**
   * True if there is no room and each open delivery was refused, so that only one beyond them can tell if the receiver takes anything. Each
   * probe that was taken is one place more, so nothing is probed any more when each open delivery has been refused often enough.
   */
  mayProbe(now: number): boolean {
    if (this.hasRoom || now - this.probedAt < PROBE_EVERY_MS) return false;
    const open = [...this.open.values()].map((place) => place.open);
    return (
      open.every((each) => each !== undefined && each.refusals > 0) &&
      open.some((each) => each !== undefined && each.counted < SET_ASIDE_AFTER_REFUSALS)
    );
  }

  probed(now: number): void {
    this.probedAt = now;
  }

  add(delivery: Delivery, now: number): void {
    const open = {
      ...delivery,
      isSending: false,
      dueAt: now,
      refusals: 0,
      counted: 0,
      countedSince: 0,
      comparedSince: now,
    };
    const place = { position: delivery.position, open };
    this.places.push(place);
    this.open.set(open, place);
  }

  /** A probe that was taken: it comes after all others. */
  addTaken({ position }: Delivery, now: number): void {
    this.places.push({ position, open: undefined });
    this.lastTakenAt = now;
  }

  /** The deliveries whose time has come. They count as being sent until `taken`, `refused` or `pass`. */
  takeDue(now: number, most: number): readonly Delivery[] {
    const due: OpenDelivery[] = [];
    for (const { open } of this.open.values()) {
      if (due.length === most) break;
      if (!open || open.isSending || open.dueAt > now) continue;
      open.isSending = true;
      due.push(open);
    }
    return due;
  }

  /** The time of the next try; Infinity if there is none. */
  nextDueAt(): number {
    let next = Number.POSITIVE_INFINITY;
    for (const { open } of this.open.values()) if (open && !open.isSending) next = Math.min(next, open.dueAt);
    return next;
  }

  taken(delivery: Delivery, now: number): void {
    this.lastTakenAt = now;
    this.pass(delivery);
  }

  /** True if it should be set aside: refused five times, over at least a minute, each time while others were taken. */
  refused(delivery: Delivery, now: number): boolean {
    const open = this.open.get(delivery)?.open;
    if (!open) return false;
    open.isSending = false;
    open.refusals += 1;
    const whole = Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** (open.refusals - 1));
    // A part of it is random, so that many do not come at once.
    open.dueAt = now + whole * (1 - this.random() / 4);
    if (this.lastTakenAt >= open.comparedSince) {
      if (open.counted === 0) open.countedSince = now;
      open.counted += 1;
    }
    open.comparedSince = now;
    return open.counted >= SET_ASIDE_AFTER_REFUSALS && now - open.countedSince >= SET_ASIDE_AFTER_MS;
  }

  /** It was taken, or is set aside. */
  pass(delivery: Delivery): void {
    const place = this.open.get(delivery);
    if (!place) return;
    place.open = undefined;
    this.open.delete(delivery);
  }

  /** The position behind everything that may be passed; undefined if it has not moved since the last call. */
  moved(): FeedPosition | undefined {
    let position: FeedPosition | undefined;
    for (let place = this.places[this.first]; place && !place.open; place = this.places[this.first]) {
      position = place.position;
      this.first += 1;
    }
    // Removing them one by one would move all others each time.
    if (this.first > MOST_OPEN) {
      this.places = this.places.slice(this.first);
      this.first = 0;
    }
    return position;
  }
}
