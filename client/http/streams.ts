import type { Clock } from '../clock.js';
import { UnavailableError } from '../errors.js';
import { unlessAborted } from './call.js';
import type { Streaming } from './transport.js';

/** A list is given up when no data arrives for this long. */
const LONGEST_SILENCE_MS = 30_000;

/** The text of an answer as it comes. Ends the connection when its reader stops, and rejects when the answer breaks off. */
export async function* textOf(
  { body, connection }: Streaming,
  clock: Clock,
  signal: AbortSignal | undefined,
): AsyncGenerator<string> {
  const abort = () => connection.abort(signal?.reason);
  if (signal?.aborted) abort();
  signal?.addEventListener('abort', abort);
  const reader = body.getReader();
  const decoder = new TextDecoder();
  try {
    for (;;) {
      const read = new AbortController();
      void clock.sleep(LONGEST_SILENCE_MS, read.signal).then(() => {
        if (!read.signal.aborted) connection.abort(new DOMException('Nothing came for too long.', 'TimeoutError'));
      });
      const { done, value } = await unlessAborted(connection.signal, reader.read()).finally(() => read.abort());
      if (done) return;
      yield decoder.decode(value, { stream: true });
    }
  } catch (fault) {
    throw brokenOff(fault);
  } finally {
    signal?.removeEventListener('abort', abort);
    connection.abort();
  }
}

/** The lines of NDJSON, each parsed. */
export async function* linesOf(texts: AsyncIterable<string>): AsyncGenerator<unknown> {
  let rest = '';
  for await (const text of texts) {
    const lines = (rest + text).split('\n');
    rest = lines.pop() as string;
    for (const line of lines) if (line !== '') yield parsedPart(line);
  }
  // A last line without its end is half a line.
  if (rest !== '') throw brokenOff();
}

/** The elements of a JSON array of objects, each parsed as soon as it is there: memory stays flat however long the list is. */
export async function* elementsOf(texts: AsyncIterable<string>): AsyncGenerator<unknown> {
  let element = '';
  let depth = 0;
  let inString = false;
  let escaped = false;
  let hasEnded = false;
  for await (const text of texts) {
    let from = 0;
    for (let at = 0; at < text.length; at += 1) {
      const character = text[at];
      if (inString) {
        if (escaped) escaped = false;
        else if (character === '\\') escaped = true;
        else if (character === '"') inString = false;
      } else if (character === '"') inString = true;
      else if (character === '{' || character === '[') {
        depth += 1;
        if (depth === 2) from = at;
      } else if (character === '}' || character === ']') {
        depth -= 1;
        if (depth === 0) hasEnded = true;
        if (depth === 1) {
          yield parsedPart(element + text.slice(from, at + 1));
          element = '';
        }
      }
    }
    if (depth >= 2) element += text.slice(from);
  }
  if (!hasEnded) throw brokenOff();
}

function parsedPart(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (fault) {
    throw brokenOff(fault);
  }
}

function brokenOff(cause?: unknown): UnavailableError {
  return new UnavailableError('The answer broke off before its end. Read it again from its beginning.', undefined, {
    cause,
  });
}
