import { StatementError } from './statement-error.js';

export interface Line {
  /** The first line of the file is 1. */
  readonly number: number;
  readonly text: string;
}

const MOST_CHARACTERS = 1_000_000;

/** The lines of a file in UTF-8, some at a time, without their ends. Throws `StatementError` for a file that holds no lines of text. */
export async function* linesOf(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<readonly Line[], void, void> {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  let number = 0;
  let rest = '';

  function cut(text: string): Line[] {
    const texts = (rest + text).split('\n');
    rest = texts.pop() ?? '';
    if (rest.length > MOST_CHARACTERS) {
      throw new StatementError(
        `Line ${number + texts.length + 1} is longer than a million characters. Choose a file with one payment for each line.`,
      );
    }
    return texts.map((line) => {
      number += 1;
      return { number, text: line.endsWith('\r') ? line.slice(0, -1) : line };
    });
  }

  for await (const chunk of chunks) yield cut(decodedBy(() => decoder.decode(chunk, { stream: true })));
  const last = cut(decodedBy(() => decoder.decode()));
  if (rest !== '') last.push({ number: number + 1, text: rest });
  yield last;
}

function decodedBy(decode: () => string): string {
  try {
    return decode();
  } catch {
    throw new StatementError('The file is not text in UTF-8. Export it again, or save it as “CSV UTF-8”.');
  }
}
