import type { Clock } from '../clock.js';
import { UnavailableError, UnexpectedAnswerError } from '../errors.js';
import { onAbort, unlessAborted } from './call.js';
import { isObject } from './proof.js';
import { TextLines } from './text-lines.js';
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
  const forget = onAbort(signal, abort);
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
    forget();
    connection.abort();
  }
}

/**
 * The objects of an export in NDJSON. It is whole only with its last line, `{"end":true,"count":…}`, which is not among them: the
 * connection of a proxy that speaks HTTP/1.0 ends in the same way after half of it.
 */
export async function* linesOf<T>(
  texts: AsyncIterable<string>,
  isElement: (value: unknown) => value is T,
): AsyncGenerator<T> {
  const lines = new TextLines();
  let count = 0;
  let hasEnded = false;
  for await (const text of texts) {
    for (const line of lines.add(text)) {
      const value = parsedPart(line);
      if (hasEnded) throw otherForm();
      if (isElement(value)) {
        count += 1;
        yield value;
      } else {
        expectEnd(value, count);
        hasEnded = true;
      }
    }
  }
  if (hasEnded && lines.rest !== '') throw otherForm();
  if (!hasEnded) throw brokenOff();
}

function expectEnd(value: unknown, count: number): void {
  if (!isObject(value) || value.end !== true) throw otherForm();
  if (value.count !== count) throw brokenOff();
}

/** The characters that may follow in a JSON array, outside of its elements. */
const FOLLOWING = {
  nothing: { '[': 'opening bracket' },
  'opening bracket': { '{': 'element', ']': 'closing bracket' },
  element: { ',': 'comma', ']': 'closing bracket' },
  comma: { '{': 'element' },
  'closing bracket': {},
} as const satisfies Record<string, Readonly<Record<string, string>>>;
type Place = keyof typeof FOLLOWING;
const WHITE_SPACE = /\s/;

/**
 * The objects of a JSON array, each parsed as soon as it is there: memory stays flat however long the list is. It is whole when its
 * bracket has come and nothing is behind it.
 */
export async function* elementsOf<T>(
  texts: AsyncIterable<string>,
  isElement: (value: unknown) => value is T,
): AsyncGenerator<T> {
  const array = new ArrayText();
  for await (const text of texts) {
    for (const element of array.read(text)) {
      const value = parsedPart(element);
      if (!isElement(value)) throw otherForm();
      yield value;
    }
  }
  if (!array.isWhole()) throw brokenOff();
}

/** The text of a JSON array of objects, which is read in pieces. */
class ArrayText {
  #place: Place = 'nothing';
  /** The beginning of an object that is not whole yet, from earlier pieces. */
  #begun = '';
  /** Brackets of the object that are open; 0 outside of objects. */
  #depth = 0;
  #inString = false;
  #escaped = false;

  /** The text of each object that ends in this piece. */
  *read(text: string): Generator<string> {
    let from = 0;
    for (let at = 0; at < text.length; at += 1) {
      const character = text[at] as string;
      if (this.#depth === 0) {
        this.#readOutside(character);
        from = at;
        continue;
      }
      this.#readInside(character);
      if (this.#depth > 0) continue;
      yield this.#begun + text.slice(from, at + 1);
      this.#begun = '';
    }
    if (this.#depth > 0) this.#begun += text.slice(from);
  }

  isWhole(): boolean {
    return this.#place === 'closing bracket';
  }

  #readOutside(character: string): void {
    if (WHITE_SPACE.test(character)) return;
    const next: Place | undefined = (FOLLOWING[this.#place] as Readonly<Record<string, Place>>)[character];
    if (next === undefined) throw otherForm();
    this.#place = next;
    if (next === 'element') this.#depth = 1;
  }

  #readInside(character: string): void {
    if (this.#escaped) this.#escaped = false;
    else if (this.#inString) {
      if (character === '\\') this.#escaped = true;
      else if (character === '"') this.#inString = false;
    } else if (character === '"') this.#inString = true;
    else if (character === '{' || character === '[') this.#depth += 1;
    else if (character === '}' || character === ']') this.#depth -= 1;
  }
}

function parsedPart(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (fault) {
    throw otherForm(fault);
  }
}

function brokenOff(cause?: unknown): UnavailableError {
  return new UnavailableError('The answer broke off before its end. Read it again from its beginning.', undefined, {
    cause,
  });
}

function otherForm(cause?: unknown): UnexpectedAnswerError {
  const message =
    'The answer has not the form that was asked for. Check baseUrl, and what is between this client and the service.';
  return new UnexpectedAnswerError(message, { status: 200, cause });
}
