import { isUtf8 } from 'node:buffer';
import { visit } from 'jsonc-parser';

/** Deeper than any text this service takes, far shallower than the stack. */
const MAX_DEPTH = 64;
/** Twenty for each of a thousand rows. A megabyte of the shortest values would hold up other requests for a tenth of a second. */
const MAX_VALUES = 20_000;

/** Nearly every text is as short, and then blanks and escapes cost less than looking for them. */
const SHORT_BYTES = 1024;

/**
 * A JSON text as it was sent: numbers keep their text and repeated members are seen, so that nothing is rounded and
 * nothing silently wins (rule P4). `JSON.parse` would do both.
 */
export type JsonText = JsonObject | { readonly kind: 'not an object' };

export interface JsonObject {
  readonly kind: 'object';
  readonly members: ReadonlyMap<string, JsonMember>;
  /** The name of the first repeated member. */
  readonly duplicate: string | undefined;
}

export type JsonMember =
  | { readonly type: 'string'; readonly text: string }
  /** `text` exactly as sent, such as `1.50` or `1e3`. */
  | { readonly type: 'number'; readonly text: string }
  /** An object, one level of which is read. */
  | { readonly type: 'object'; readonly object: JsonObject }
  /** The array that the route asked for. */
  | { readonly type: 'rows'; readonly rows: readonly JsonText[] }
  | { readonly type: 'other' };

/** The member whose array of objects is read, and how many there may be. */
export interface RowsMember {
  readonly name: string;
  readonly most: number;
}

const OTHER: JsonMember = { type: 'other' };
const NOT_AN_OBJECT: JsonText = { kind: 'not an object' };

/** An object whose members are read. */
interface OpenObject {
  readonly kind: 'object';
  readonly members: Map<string, JsonMember>;
  duplicate: string | undefined;
  /** The member that was named last. */
  name: string;
}

function openObject(): OpenObject {
  return { kind: 'object', members: new Map(), duplicate: undefined, name: '' };
}

/** Why a text is refused. `isRead` is false for text that is not UTF-8, not JSON, nested too deep, or of too many values. */
export class JsonTextError extends Error {
  override readonly name = 'JsonTextError';
  constructor(
    message: string,
    readonly isRead: boolean,
  ) {
    super(message);
  }
}

/**
 * Throws JsonTextError, which says nothing about the content. With `rowsMember` the objects in that member's array are read as well; the
 * error says if there are too many.
 */
export function readJsonText(bytes: Buffer, rowsMember?: RowsMember): JsonText {
  if (!isUtf8(bytes)) throw unreadable('it is not valid UTF-8.');
  const json = hasByteOrderMark(bytes) ? bytes.subarray(BYTE_ORDER_MARK_LENGTH) : bytes;
  const text = json.toString();
  let body: OpenObject | undefined;
  /** The array of rows while it is open, and the row in it. */
  let array: { readonly type: 'rows'; readonly rows: JsonText[] } | undefined;
  let row: OpenObject | undefined;
  /** The object that is the value of a member of the body, while it is open. */
  let nested: OpenObject | undefined;
  let depth = 0;
  let values = 0;

  /** The body, row or nested object whose member has the next value; undefined for deeper values. */
  function parent(): OpenObject | undefined {
    if (depth === 1) return body;
    if (depth === 2) return nested;
    return depth === 3 ? row : undefined;
  }

  /** Adds a row. Undefined when the next value is not in the array of rows. */
  function addRow<Row extends JsonText>(next: Row): Row | undefined {
    if (depth !== 2 || !array || !rowsMember) return undefined;
    const { name, most } = rowsMember;
    if (array.rows.length === most) {
      throw new JsonTextError(`'${name}' has more than ${most} rows. Send at most ${most} in one request.`, true);
    }
    array.rows.push(next);
    return next;
  }

  function countValue(): void {
    values += 1;
    if (values > MAX_VALUES) throw unreadable(`it has more than ${MAX_VALUES} values.`);
  }

  function descend(): void {
    countValue();
    depth += 1;
    if (depth > MAX_DEPTH) throw unreadable(`it is nested deeper than ${MAX_DEPTH} levels.`);
  }

  visit(
    (json.length > SHORT_BYTES ? quickToScan(json) : undefined) ?? text,
    {
      onObjectBegin() {
        const holder = parent();
        if (depth === 1 && body) {
          nested = openObject();
          body.members.set(body.name, { type: 'object', object: nested });
        } else if (holder) holder.members.set(holder.name, OTHER);
        if (depth === 0) body = openObject();
        if (depth === 2 && array) row = addRow(openObject());
        descend();
      },
      onObjectEnd() {
        depth -= 1;
        if (depth === 2) row = undefined;
        if (depth === 1) nested = undefined;
      },
      onArrayBegin() {
        const holder = parent();
        if (depth === 1 && body && body.name === rowsMember?.name) {
          array = { type: 'rows', rows: [] };
          body.members.set(body.name, array);
        } else if (holder) holder.members.set(holder.name, OTHER);
        else addRow(NOT_AN_OBJECT);
        descend();
      },
      onArrayEnd() {
        depth -= 1;
        if (depth === 1) array = undefined;
      },
      onObjectProperty(name, offset, length) {
        const property = stringAt(text, offset, length, name);
        const holder = parent();
        if (!holder) return;
        holder.name = property;
        if (holder.members.has(property)) holder.duplicate ??= property;
      },
      onLiteralValue(value: unknown, offset, length) {
        countValue();
        const member = memberOf(value, text, offset, length);
        const holder = parent();
        if (holder) holder.members.set(holder.name, member);
        else addRow(NOT_AN_OBJECT);
      },
      onError(_code, offset) {
        throw notJson(offset);
      },
    },
    { disallowComments: true },
  );
  return body ?? NOT_AN_OBJECT;
}

