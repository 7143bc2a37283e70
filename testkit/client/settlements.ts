import { expect } from 'vitest';
import { type Ask, ask } from './http-client.js';
import type { ShownPayment } from './payment-records.js';

export interface ShownSettlements {
  readonly settlements: readonly ShownPayment[];
  readonly next: string;
}

/** A page of the feed; `query` is without the question mark. */
export async function readSettlements(
  url: string,
  query = '',
  headers: Ask['headers'] = {},
): Promise<ShownSettlements> {
  const answer = await ask(`${url}/api/settlements?${query}`, { headers });
  expect(answer.status, answer.text).toBe(200);
  return answer.json<ShownSettlements>();
}

/** Waits in the service for the next settlements. */
export const waitForSettlements = (
  url: string,
  after: string,
  more: { query?: string; headers?: Ask['headers'] } = {},
) => readSettlements(url, `after=${after}${more.query ?? ''}`, { Prefer: 'wait=30', ...more.headers });

/** Follows the feed until all of these keys were shown; returns all keys in their order, with repeats. */
export async function followUntil(
  urlOf: () => string,
  after: string,
  wanted: () => readonly string[],
  isOver: () => boolean,
) {
  const keys: string[] = [];
  let cursor = after;
  const isComplete = () => isOver() && wanted().every((key) => keys.includes(key));
  while (!isComplete()) {
    const page = await readSettlements(urlOf(), `after=${cursor}&limit=7`, { Prefer: 'wait=1' }).catch(() => undefined);
    if (!page) continue;
    keys.push(...page.settlements.map(({ idempotencyKey }) => idempotencyKey));
    cursor = page.next;
  }
  return keys;
}
