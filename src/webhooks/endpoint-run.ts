import type { PaymentHistory } from '../payments/ports/payment-history.js';
import type { FeedPosition, SettlementFeed } from '../payments/settlement-feed.js';
import { type Clock, sleep } from '../platform/clock.js';
import { type Delivery, DeliveryWindow } from './delivery-window.js';
import type { Endpoint } from './endpoint-file.js';
import { messageOf } from './message.js';
import type { EndpointRows, Lease, LeaseResult, TakeResult } from './ports/endpoint-rows.js';
import type { Receivers, SendResult } from './receivers.js';
import type { WebhookCounts, WebhookEvents } from './webhook-events.js';

/** Another process takes over within this time after this one has died. */
export const LEASE_MS = 10_000;
export const RENEW_EVERY_MS = 3_000;
/** A delivery that was taken in this time before a crash is sent once more. */
const SAVE_EVERY_MS = 200;
/** The position is saved at rest too, so that retention does not pass an endpoint that has nothing to deliver. */
const SAVE_AT_REST_MS = 60_000;
const PAGE = 100;
const READ_WAIT_MS = 30_000;
/** The pause between pages that bring nothing. */
const EMPTY_PAGE_PAUSE_MS = 200;
const RETRY_AFTER_FAULT_MS = 1_000;
/** While an endpoint is behind, this number of messages begins in each pace, so that payments go on in between: 2,000 a second at most. */
const MOST_AT_ONCE = 8;
const PACE_MS = 4;
/** A turn that comes late shows that the event loop is busy with payments. The pause after it is longer by the delay, times this number. */
const PAUSE_FOR_DELAY = 3;
/** A longer delay counts as this one: the process may have been stopped. */
const LONGEST_DELAY_MS = 50;
const MOST_SET_ASIDE = 1_000;
const SET_ASIDE_RETRY_MS = 3_600_000;
const SET_ASIDE_GIVE_UP_MS = 3 * 86_400_000;
/** Messages that are set aside and tried again at the same time. */
export const SET_ASIDE_AT_ONCE = 10;
/** A stop waits for answers for this time. A message without an answer comes once more. */
const LAST_ANSWERS_MS = 2_000;

export interface RunParts {
  readonly rows: EndpointRows;
  readonly feed: Pick<SettlementFeed, 'read'>;
  readonly history: Pick<PaymentHistory, 'find'>;
  readonly receivers: Pick<Receivers, 'send'>;
  readonly clock: Clock;
  readonly random: () => number;
  readonly events: WebhookEvents;
}

type Taken = Extract<TakeResult, { readonly state: 'taken' }>;

/** Serves one endpoint under one lease, from the moment that it was taken until it is lost, given back, or the endpoint is stopped. */
export class EndpointRun {
  private window: DeliveryWindow;
  /** Read and not in the window yet. */
  private buffer: readonly Delivery[] = [];
  /** Where the next page begins. */
  private after: FeedPosition | { readonly fromUs: number };
  private toSave: FeedPosition | undefined;
  /** The end of the pause after as many deliveries as may begin at once; undefined if fewer were due. */
  private mayBeginAt: number | undefined;
  private savedAt: number;
  private leaseEndsAt: number;
  private setAside: number;
  /** Set aside by earlier runs. If one ended before the position had passed its own, the feed brings them once more. */
  private setAsideBefore: Set<string> | undefined;
  private isDue: boolean;
  private underWay = 0;
  private isReading = false;
  private isFull = false;
  private isOver = false;
  private readonly over = new AbortController();
  private wake = () => {};
  private readonly done: Promise<void>;

  /** `endpoint`: as the file has it now. `askedAt`: the monotonic time before the lease was asked for. */
  constructor(
    private readonly endpoint: () => Endpoint,
    private readonly lease: Lease,
    taken: Taken,
    askedAt: number,
    private readonly counts: WebhookCounts,
    private readonly parts: RunParts,
  ) {
    this.window = new DeliveryWindow(parts.random);
    this.after = taken.position;
    this.setAside = taken.setAside;
    this.isDue = taken.isDue;
    this.savedAt = askedAt;
    this.leaseEndsAt = askedAt + LEASE_MS;
    this.done = this.serve();
  }

  /** Resolves when nothing of it is under way any more. */
  ended(): Promise<void> {
    return this.done;
  }

  /** Begins nothing more. */
  end(): void {
    this.isOver = true;
    this.over.abort();
    this.wake();
  }

  private async serve(): Promise<void> {
    const renewing = this.repeat(RENEW_EVERY_MS, () => this.renew());
    const saving = this.repeat(SAVE_EVERY_MS, () => this.save());
    // A stop does not wait for it, because a try that was not written is made once more.
    void this.repeat(RENEW_EVERY_MS, () => this.trySetAside());
    while (!this.isOver) {
      this.step();
      const nextAt = Math.max(this.window.nextDueAt(), this.mayBeginAt ?? Number.NEGATIVE_INFINITY);
      await this.untilWoken(this.mayStillSend() ? nextAt - this.now() : RENEW_EVERY_MS);
    }
    this.over.abort();
    await Promise.all([renewing, saving]);
    await this.lastAnswers();
    this.show();
    this.counts.isServed = false;
    await this.save(true).catch(() => {});
    await this.parts.rows.release(this.lease).catch(() => {});
  }

