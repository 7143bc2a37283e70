import { expect } from 'vitest';
import type { Answer } from './http-client.js';

/** A header value made from the unquoted current tag; an array sends the header several times. */
type Form = readonly [name: string, make: (tag: string) => string | string[]];

const OTHER = '"0123456789abcdef0123456789abcdef"';

/** Forms of `If-None-Match` that name the current tag: spec 4.3 rule 3 for the bare one, RFC 9110 13.1.2 for the rest. */
export const MATCHING_FORMS: readonly Form[] = [
  ['the bare tag', (tag) => tag],
  ['the quoted tag', (tag) => `"${tag}"`],
  ['the weak tag', (tag) => `W/"${tag}"`],
  ['a list that ends with the tag', (tag) => `${OTHER}, "${tag}"`],
  ['a list with the weak tag in the middle', (tag) => `${OTHER} , W/"${tag}" , ""`],
  ['a list with empty elements', (tag) => `, ${OTHER},, "${tag}" ,`],
  ['a list with a tag that holds a comma', (tag) => `"a,b", "${tag}"`],
  ['the header sent twice', (tag) => [OTHER, `"${tag}"`]],
  ['a star', () => '*'],
];

/** Forms that do not name the current tag, or are no form at all: the answer is the whole representation. */
export const OTHER_FORMS: readonly Form[] = [
  ['another quoted tag', () => OTHER],
  ['a list without the tag', () => `${OTHER}, W/"x", ""`],
  ['the tag in capitals', (tag) => `"${tag.toUpperCase()}"`],
  ['a longer tag that begins with it', (tag) => `"${tag}0"`],
  ['a tag that holds it after a comma', (tag) => `"x,${tag}"`],
  ['the tag with only an opening quote', (tag) => `"${tag}`],
  ['the tag with only a closing quote', (tag) => `${tag}"`],
  ['the tag in single quotes', (tag) => `'${tag}'`],
  ['a weakness mark without quotes', (tag) => `W/${tag}`],
  ['a weakness mark in lower case', (tag) => `w/"${tag}"`],
  ['a quoted star', () => '"*"'],
];

/** The tag of an answer without its quotes; fails when it is not one strong, quoted MD5 digest. */
export function tagOf(answer: Answer): string {
  const etag = answer.headers.etag;
  expect(etag).toMatch(/^"[0-9a-f]{32}"$/);
  return (etag as string).slice(1, -1);
}

/** A 304 with all it must have, and nothing else to read (decision T7). */
export function expectNotModified(answer: Answer, tag: string, cacheControl = 'private, no-cache'): void {
  expect(answer.status).toBe(304);
  expect(tagOf(answer)).toBe(tag);
  expect(answer.headers['cache-control']).toBe(cacheControl);
  // RFC 9110 8.6: the length would be that of the answer to GET, which is not 0.
  expect(answer.headers).not.toHaveProperty('content-length');
  expect(answer.headers['x-request-id']).toMatch(/\S/);
  expect(answer.text).toBe('');
}
