import { createReadStream } from 'node:fs';
import { UsageError } from '../usage.js';

/** Far longer than any row: a file with such a line does not hold transactions. */
const LONGEST_LINE_BYTES = 1024 * 1024;
/** Large enough that reading takes no time beside the rest. */
const CHUNK_BYTES = 256 * 1024;

/** One line of the input, as it is. */
export interface Line {
  /** From 1. */
  readonly number: number;
  /** With its line break; the last line may have none. */
  readonly bytes: Buffer;
  /** The place of the byte after it. */
  readonly end: number;
}

/** `-` is standard input. */
export function bytesOf(file: string): AsyncIterable<Buffer> {
  return file === '-' ? process.stdin : createReadStream(file, { highWaterMark: CHUNK_BYTES });
}

/** The lines from byte `offset` on, which is the beginning of line `number`. What is before goes to `skipped`. */
export async function* linesFrom(
  chunks: AsyncIterable<Buffer>,
  { offset, number: first }: { readonly offset: number; readonly number: number },
  skipped: (bytes: Buffer) => void,
): AsyncGenerator<Line> {
  let number = first;
  let at = 0;
  /** Of a line whose end has not come yet. */
  let parts: Buffer[] = [];
  let partBytes = 0;
  for await (const whole of chunks) {
    const known = Math.min(Math.max(offset - at, 0), whole.length);
    if (known > 0) skipped(whole.subarray(0, known));
    const chunk = whole.subarray(known);
    const chunkAt = at + known;
    at += whole.length;
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
