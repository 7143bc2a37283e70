import { UsageError } from '../usage.js';

/** Far longer than any row: a file with such a line does not hold transactions. */
const LONGEST_LINE_BYTES = 1024 * 1024;

/** One line of the input, as it is. */
export interface Line {
  /** From 1. */
  readonly number: number;
  /** With its line break; the last line may have none. */
  readonly bytes: Buffer;
  /** The place of the byte after it. */
  readonly end: number;
}

export async function* linesOf(chunks: AsyncIterable<Buffer>): AsyncGenerator<Line> {
  let number = 1;
  let at = 0;
  /** The pieces of a line whose end has not come yet. */
  let parts: Buffer[] = [];
  let partBytes = 0;
  for await (const chunk of chunks) {
    const chunkAt = at;
    at += chunk.length;
    let from = 0;
    for (let to = chunk.indexOf(LF); to >= 0; to = chunk.indexOf(LF, from)) {
      const bytes = chunk.subarray(from, to + 1);
      yield { number, bytes: parts.length > 0 ? Buffer.concat([...parts, bytes]) : bytes, end: chunkAt + to + 1 };
      parts = [];
      partBytes = 0;
      number += 1;
      from = to + 1;
    }
    if (from < chunk.length) {
      parts.push(chunk.subarray(from));
      partBytes += chunk.length - from;
      if (partBytes > LONGEST_LINE_BYTES) {
        throw new UsageError(
          `Line ${number} is longer than ${LONGEST_LINE_BYTES} bytes: this is no CSV or NDJSON with transactions.`,
        );
      }
    }
  }
  if (parts.length > 0) yield { number, bytes: Buffer.concat(parts), end: at };
}

const LF = 0x0a;
const CR = 0x0d;
const BOM = Buffer.from('\ufeff');

/** The line without its break and without the mark that may begin a file. */
export function contentOf({ bytes, number }: Line): Buffer {
  let end = bytes.length;
  if (bytes[end - 1] === LF) end -= 1;
  if (bytes[end - 1] === CR) end -= 1;
  const start = number === 1 && bytes.subarray(0, BOM.length).equals(BOM) ? BOM.length : 0;
  return bytes.subarray(start, end);
}
