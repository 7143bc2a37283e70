import { gzipSync } from 'node:zlib';
import type { Ask } from './http-client.js';

export const BODY_LIMIT_BYTES = 16 * 1024;

export const GOOD_BODY = '{"amount":"100.50","currency":"USD"}';

/** A good payment stretched to so many bytes with white space, which JSON allows and nobody counts. */
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
