import { STATUS_CODES } from 'node:http';
import { expect } from 'vitest';
import type { Answer } from './http-client.js';

/** RFC 9110 15.5.14 and 15.5.21; the platform's table has the words of older standards. */
const RENAMED: Readonly<Record<number, string>> = { 413: 'Content Too Large', 422: 'Unprocessable Content' };

/**
 * Asserts the one error body of the whole service (spec 2.5, rule G1). It has the three fields and no other, the reason phrase of the
 * status, a message that says something, a request id to ask about, and the mark of the service's own answers. No cache may keep it: a 404
 * that a cache keeps (RFC 9111 4.2.2) hides a transaction that is created next.
 */
export function expectError(answer: Answer, status: number, message?: string | RegExp): void {
  expect(answer.status, `the status of ${answer.text}`).toBe(status);
  expect(answer.headers['content-type']).toMatch(/^application\/json(\s*;\s*charset=utf-8)?$/i);
  expect(answer.headers['x-request-id'], 'X-Request-Id').toMatch(/\S/);
  expect(answer.headers.idempay, 'Idempay').toBe('1');
  expect(answer.headers['cache-control'], 'Cache-Control').toBe('no-store');

  const body = answer.json();
  expect(body).toEqual({
    status,
    error: RENAMED[status] ?? STATUS_CODES[status],
    message: expect.stringMatching(/\S/),
  });
  if (message === undefined) return;
  const said = (body as { message: string }).message;
  if (typeof message === 'string') expect(said).toBe(message);
  else expect(said).toMatch(message);
}
