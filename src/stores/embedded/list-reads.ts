import { FairLine } from '../../limits/fair-line.js';

/**
 * Reading of lists on the main thread, one page in each iteration of the event loop however many lists are read at once, so that
 * payments go on in between. Short lists share one until their rows together make a page. Clients that wait are served in rounds,
 * and so are the lists of one client: each reads at most one page in a round.
 */
export class ListReads {
  private readonly line = new FairLine<() => void>();
  /** Pages read in this iteration; parts of a page count as parts. */
  private read = 0;
  private scheduled = false;

  /** Waits until a page may be read; `read` gives at most `limit` rows, a page. */
  page<Row>(client: string | undefined, limit: number, read: () => Row[]): Promise<Row[]> {
    return this.part(client, read, (rows) => rows.length / limit);
  }

  /** Waits until the caller may read at once, in this iteration of the event loop: `size` is how much of a page. */
  wait(client: string | undefined, size: number): Promise<unknown> {
    return this.part(client, () => size, Number);
  }

  /** Waits until a part may be read. `sizeOf`: how much of a page was read, which is more than what it gives if rows are filtered. */
  async part<T>(client = '', read: () => T, sizeOf: (result: T) => number): Promise<T> {
    if (this.read >= 1 || this.line.length > 0) await new Promise<void>((resolve) => this.line.add(client, resolve));
    this.endWithTheIteration();
    const result = read();
    this.read += sizeOf(result);
    if (this.read < 1) this.line.next()?.();
    return result;
  }

  private endWithTheIteration(): void {
    if (this.scheduled) return;
    this.scheduled = true;
    setImmediate(() => {
      this.scheduled = false;
      this.read = 0;
      this.admit();
    });
  }

  private admit(): void {
    const next = this.line.next();
    if (!next) return;
    this.endWithTheIteration();
    next();
  }
}
