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
  async page<Row>(limit: number, read: () => Row[]): Promise<Row[]> {
    if (this.read >= 1 || this.line.length > 0) await new Promise<void>((resolve) => this.line.push(resolve));
    this.endWithTheTurn();
    const rows = read();
    this.read += rows.length / limit;
    if (this.read < 1) this.line.shift()?.();
    return rows;
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
