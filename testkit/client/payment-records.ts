import { expect } from 'vitest';
import { isComputed } from '#idempay/payments/values/computed-key.js';
import { safeJson } from '#idempay/platform/safe-json.js';
import { expectError } from './error-body.js';
import { type Answer, type Ask, ask, nextPage, sendJson } from './http-client.js';

const MEMBERS = [
  ...['idempotencyKey', 'reference', 'attempt', 'state', 'amount', 'currency', 'description', 'metadata'],
  ...['transactionId', 'processor'],
  ...['executions', 'reason', 'resolution', 'createdAt', 'claimedAt', 'settledAt'],
];
/** The last members, present only if the payment has them; `client` is for operators. */
const SOMETIMES = ['pending', 'ending', 'processorId', 'refunded', 'refund', 'client'] as const;
/** Null until the payment is claimed, and if it was cancelled instead. */
const CLAIMED = ['amount', 'currency', 'transactionId', 'processor'] as const;
type Nullable =
  | (typeof CLAIMED)[number]
  | 'reference'
  | 'description'
  | 'reason'
  | 'resolution'
  | 'createdAt'
  | 'claimedAt'
  | 'settledAt';

/** A payment as `GET /api/payments/{key}`, the list and the export show it: every member always. */
export interface ShownPayment extends Readonly<Record<Nullable, string | null>> {
  readonly idempotencyKey: string;
  readonly attempt: number | null;
  readonly metadata: Readonly<Record<string, string>> | null;
  readonly state: 'PENDING' | 'PROCESSING' | 'COMPLETED' | 'DECLINED' | 'CANCELLED';
  readonly executions: number;
  readonly pending?: { readonly until: string };
  readonly ending?: 'order' | 'attempt';
  readonly processorId?: string;
}

const MOMENT = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/;

const JSON_UTF8 = 'application/json; charset=utf-8';

export const readPayment = (url: string, key: string, options: Ask = {}) => ask(`${url}/api/payments/${key}`, options);

const KEY_STATES = {
  'expired-unpaid': /^No payment found for this Idempotency-Key\. The key has expired unpaid: /,
  unknown: /^No payment found for this Idempotency-Key, and it is not certain that /,
} as const;

/** The 404 of a record, and what it says of the key, to people and to programs. */
export function expectNoRecord(answer: Answer, keyState: keyof typeof KEY_STATES = 'unknown'): void {
  expectError(answer, 404, KEY_STATES[keyState]);
  expect(answer.headers['idempay-key-state']).toBe(keyState);
}

export function shownIn(answer: Answer): ShownPayment {
  expect(answer.status, answer.text).toBe(200);
  expect(answer.headers).toMatchObject({ 'content-type': JSON_UTF8, 'cache-control': 'private, no-cache' });
  expect(answer.headers.etag).toMatch(/^"[0-9a-f]{32}"$/);
  return shownPayment(answer.text);
}

export const shownPaymentOf = async (url: string, key: string) => shownIn(await readPayment(url, key));

/** One payment's JSON text: its members in their order, without white space, and what each state says of the others. */
export function shownPayment(text: string): ShownPayment {
  const payment = JSON.parse(text) as ShownPayment;
  expect(Object.keys(payment)).toEqual([...MEMBERS, ...SOMETIMES.filter((member) => member in payment)]);
  expect('pending' in payment && payment.state !== 'PROCESSING', 'pending').toBe(false);
  expect(text).toBe(safeJson(payment));
  const { createdAt, claimedAt, settledAt } = payment;
  const moments = [createdAt, claimedAt, settledAt].filter((moment) => moment !== null);
  for (const moment of moments) expect(moment).toMatch(MOMENT);
  expect(moments, 'the times are in order').toEqual([...moments].sort());

  const isClaimed = payment.state !== 'PENDING' && payment.state !== 'CANCELLED';
  for (const member of CLAIMED) expect(payment[member] !== null, member).toBe(isClaimed);
  expect(payment.executions > 0, 'executions').toBe(isClaimed);
  expect(claimedAt !== null, 'claimedAt').toBe(payment.state !== 'PENDING');
  expect(settledAt !== null, 'settledAt').toBe(payment.state !== 'PENDING' && payment.state !== 'PROCESSING');
  // A computed key has no time in it.
  if (isComputed(payment.idempotencyKey)) expect(createdAt, 'createdAt').toBe(claimedAt);
  else expect(createdAt, 'createdAt').not.toBeNull();
  expect(payment.reference === null, 'reference').toBe(payment.attempt === null);
  expect(payment.reason !== null, 'reason').toBe(payment.state === 'DECLINED');
  return payment;
}

