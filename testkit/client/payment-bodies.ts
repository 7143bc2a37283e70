import { gzipSync } from 'node:zlib';
import type { Ask } from './http-client.js';

export const BODY_LIMIT_BYTES = 16 * 1024;

export const GOOD_BODY = '{"amount":"100.50","currency":"USD"}';

/** A good payment stretched to this number of bytes with white space, which JSON allows and nobody counts. */
export function paymentOfSize(bytes: number): string {
  return GOOD_BODY.padEnd(bytes);
}

/** A request whose body cannot be read, so that nothing after rule 1 is looked at, and the status that says so. */
export interface UnreadableBody {
  readonly label: string;
  readonly status: 400 | 413 | 415;
  readonly body: Ask['body'];
  readonly headers?: Ask['headers'];
}

export const UNREADABLE_BODIES: readonly UnreadableBody[] = [
  { label: 'malformed JSON', status: 400, body: '{"amount":"100.50",' },
  { label: 'no body at all', status: 400, body: '' },
  { label: 'bytes that are not UTF-8', status: 400, body: withMember(Buffer.from([0xff])) },
  { label: 'too deep a nesting', status: 400, body: `{"amount":"100.50","currency":"USD","x":${nested(7_900)}}` },
  { label: 'a body over 16 KiB', status: 413, body: paymentOfSize(BODY_LIMIT_BYTES + 1) },
  { label: 'a media type that is not JSON', status: 415, body: GOOD_BODY, headers: { 'Content-Type': 'text/plain' } },
  { label: 'a compressed body', status: 415, body: gzipSync(GOOD_BODY), headers: { 'Content-Encoding': 'gzip' } },
];

export const BAD_CONTENTS: readonly string[] = [
  'null',
  '{"amount":"100.50"}',
  '{"amount":true,"currency":"USD"}',
  '{"amount":"0x10","currency":"USD"}',
  '{"amount":"100.50","amount":"100.50","currency":"USD"}',
];

export function nested(levels: number): string {
  return '['.repeat(levels) + ']'.repeat(levels);
}

/** A payment, good but for these bytes inside the value of a member that nobody reads. */
export function withMember(bytes: Buffer): Buffer {
  return Buffer.concat([Buffer.from('{"amount":"100.50","currency":"USD","note":"'), bytes, Buffer.from('"}')]);
}

/** Four bytes in UTF-8, two units in JavaScript, one character. */
export const SHOE = '\u{1f45f}';

export const metadataOf = (count: number, value = 'x') =>
  Object.fromEntries(Array.from({ length: count }, (_, n) => [`name ${n}`, value]));

/** Members that make a good payment a bad one, and what is said of them. */
export const REFUSED_CONTENT: readonly [content: string, message: RegExp][] = [
  ...['null', '5', '["tok"]', '{"id":"tok"}', 'true'].map((value): [string, RegExp] => [
    `"source":${value}`,
    /'source' must be a string/,
  ]),
  ['"source":""', /'source' must be 1 to 500/],
  [`"source":"${'x'.repeat(501)}"`, /'source' must be 1 to 500/],
  ['"source":"tok 1"', /visible ASCII/],
  ['"source":"t\u00f6k"', /visible ASCII/],
  ['"source":"tok\\u0000"', /visible ASCII/],
  ['"source":"4242424242424242"', /card number/],
  ['"source":"378282246310005"', /card number/],
  ['"source":"4222222222222"', /card number/],
  ['"source":"6011000990139424"', /card number/],
  ['"description":null', /'description' must be a string/],
  ['"description":""', /'description' must have 1 to 255/],
  [`"description":"${SHOE.repeat(256)}"`, /'description' must have 1 to 255/],
  ['"description":"a\\u0000b"', /'description' must not hold U\+0000/],
  ['"description":"\\ud83d"', /half a character/],
  ['"metadata":null', /'metadata' must be an object/],
  ['"metadata":["a"]', /'metadata' must be an object/],
  ['"metadata":"a=b"', /'metadata' must be an object/],
  ['"metadata":{"a":1}', /'metadata' values must be strings/],
  ['"metadata":{"a":null}', /'metadata' values must be strings/],
  ['"metadata":{"a":{"b":"c"}}', /'metadata' values must be strings/],
  ['"metadata":{"":"x"}', /'metadata' names must have 1 to 40/],
  [`"metadata":{"${'n'.repeat(41)}":"x"}`, /'metadata' names/],
  [`"metadata":{"a":"${'x'.repeat(501)}"}`, /'metadata' values/],
  ['"metadata":{"a":"\\udc00"}', /half a character/],
  ['"metadata":{"a":"1","a":"2"}', /'metadata' has a name more than once/],
  ['"metadata":{"__proto__":"x"}', /__proto__/],
  [`"metadata":${JSON.stringify(metadataOf(21))}`, /at most 20 members/],
  ['"source":"a","source":"b"', /'source' appears in the body more than once/],
];
