import type { Clock } from '../../../platform/clock.js';
import { StoreUnavailable } from '../../../platform/faults.js';
import { BoundedQueue } from '../../shared/bounded-queue.js';
import { IGNORED_QUEUE, type QueueMeasure } from '../../shared/store-measures.js';
import { StatementRefused } from './postgres.js';

/** Statements of one kind under way at once. */
export const LANES = 2;
/** Items of refused batches under way at once, each in a statement of its own. */
const SINGLES_AT_ONCE = 4;
/** Bounds the duration of one statement. */
const MAX_BATCH = 500;
/** Twenty batches: more than a healthy database takes in the time that an entry waits at most. */
const MAX_WAITING = 10_000;

interface QueuedItem<Item, Result> {
  readonly item: Item;
  readonly resolve: (result: Result) => void;
  readonly reject: (fault: unknown) => void;
}

/**
 * Gathers what concurrent requests ask for into one statement. While `lanes` batches are under way the next one fills, so
 * batches grow with the load and a single request does not wait. An item that is not sent within `QUEUE_LIMIT_MS` is refused
 * and changed nothing; from then on the deadlines of `Postgres` apply.
 */
export class Batcher<Item, Result> {
  private readonly waiting: BoundedQueue<QueuedItem<Item, Result>>;
  private underWay = 0;
  private scheduled = false;
  /** Items of batches that were refused because of one of them. */
  private readonly single: BoundedQueue<QueuedItem<Item, Result>>;
  private singlesUnderWay = 0;
  private readonly singlesAtOnce: number;

  constructor(
    private readonly run: (items: readonly Item[]) => Promise<readonly Result[]>,
    clock: Clock,
    private readonly lanes = LANES,
    private readonly measure: QueueMeasure = IGNORED_QUEUE,
  ) {
    this.waiting = new BoundedQueue('PostgreSQL', MAX_WAITING, clock);
    this.single = new BoundedQueue('PostgreSQL', MAX_WAITING, clock);
    // With one lane all statements of the kind wait for the same row.
    this.singlesAtOnce = lanes === 1 ? 1 : SINGLES_AT_ONCE;
    measure.watch(() => this.waiting.length);
  }

  add(item: Item): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.waiting.add({ item, resolve, reject });
      this.schedule();
    });
  }

  private schedule(): void {
    if (this.scheduled || this.underWay >= this.lanes) return;
    this.scheduled = true;
    setImmediate(() => {
      this.scheduled = false;
      while (this.waiting.length > 0 && this.underWay < this.lanes) this.send(this.waiting.take(MAX_BATCH));
    });
  }

  private async send(batch: readonly QueuedItem<Item, Result>[]): Promise<void> {
    this.underWay += 1;
    this.measure.batch(batch.length);
    try {
      await this.runTogether(batch);
    } finally {
      this.underWay -= 1;
      if (this.waiting.length > 0) this.schedule();
    }
  }

  private async runTogether(batch: readonly QueuedItem<Item, Result>[]): Promise<void> {
    try {
      const results = await this.run(batch.map(({ item }) => item));
      for (const [index, { resolve }] of batch.entries()) resolve(results[index] as Result);
    } catch (fault) {
      if (batch.length > 1 && isOfOneItem(fault)) this.runOneByOne(batch);
      else for (const { reject } of batch) reject(fault);
    }
  }

  /**
   * An item whose value PostgreSQL refuses, or whose row another session blocks, must not fail the others of its batch, which was rolled
   * back. They leave the lane, which the next batch takes. A few run at once, so that one that is still blocked does not hold up the
   * others. Any other refusal has another cause (a statement time-out, too many connections), and trying each item again would multiply
   * the load of a database that is already slow. So this ends at the first such fault, and what has not begun after `QUEUE_LIMIT_MS` is
   * refused.
   */
  private runOneByOne(batch: readonly QueuedItem<Item, Result>[]): void {
    for (const item of batch) this.single.add(item);
    while (this.single.length > 0 && this.singlesUnderWay < this.singlesAtOnce) this.runSingles();
  }

  private async runSingles(): Promise<void> {
    this.singlesUnderWay += 1;
    for (let [next] = this.single.take(1); next; [next] = this.single.take(1)) await this.runSingle(next);
    this.singlesUnderWay -= 1;
  }

  private async runSingle({ item, resolve, reject }: QueuedItem<Item, Result>): Promise<void> {
    try {
      const [result] = await this.run([item]);
      resolve(result as Result);
    } catch (fault) {
      reject(fault);
      if (isOfOneItem(fault)) return;
      this.single.refuseAll(
        new StoreUnavailable('unchanged', 'PostgreSQL failed in the middle of a refused batch', fault),
      );
    }
  }
}

function isOfOneItem(fault: unknown): boolean {
  return fault instanceof StatementRefused && fault.isOfOneItem;
}