/** HEAD has the status, these headers and the length of GET, and no body. */
export async function expectHeadAsGet(url: string, headers: readonly string[]): Promise<void> {
  const get = await ask(url);
  const head = await ask(url, { method: 'HEAD' });
  expect([head.status, head.text]).toEqual([get.status, '']);
  for (const name of [...headers, 'content-length']) expect(head.headers[name], name).toBe(get.headers[name]);
}

/**
 * One page of the list, and path and query of the next one, exactly as the `Link` header has it; undefined after the last.
 * `target` is a path and query, or a query alone.
 */
export async function listPayments(url: string, target = '') {
  const answer = await ask(`${url}${target.startsWith('/') ? target : `/api/payments${target}`}`);
  expect(answer.status, answer.text).toBe(200);
  expect(answer.headers).toMatchObject({ 'content-type': JSON_UTF8, 'cache-control': 'no-store' });
  const payments = answer.json<unknown[]>().map((payment) => shownPayment(safeJson(payment)));
  expect(answer.text).toBe(safeJson(payments));
  const next = nextPage(answer);
  if (next !== undefined) expect(next).toMatch(/^\/api\/payments\?/);
  return { payments, next };
}

export const exportDay = async (url: string, day: string) => (await exportLines(url, day)).map(shownPayment);

/** The lines of a whole export, each one payment, not looked at any further. `more` is added to the query. */
export async function exportLines(url: string, day: string, more = ''): Promise<string[]> {
  const answer = await ask(`${url}/api/payments/export?day=${day}${more}`);
  expect(answer.status, answer.text.slice(0, 500)).toBe(200);
  expect(answer.headers).toMatchObject({
    'content-type': 'application/x-ndjson; charset=utf-8',
    'content-disposition': `attachment; filename="payments-${day}.ndjson"`,
    'cache-control': 'no-store',
  });
  const lines = answer.text.split('\n');
  expect(lines.pop(), 'what follows the last line end').toBe('');
  const { end, count, ...rest } = JSON.parse(lines.pop() ?? '') as { end: true; count: number };
  expect([end, count, Object.keys(rest)]).toEqual([true, lines.length, ['sums']]);
  return lines;
}

export function resolvePayment(
  url: string,
  key: string,
  body: unknown = { outcome: 'completed', reason: 'on the statement' },
  headers: Ask['headers'] = {},
) {
  return sendJson(`${url}/api/payments/${key}/resolution`, 'POST', body, headers);
}

export const keysOf = (payments: readonly ShownPayment[]) => payments.map(({ idempotencyKey }) => idempotencyKey);

/** As `GET /api/payments/{key}/timeline` shows it. */
export interface ShownTimeline {
  readonly idempotencyKey: string;
  readonly state: ShownPayment['state'];
  readonly events: readonly {
    readonly at: string | null;
    readonly event: string;
    readonly execution: number | null;
    readonly process: string | null;
    readonly detail: string | null;
  }[];
  readonly omitted: number;
  readonly next: {
    readonly what: string;
    readonly at: string | null;
    readonly resolvableAt: string | null;
    readonly text: string;
  };
}

export const readTimeline = (url: string, key: string, options: Ask = {}) =>
  ask(`${url}/api/payments/${key}/timeline`, options);

/** Its events are in the order of their times, if these are known. */
export async function timelineOf(url: string, key: string): Promise<ShownTimeline> {
  const answer = await readTimeline(url, key);
  expect(answer.status, answer.text).toBe(200);
  expect(answer.headers).toMatchObject({ 'content-type': JSON_UTF8, 'cache-control': 'no-store' });
  const timeline = answer.json<ShownTimeline>();
  expect(Object.keys(timeline)).toEqual(['idempotencyKey', 'state', 'events', 'omitted', 'next']);
  const times = timeline.events.flatMap(({ at }) => at ?? []);
  expect(times).toEqual(times.toSorted());
  expect(times.length).toBeGreaterThan(0);
  expect(timeline.idempotencyKey).toBe(key);
  return timeline;
}
