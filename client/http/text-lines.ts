/** Text that comes in pieces, such as NDJSON, cut into lines that end with LF. */
export class TextLines {
  /** The beginning of a line whose end has not come yet. */
  rest = '';

  /** The lines that end in this piece, without their ends. */
  add(piece: string): string[] {
    const lines = (this.rest + piece).split('\n');
    this.rest = lines.pop() ?? '';
    return lines;
  }
}