  /** Everything that may begin now. */
  private step(): void {
    const now = this.now();
    while (this.window.hasRoom && this.buffer.length > 0) {
      const [next, ...others] = this.buffer as readonly [Delivery, ...Delivery[]];
      this.buffer = others;
      this.window.add(next, now);
    }
    if (this.mayStillSend()) {
      if (now >= (this.mayBeginAt ?? now)) this.deliverDue(now);
      const [beyond] = this.buffer;
      if (beyond && this.window.mayProbe(now)) {
        this.window.probed(now);
        this.begin(() => this.probe(beyond));
      }
    }
    if (this.buffer.length === 0 && !this.isReading && (this.window.hasRoom || this.window.mayProbe(now))) {
      this.isReading = true;
      this.begin(() => this.read());
    }
    this.show();
  }

  private deliverDue(now: number): void {
    const due = this.window.takeDue(now, MOST_AT_ONCE);
    const delayMs = Math.min(now - (this.mayBeginAt ?? now), LONGEST_DELAY_MS);
    this.mayBeginAt = due.length === MOST_AT_ONCE ? now + PACE_MS + PAUSE_FOR_DELAY * delayMs : undefined;
    for (const delivery of due) this.begin(() => this.deliver(delivery));
  }

  /** A task never throws: its fault is reported, and the rest of its work is done again. */
  private begin(task: () => Promise<void>): void {
    this.underWay += 1;
    task()
      .catch((fault) => this.fault(fault))
      .finally(() => {
        this.underWay -= 1;
        this.wake();
      });
  }

  private async read(): Promise<void> {
    try {
      this.setAsideBefore ??= await this.keysSetAside();
      const { client } = this.endpoint();
      const patience = { ms: READ_WAIT_MS, gone: this.over.signal };
      const page = await this.parts.feed.read({ after: this.after, client, kind: undefined, limit: PAGE, patience });
      if (this.isOver) return;
      if (page.state === 'page') {
        const { incarnation } = page.next;
        this.after = page.next;
        this.buffer = page.settlements.map((settlement) => ({
          settlement,
          position: { incarnation, atUs: settlement.settledAtUs, key: settlement.key },
        }));
        if (this.buffer.length === 0) await this.pause(EMPTY_PAGE_PAUSE_MS);
        return;
      }
      if (page.state === 'removed') this.parts.events.passedByRetention(this.lease.name);
      else this.beginEarlier();
      this.after = { fromUs: page.fromUs };
    } catch (fault) {
      this.fault(fault);
      await this.pause(RETRY_AFTER_FAULT_MS);
    } finally {
      this.isReading = false;
    }
  }

  /** Rows that were read before may be lost by now. */
  private beginEarlier(): void {
    this.parts.events.beganEarlier(this.lease.name);
    this.window = new DeliveryWindow(this.parts.random);
    this.toSave = undefined;
  }

  private async deliver(delivery: Delivery): Promise<void> {
    const { settlement } = delivery;
    const endpoint = this.endpoint();
    const result = await this.send(endpoint, settlement);
    if (result.state === 'taken') {
      this.window.taken(delivery, this.now());
      return this.takenAtLast(settlement.key);
    }
    const isRefusedEnough = this.window.refused(delivery, this.now());
    // If the store fails meanwhile, the next try asks again.
    if (result.state === 'gone') return this.stopServing();
    if (!isRefusedEnough) return;
    const { key } = settlement;
    const refused = { key, cause: result.cause, retryMs: SET_ASIDE_RETRY_MS, mostSetAside: MOST_SET_ASIDE };
    const kept = await this.parts.rows.setAside(this.lease, refused);
    if (kept === 'full') {
      if (!this.isFull) this.parts.events.standsStill(this.lease.name, MOST_SET_ASIDE);
      this.isFull = true;
      return;
    }
    if (!this.isOk(kept)) return;
    this.isFull = false;
    this.setAside += 1;
    this.window.pass(delivery);
    this.parts.events.setAside(this.lease.name, result.cause);
  }

  /** Tells if the receiver takes anything while it refuses everything before. */
  private async probe(beyond: Delivery): Promise<void> {
    const result = await this.send(this.endpoint(), beyond.settlement);
    if (result.state === 'gone') return this.stopServing();
    // It may have got a place in the window meanwhile.
    if (result.state !== 'taken' || this.buffer[0] !== beyond) return;
    this.buffer = this.buffer.slice(1);
    this.window.addTaken(beyond, this.now());
    await this.takenAtLast(beyond.settlement.key);
  }

  private async keysSetAside(): Promise<Set<string>> {
    if (this.setAside === 0) return new Set();
    const listed = await this.parts.rows.listSetAside(this.lease.name, MOST_SET_ASIDE);
    return new Set(listed.map(({ key }) => key));
  }

