import { isUtf8 } from 'node:buffer';
import { visit } from 'jsonc-parser';
import { publicErrors } from './public-errors.js';

/** Deeper than any body this service takes, far shallower than the stack. */
const MAX_DEPTH = 64;

/**
 * A JSON text as it was sent: numbers keep their text and repeated members are seen, so that nothing is rounded and
 * nothing silently wins (decisions P4). `JSON.parse` would do both.
 */
export type JsonBody = JsonObject | { readonly kind: 'not an object' };

export interface JsonObject {
  readonly kind: 'object';
  readonly members: ReadonlyMap<string, JsonMember>;
  /** The name of a member that stands there twice. */
  readonly duplicate: string | undefined;
}

export type JsonMember =
  | { readonly type: 'string'; readonly text: string }
  /** `text` exactly as sent, such as `1.50` or `1e3`. */
  | { readonly type: 'number'; readonly text: string }
  | { readonly type: 'other' };

const OTHER: JsonMember = { type: 'other' };

/** Throws PublicError 400 for what is not UTF-8, not JSON, or nested too deep. Says nothing about the content. */
export function readJsonBody(bytes: Buffer): JsonBody {
  if (!isUtf8(bytes)) throw publicErrors.unreadableBody('it is not valid UTF-8.');
  const text = bytes.toString('utf8');
  const members = new Map<string, JsonMember>();
  let duplicate: string | undefined;
  let isObject = false;
  let depth = 0;
  let name = '';

  function open(): void {
    if (depth === 1 && isObject) members.set(name, OTHER);
    depth += 1;
    if (depth > MAX_DEPTH) throw publicErrors.unreadableBody(`it is nested deeper than ${MAX_DEPTH} levels.`);
  }
  function close(): void {
    depth -= 1;
  }

  visit(
    text,
    {
      onObjectBegin() {
        if (depth === 0) isObject = true;
        open();
      },
      onObjectEnd: close,
      onArrayBegin: open,
      onArrayEnd: close,
      onObjectProperty(property) {
        if (depth !== 1) return;
        name = property;
        if (members.has(property)) duplicate ??= property;
      },
      onLiteralValue(value: unknown, offset, length) {
        if (depth === 1 && isObject) members.set(name, memberOf(value, text, offset, length));
      },
      onError(_code, offset) {
        throw publicErrors.unreadableBody(`it is not valid JSON (at character ${offset + 1}).`);
      },
    },
    { disallowComments: true },
  );
  return isObject ? { kind: 'object', members, duplicate } : { kind: 'not an object' };
}

function memberOf(value: unknown, text: string, offset: number, length: number): JsonMember {
  if (typeof value === 'string') return { type: 'string', text: value };
  if (typeof value === 'number') return { type: 'number', text: text.slice(offset, offset + length) };
  return OTHER;
}

/** The object's members, or the sentence that says why the body is none. */
export function membersOf(body: JsonBody): ReadonlyMap<string, JsonMember> | { problem: string } {
  if (body.kind !== 'object') return { problem: 'The body must be a JSON object.' };
  if (body.duplicate !== undefined) return { problem: `'${body.duplicate}' stands in the body more than once.` };
  return body.members;
}
