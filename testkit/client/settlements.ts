import { expect } from 'vitest';
import { type Ask, ask } from './http-client.js';
import type { ShownPayment } from './payment-records.js';

export interface ShownSettlements {
  /** `client` only for operators. */
  readonly settlements: readonly (ShownPayment & { readonly client?: string })[];
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

/** Reads on until the settlement with this key is shown, which must be in the feed once. */
export async function untilShown(url: string, after: string, key: string, headers: Ask['headers'] = {}) {
  let next = after;
  for (;;) {
    const page = await waitForSettlements(url, next, { headers });
    next = page.next;
    const [record, ...more] = page.settlements.filter(({ idempotencyKey }) => idempotencyKey === key);
    expect(more).toEqual([]);
    if (record) return { record, next };
  }
}
