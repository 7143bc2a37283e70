import { StatementError } from './statement-error.js';

export interface Line {
  /** The first line of the file is 1. */
  readonly number: number;
  readonly text: string;
}

const MOST_CHARACTERS = 1_000_000;
const END = /\r\n|\n|\r/;

/** Files that programs write besides text, by their first bytes. */
const OTHER_FILES: readonly (readonly [bytes: readonly number[], sentence: string])[] = [
  [
    [0x50, 0x4b, 0x03, 0x04],
    'The file is a workbook (.xlsx) or an archive. Open it, and save its sheet as “CSV UTF-8”.',
  ],
  [[0xd0, 0xcf, 0x11, 0xe0], 'The file is a workbook (.xls). Open it, and save its sheet as “CSV UTF-8”.'],
  [[0x25, 0x50, 0x44, 0x46], 'The file is a PDF. Download the statement as CSV.'],
  [[0x1f, 0x8b], 'The file is compressed. Unpack it first.'],
];

const LONGEST_BEGIN = 4;
const HEAD_BYTES = 262_144;

/**
 * The lines of a file in UTF-8, some at a time, without their ends: CRLF, LF or CR. Throws `StatementError` for a file that holds no lines
 * of text.
 */
export async function* linesOf(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<readonly Line[], void, void> {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  let number = 0;
  let rest = '';
  let begin: number[] = [];

  function cut(text: string, isLast: boolean): Line[] {
    const all = rest + text;
    // A CR may be the half of a CRLF.
    const open = !isLast && all.endsWith('\r') ? '\r' : '';
    const texts = (open === '' ? all : all.slice(0, -1)).split(END);
    rest = (texts.pop() ?? '') + open;
    if (rest.length > MOST_CHARACTERS) {
      throw new StatementError(
        `Line ${number + texts.length + 1} is longer than a million characters. Choose a file with one payment for each line.`,
      );
    }
    return texts.map((line) => {
      number += 1;
      return { number, text: line };
    });
  }

  for await (const chunk of chunks) {
    if (begin.length < LONGEST_BEGIN) {
      begin = [...begin, ...chunk.subarray(0, LONGEST_BEGIN - begin.length)];
      refuseOtherFile(begin);
    }
    yield cut(
      decodedBy(() => decoder.decode(chunk, { stream: true })),
      false,
    );
  }
  const last = cut(
    decodedBy(() => decoder.decode()),
    true,
  );
  if (rest !== '') last.push({ number: number + 1, text: rest });
  yield last;
}

/** Whole lines at the beginning of a file, which show its format. No more is read. */
export async function firstLines(bytes: AsyncIterable<Uint8Array>): Promise<string[]> {
  let length = 0;
  async function* counted() {
    for await (const chunk of bytes) {
      length += chunk.length;
      yield chunk;
    }
  }
  const lines: string[] = [];
  for await (const some of linesOf(counted())) {
    for (const { text } of some) lines.push(text);
    if (length >= HEAD_BYTES && lines.length > 0) break;
  }
  return lines;
}

function refuseOtherFile(begin: readonly number[]): void {
  for (const [bytes, sentence] of OTHER_FILES) {
    if (bytes.every((byte, index) => begin[index] === byte)) throw new StatementError(sentence);
  }
}

function decodedBy(decode: () => string): string {
  try {
    return decode();
  } catch {
    throw new StatementError('The file is not text in UTF-8. Export it again, or save it as “CSV UTF-8”.');
  }
}
