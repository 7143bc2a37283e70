/**
 * Reading of lists on the main thread, one page in each turn of the event loop however many lists are read at once, so that
 * payments go on in between. Short lists share a turn until their rows together make a page.
 */
export class ListReads {
  private readonly line: (() => void)[] = [];
  /** Pages read in this turn; parts of a page count as parts. */
  private read = 0;
  private scheduled = false;

  /** Waits for a turn; `read` gives at most `limit` rows, a page. */
  page<Row>(limit: number, read: () => Row[]): Promise<Row[]> {
    return this.part(read, (rows) => rows.length / limit);
  }

  /** Waits for a turn. `sizeOf`: how much of a page was read, which is more than what it gives where rows are filtered. */
  async part<T>(read: () => T, sizeOf: (result: T) => number): Promise<T> {
    if (this.read >= 1 || this.line.length > 0) await new Promise<void>((resolve) => this.line.push(resolve));
    this.endWithTheTurn();
    const result = read();
    this.read += sizeOf(result);
    if (this.read < 1) this.line.shift()?.();
    return result;
  }

  private endWithTheTurn(): void {
    if (this.scheduled) return;
    this.scheduled = true;
    setImmediate(() => {
      this.scheduled = false;
      this.read = 0;
      this.admit();
    });
  }

  private admit(): void {
    const next = this.line.shift();
    if (!next) return;
    this.endWithTheTurn();
    next();
  }
}