  /** Without it a settlement that the feed brought once more would be listed as refused until its next try. */
  private async takenAtLast(key: string): Promise<void> {
    if (this.setAsideBefore?.delete(key)) this.removed(await this.parts.rows.removeSetAside(this.lease, key));
  }

  private async send(endpoint: Endpoint, settlement: Delivery['settlement']): Promise<SendResult> {
    const result = await this.parts.receivers.send(endpoint, messageOf(settlement, endpoint.client));
    this.counts.deliveries[result.state === 'taken' ? 'taken' : 'refused'] += 1;
    return result;
  }

  private async trySetAside(): Promise<void> {
    if (!this.isDue || !this.mayStillSend()) return;
    const keys = await this.parts.rows.due(this.lease, SET_ASIDE_AT_ONCE);
    this.isDue = keys.length === SET_ASIDE_AT_ONCE;
    await Promise.all(keys.map((key) => this.tryAgain(key)));
  }

  private async tryAgain(key: string): Promise<void> {
    const { rows, history } = this.parts;
    const record = await history.find(key);
    if (!record?.settledAt) {
      // Retention has removed it, or its end was lost: then the feed brings it when it ends again.
      if (!record) this.parts.events.setAsideRemoved(this.lease.name);
      return this.removed(await rows.removeSetAside(this.lease, key));
    }
    // It stays due, so that the next owner tries it.
    if (!this.mayStillSend()) return;
    const settlement = { ...record, settledAtUs: record.settledAt * 1_000 };
    const result = await this.send(this.endpoint(), settlement);
    if (result.state === 'taken') return this.removed(await rows.removeSetAside(this.lease, key));
    if (result.state === 'gone') return this.stopServing();
    const again = { key, cause: result.cause, retryMs: SET_ASIDE_RETRY_MS, giveUpMs: SET_ASIDE_GIVE_UP_MS };
    this.isOk(await rows.refusedAgain(this.lease, again));
  }

  private removed(result: LeaseResult): void {
    if (this.isOk(result)) this.setAside -= 1;
  }

  private async stopServing(): Promise<void> {
    if (!this.isOk(await this.parts.rows.stopServing(this.lease))) return;
    this.parts.events.stoppedByReceiver(this.lease.name);
    this.end();
  }

  private async renew(): Promise<void> {
    const askedAt = this.now();
    const { name, owner } = this.lease;
    const taken = await this.parts.rows.take({ name, owner, client: this.endpoint().client, leaseMs: LEASE_MS });
    if (taken.state !== 'taken') return this.end();
    this.leaseEndsAt = askedAt + LEASE_MS;
    this.setAside = taken.setAside;
    this.isDue ||= taken.isDue;
    this.wake();
  }

  /** The position moves only behind deliveries that were taken or set aside. */
  private async save(isLast = false): Promise<void> {
    const moved = this.window.moved();
    if (moved) this.toSave = moved;
    // Everything that was read is passed.
    if (this.window.isEmpty && this.buffer.length === 0 && 'incarnation' in this.after) this.toSave = this.after;
    const rests = this.window.isEmpty && !moved && !isLast && this.now() - this.savedAt < SAVE_AT_REST_MS;
    const position = this.toSave;
    if (!position || rests) return;
    const result = await this.parts.rows.advance(this.lease, position);
    this.savedAt = this.now();
    if (this.toSave === position) this.toSave = undefined;
    this.isOk(result);
  }

  private isOk(result: LeaseResult): boolean {
    if (result === 'stale') this.end();
    return result === 'ok';
  }

  /** A process that was stopped for a while may not be the one that serves any more: it asks before it sends. */
  private mayStillSend(): boolean {
    return !this.isOver && this.now() < this.leaseEndsAt;
  }

  private show(): void {
    const oldest = this.window.oldest ?? this.buffer[0];
    const behindMs = oldest ? Math.max(0, this.parts.clock.now() - oldest.settlement.settledAtUs / 1_000) : 0;
    Object.assign(this.counts, { isServed: true, behindMs, setAside: this.setAside });
  }

  private async repeat(everyMs: number, task: () => Promise<void>): Promise<void> {
    while (!this.isOver) {
      await this.pause(everyMs);
      if (!this.isOver) await task().catch((fault) => this.fault(fault));
    }
  }

  private async lastAnswers(): Promise<void> {
    const endsAt = this.now() + LAST_ANSWERS_MS;
    while (this.underWay > 0 && this.now() < endsAt) await this.untilWoken(endsAt - this.now());
  }

  private untilWoken(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const cancel = Number.isFinite(ms) ? this.parts.clock.after(Math.max(0, ms), () => this.wake()) : () => {};
      this.wake = () => {
        this.wake = () => {};
        cancel();
        resolve();
      };
    });
  }

  private pause(ms: number): Promise<void> {
    return sleep(this.parts.clock, ms, this.over.signal);
  }

  private fault(fault: unknown): void {
    this.parts.events.fault(fault);
  }

  private now(): number {
    return this.parts.clock.monotonic();
  }
}
