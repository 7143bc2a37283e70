import type { Agent } from 'node:http';
import { expect } from 'vitest';
import { type Answer, pay } from './http-client.js';

/** What a busy machine needs for an answer that nothing is waited for; far less than a long wait. */
export const AT_ONCE_MS = 5_000;
export const LONG_WAIT = 'wait=20';

/** A payment with a `Prefer` header; an array sends it several times. */
export function payPreferring(
  url: string,
  key: string,
  prefer: string | string[],
  body?: unknown,
  agent?: Agent,
): Promise<Answer> {
  return pay(url, key, body, { headers: { Prefer: prefer }, ...(agent && { agent }) });
}

/** The request has waited, and says how it understood that it should (RFC 7240 3). */
export function expectWaited({ headers }: Answer, applied: string | undefined): void {
  expect(headers['preference-applied']).toBe(applied);
}

export function expectNotWaited({ headers }: Answer): void {
  expect(headers).not.toHaveProperty('preference-applied');
}

export async function timed<T>(work: Promise<T>): Promise<{ readonly answer: T; readonly tookMs: number }> {
  const begun = performance.now();
  const answer = await work;
  return { answer, tookMs: performance.now() - begun };
}
