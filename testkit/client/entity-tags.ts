import { expect } from 'vitest';
import type { Answer } from './http-client.js';

/** The tag of an answer without its quotes; fails when it is not one strong, quoted MD5 digest. */
export function tagOf(answer: Answer): string {
  const etag = answer.headers.etag;
  expect(etag).toMatch(/^"[0-9a-f]{32}"$/);
  return (etag as string).slice(1, -1);
}

/** A 304 with all it must have, and nothing else to read (rule T7). */
export function expectNotModified(answer: Answer, tag: string, cacheControl = 'private, no-cache'): void {
  expect(answer.status).toBe(304);
  expect(tagOf(answer)).toBe(tag);
  expect(answer.headers['cache-control']).toBe(cacheControl);
  // RFC 9110 8.6: the length would be the one that the answer to GET has, which is not 0.
  expect(answer.headers).not.toHaveProperty('content-length');
  expect(answer.headers['x-request-id']).toMatch(/\S/);
  expect(answer.text).toBe('');
}
