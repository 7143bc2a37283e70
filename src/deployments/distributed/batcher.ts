import { StatementRefused } from './postgres.js';

/** Bounds one statement, and so how long anyone waits for it. */
const MAX_BATCH = 500;

interface Waiting<Item, Result> {
  readonly item: Item;
  readonly resolve: (result: Result) => void;
  readonly reject: (fault: unknown) => void;
}

/**
 * Gathers what concurrent requests ask for into one statement. While `lanes` batches are under way the next one fills, so
 * batches grow with the load and a lone request waits for nobody.
 */
export class Batcher<Item, Result> {
  private waiting: Waiting<Item, Result>[] = [];
  private underWay = 0;
  private scheduled = false;

  constructor(
    private readonly run: (items: readonly Item[]) => Promise<readonly Result[]>,
    private readonly lanes = 2,
  ) {}

  add(item: Item): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.waiting.push({ item, resolve, reject });
      this.schedule();
    });
  }

  private schedule(): void {
    if (this.scheduled || this.underWay >= this.lanes) return;
    this.scheduled = true;
    setImmediate(() => {
      this.scheduled = false;
      while (this.waiting.length > 0 && this.underWay < this.lanes) this.send(this.waiting.splice(0, MAX_BATCH));
    });
  }

  private async send(batch: readonly Waiting<Item, Result>[]): Promise<void> {
    this.underWay += 1;
    try {
      await this.runTogether(batch);
    } finally {
      this.underWay -= 1;
      if (this.waiting.length > 0) this.schedule();
    }
  }

  /** One that is refused must not fail the others: a batch that surely rolled back is run again one by one. */
  private async runTogether(batch: readonly Waiting<Item, Result>[]): Promise<void> {
    try {
      const results = await this.run(batch.map(({ item }) => item));
      for (const [index, { resolve }] of batch.entries()) resolve(results[index] as Result);
    } catch (fault) {
      if (fault instanceof StatementRefused && batch.length > 1) {
        await Promise.all(batch.map((waiting) => this.runTogether([waiting])));
        return;
      }
      for (const { reject } of batch) reject(fault);
    }
  }
}
