import type { Agent } from 'node:http';
import { expect } from 'vitest';
import { until } from '../time/until.js';
import { expectError } from './error-body.js';
import { type Answer, type Ask, ask, generateKey, pay, paymentStatus, transactionIdOf } from './http-client.js';

/** The messages of spec table 7, word for word. */
export const MISSING_KEY = 'Missing Idempotency-Key header.';
export const INVALID_KEY = 'Invalid or missing Idempotency-Key.';
export const IN_PROGRESS = 'Payment is already being processed.';
export const NO_PAYMENT = 'No payment found for this Idempotency-Key.';

export const KEY_GENERATED = 'KEY GENERATED';
export const UNKNOWN_KEY = '3f0c9f0e-5b7a-4c1d-9e2f-8a6b4c2d1e0f';
const LOCK_TTL_SECONDS = 30;
const DONE_DEADLINE_MS = 30_000;

const FIRST_TEXT = /^"Payment processed successfully with Transaction ID: TXN\d+"$/;
const REPEAT_TEXT = /^"Transaction ID: TXN\d+"$/;

/** The answer that processed the payment (spec 2.4). Returns its transaction id. */
export const expectFirst = (answer: Answer) => expectPaid(answer, FIRST_TEXT);

/** An answer from the stored result (spec 2.4, rule P5), of that transaction if one is named. Returns its id. */
export function expectReplay(answer: Answer, transactionId = transactionIdOf(answer)): string {
  expect(expectPaid(answer, REPEAT_TEXT, 'true')).toBe(transactionId);
  return transactionId as string;
}

/** The answer of payment-status for a completed payment. Returns its transaction id. */
export function expectCompleted(answer: Answer, transactionId = transactionIdOf(answer)): string {
  expect(expectPaid(answer, REPEAT_TEXT)).toBe(transactionId);
  return transactionId as string;
}

function expectPaid(answer: Answer, text: RegExp, replayed?: string): string {
  expectJsonString(answer, text);
  expect(answer.headers['idempotent-replayed']).toBe(replayed);
  return transactionIdOf(answer) as string;
}

/** All that rule P1 says of an answer of the payment area, and the id that G1 puts on every answer. */
export function expectJsonString(answer: Answer, text: RegExp): void {
  expect(answer.status, `the status of ${answer.text}`).toBe(200);
  expect(answer.text).toMatch(text);
  expect(answer.headers['content-type']).toMatch(/^application\/json(\s*;\s*charset=utf-8)?$/i);
  expect(answer.headers['cache-control']).toBe('no-store');
  expect(answer.headers['x-request-id'], 'X-Request-Id').toMatch(/\S/);
}

/** The 409 of spec table 7, with a `Retry-After` that promises no more than the lease can hold (rule P5). */
export function expectInProgress(answer: Answer, atMostSeconds = LOCK_TTL_SECONDS): void {
  expectError(answer, 409, IN_PROGRESS);
  expect(answer.headers).not.toHaveProperty('idempotent-replayed');
  expect(answer.headers['retry-after']).toMatch(/^[1-9]\d*$/);
  expect(Number(answer.headers['retry-after'])).toBeLessThanOrEqual(atMostSeconds);
}

/** Repeats a payment until it is paid; each answer before must pass `check`. Others, as recovery, may be at work on it. */
export function untilPaid(url: string, key: string, check = (_: Answer) => {}, deadlineMs = DONE_DEADLINE_MS) {
  return until(`an outcome of ${key}`, deadlineMs, async () => {
    const answer = await pay(url, key);
    if (answer.status === 200) return answer;
    check(answer);
    return undefined;
  });
}

/** A refusal of the body itself: the status says why, and a 400 is not one of the errors about the key. */
export function expectBodyRefused(answer: Answer, status: number, message?: RegExp): void {
  expectError(answer, status, message);
  expect([MISSING_KEY, INVALID_KEY]).not.toContain(answer.json<{ message: string }>().message);
}

/** The record of a key in the key-value store, seen from outside (rules P8, H2). */
export const keyRecord = (url: string, key: string) => ask(`${url}/api/health/redis/key/${key}`);

export async function expectKeyValue(url: string, key: string, value: string): Promise<void> {
  const answer = await keyRecord(url, key);
  expect(answer.status, answer.text).toBe(200);
  expect(answer.json()).toMatchObject({ key, value });
}

/**
 * The refusal did not use up the key: its record is unchanged, and no payment is known for it. It pays at once, which it could not do under
 * a lock that was left (rule P3).
 */
export async function expectUnspent(url: string, key: string): Promise<void> {
  await expectKeyValue(url, key, KEY_GENERATED);
  expectError(await paymentStatus(url, key), 404, NO_PAYMENT);
  expectFirst(await pay(url, key));
}

export async function givenPaid(url: string, body?: unknown): Promise<{ key: string; transactionId: string }> {
  const key = await generateKey(url);
  return { key, transactionId: expectFirst(await pay(url, key, body)) };
}

export async function expectAccepted(url: string, body: Ask['body'], headers: Ask['headers'] = {}): Promise<void> {
  const key = await generateKey(url);
  const transactionId = expectFirst(await pay(url, key, body, { headers }));
  expectReplay(await pay(url, key, body, { headers }), transactionId);
}

export async function expectRefused(
  url: string,
  body: Ask['body'],
  status: number,
  { message, headers = {} }: { message?: RegExp; headers?: Ask['headers'] } = {},
): Promise<void> {
  const key = await generateKey(url);
  const answer = await pay(url, key, body, { headers });
  expect(answer.status, `the answer to ${String(body).slice(0, 100)}`).toBe(status);
  expectBodyRefused(answer, status, message);
  await expectUnspent(url, key);
}

/**
 * Brings a payment under way on a slow service. Nothing outside shows that a request has taken the lock, so two are sent:
 * once one of them is refused with 409, the other is surely at work.
 */
export async function beginPayment(url: string, key: string, body?: unknown) {
  const requests = [pay(url, key, body), pay(url, key, body)];
  const { index, answer } = await Promise.race(
    requests.map(async (request, index) => ({ index, answer: await request })),
  );
  expect(answer.status, `one of two requests at once is refused, but: ${answer.text}`).toBe(409);
  return { conflict: answer, finished: requests[1 - index] as Promise<Answer> };
}

export const LONG_WAIT = 'wait=20';
/** An answer that comes sooner has not waited to the end. */
export const LONG_WAIT_MS = 20_000;

export function payPreferring(url: string, key: string, prefer: string | string[], body?: unknown, agent?: Agent) {
  return pay(url, key, body, { headers: { Prefer: prefer }, ...(agent && { agent }) });
}

export function expectWaited({ headers }: Answer, applied: string | undefined): void {
  expect(headers['preference-applied']).toBe(applied);
}

export async function timed<T>(work: Promise<T>): Promise<{ readonly answer: T; readonly tookMs: number }> {
  const begun = performance.now();
  const answer = await work;
  return { answer, tookMs: performance.now() - begun };
}