/** RFC 8259 8.1: it may be ignored, and some editors and frameworks write it. */
const BYTE_ORDER_MARK_LENGTH = 3;
function hasByteOrderMark(bytes: Buffer): boolean {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
}

function memberOf(scanned: unknown, text: string, offset: number, length: number): JsonMember {
  if (typeof scanned === 'string') return { type: 'string', text: stringAt(text, offset, length, scanned) };
  if (typeof scanned === 'number') return { type: 'number', text: text.slice(offset, offset + length) };
  return OTHER;
}

const SPACE = 0x20;
const TAB = 0x09;
const LINE_BREAK = 0x0a;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const NO_ESCAPE = 0x78;

/**
 * The same JSON in as many characters, for the scanner, which appends each blank to the blanks before it and each escape to its string: a
 * megabyte of them took half a second. So blanks between values become line breaks, which it takes one by one, and escapes become letters.
 * Undefined if it has neither.
 */
function quickToScan(json: Buffer): string | undefined {
  let quick: Buffer | undefined;
  let isInString = false;
  for (let at = 0; at < json.length; at += 1) {
    const byte = json[at];
    if (byte === QUOTE) isInString = !isInString;
    else if (isInString) {
      if (byte !== BACKSLASH) continue;
      quick ??= Buffer.from(json);
      quick[at] = NO_ESCAPE;
      const next = json[at + 1];
      if (next !== QUOTE && next !== BACKSLASH) continue;
      at += 1;
      quick[at] = NO_ESCAPE;
    } else if (byte === SPACE || byte === TAB) {
      quick ??= Buffer.from(json);
      quick[at] = LINE_BREAK;
    }
  }
  return quick?.toString();
}

/** The string that begins at `offset`, with its escapes, of which the scanner saw none. */
function stringAt(text: string, offset: number, length: number, scanned: string): string {
  const token = text.slice(offset, offset + length);
  if (!token.includes('\\')) return scanned;
  try {
    return JSON.parse(token);
  } catch {
    throw notJson(offset);
  }
}

function notJson(offset: number): JsonTextError {
  return unreadable(`it is not valid JSON (at character ${offset + 1}).`);
}

function unreadable(problem: string): JsonTextError {
  return new JsonTextError(problem, false);
}

/** The object's members, or the sentence that says why the body is none. */
export function membersOf(body: JsonText): ReadonlyMap<string, JsonMember> | { problem: string } {
  if (body.kind !== 'object') return { problem: 'The body must be a JSON object.' };
  if (body.duplicate !== undefined) return { problem: `'${body.duplicate}' appears in the body more than once.` };
  return body.members;
}
