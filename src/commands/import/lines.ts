import { UsageError } from '#idempay/cli/usage.js';

/** Far longer than any row: a file with such a line does not hold transactions. */
export const LONGEST_LINE_BYTES = 1024 * 1024;

/** One line of the input, as it is. */
export interface Line {
  /** From 1. */
  readonly number: number;
  /** With its line break; the last line may have none. */
  readonly bytes: Buffer;
  /** The place of the byte after it. */
  readonly end: number;
}

/**
 * LF, CRLF and CR each end a line. The places of the cuts between chunks make no difference: a CR at the end of a chunk waits for the LF
 * that may follow. Throws UsageError if a line is too long.
 */
export async function* linesOf(chunks: AsyncIterable<Buffer>): AsyncGenerator<Line> {
  let number = 1;
  let at = 0;
  /** The pieces of a line whose end has not come yet. */
  let parts: Buffer[] = [];
  let partBytes = 0;
  let endsWithCr = false;

  function add(bytes: Buffer): void {
    parts.push(bytes);
    partBytes += bytes.length;
    at += bytes.length;
    if (partBytes <= LONGEST_LINE_BYTES) return;
    throw new UsageError(
      `Line ${number} is longer than ${LONGEST_LINE_BYTES} bytes: this is no CSV or NDJSON with transactions.`,
    );
  }

  function take(): Line {
    const bytes = parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts);
    parts = [];
    partBytes = 0;
    number += 1;
    return { number: number - 1, bytes, end: at };
  }

  for await (const chunk of chunks) {
    if (chunk.length === 0) continue;
    let from = 0;
    if (endsWithCr) {
      if (chunk[0] === LF) add(chunk.subarray(0, ++from));
      yield take();
    }
    for (let to = breakEnd(chunk, from); to !== undefined; to = breakEnd(chunk, from)) {
      add(chunk.subarray(from, to));
      yield take();
      from = to;
    }
    if (from < chunk.length) add(chunk.subarray(from));
    endsWithCr = from < chunk.length && chunk.at(-1) === CR;
  }
  if (parts.length > 0) yield take();
}

const LF = 0x0a;
const CR = 0x0d;
const BOM = Buffer.from('\ufeff');

/** The place after the next line break. Undefined if there is none, or if a CR is the last byte. */
function breakEnd(chunk: Buffer, from: number): number | undefined {
  for (let at = from; at < chunk.length; at += 1) {
    if (chunk[at] === LF) return at + 1;
    if (chunk[at] !== CR) continue;
    if (at + 1 === chunk.length) return undefined;
    return chunk[at + 1] === LF ? at + 2 : at + 1;
  }
  return undefined;
}

/** The line without its break and without the mark that may begin a file. */
export function contentOf({ bytes, number }: Line): Buffer {
  let end = bytes.length;
  if (bytes[end - 1] === LF) end -= 1;
  if (bytes[end - 1] === CR) end -= 1;
  const start = number === 1 && bytes.subarray(0, BOM.length).equals(BOM) ? BOM.length : 0;
  return bytes.subarray(start, end);
}
