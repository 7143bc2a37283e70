import type { ChargeLine } from '#idempay/reference-processor/charge-log.js';
import { pause } from '../time/until.js';
import { type Answer, ask, pay, sendJson } from './http-client.js';

/** Answers that say: send the same again (README, "No clear answer"). */
export const AGAIN: ReadonlySet<number> = new Set([0, 409, 429, 502, 503, 504]);
const PAUSE_MS = 25;

export interface Order {
  readonly reference: string;
  readonly amount: string;
  readonly currency: string;
}

/** Names that end with what programs write if the number of the order is missing, among them the UUID of zeros. */
export const NAMES_WITH_ABSENT_VALUE = [
  ...['undefined', 'order-undefined', 'shop/null', 'order:NaN', 'order-None', 'false', 'order-false', 'order-nil'],
  ...['00000000-0000-0000-0000-000000000000', 'order-00000000-0000-0000-0000-000000000000'],
];

/** Names that lost their number: words and years with a separator after each (rule P18). */
export const NAMES_WITHOUT_NUMBER = [
  ...[
    'order-',
    'Order-',
    'ORDER-',
    'o-',
    'O-',
    'INV-2026-',
    '1999/',
    'shop:order-',
    'eu.shop/Order@',
    'ORD_2026_Q~',
    'A-A-A-',
  ],
  `${'A-'.repeat(63)}A-`,
];
/** Names that could be taken for them: a number that is there, and ids that are random. */
export const NAMES_WITH_NUMBER = [
  ...[
    'order',
    'order-1',
    'INV-2026',
    'INV-2026-7',
    '1001-',
    'order-1899-',
    'order-20261-',
    'orderNo-',
    'oRDER-',
    'order2-',
  ],
  ...['V1StGXR8_Z5jdHi6B-', 'a1b2-', '-', 'order--', '-order-', '2026-11-'],
  // Exponential time, if a single capital were matched in two ways.
  `${'A-'.repeat(63)}A1`,
];

const NO_ANSWER = { status: 0, headers: {}, text: '' } as const;

/** The last clear answer to a caller, of the attempt that it ended with. */
export interface OrderEnd {
  readonly status: number;
  readonly text: string;
  readonly attempt: number;
  readonly key: string | undefined;
}

export const nameOf = ({ reference }: Order, attempt = 1): string =>
  new URLSearchParams({ reference, attempt: `${attempt}` }).toString();

/** `POST /api/payment?reference=`, and nothing else. */
export function payOrder(url: string, order: Order, attempt = 1): Promise<Answer> {
  const { amount, currency } = order;
  return sendJson(`${url}/api/payment?${nameOf(order, attempt)}`, 'POST', { amount, currency });
}

/** A key first, then the payment by that key alone: a key that a restart made invalid is asked for again, which is always right. */
async function payByKey(url: string, order: Order, attempt: number): Promise<Answer> {
  const issued = await ask(`${url}/api/server-generated/generate-key?${nameOf(order, attempt)}`);
  if (issued.status !== 200) return issued;
  const { amount, currency } = order;
  const answer = await pay(url, issued.json<string>(), { amount, currency });
  return answer.status === 400 ? { ...answer, status: 0 } : answer;
}

/**
 * Pays as a caller that keeps nothing: it sends the same until there is a clear answer, at whichever process answers, and after a decline
 * the next attempt, while `attempts` last. Without a clear answer it ends when it does not go on.
 */
export async function settleOrder(
  urls: readonly string[],
  order: Order,
  { requests, attempts, goesOn = () => true }: { requests: 1 | 2; attempts: number; goesOn?: () => boolean },
): Promise<OrderEnd> {
  const send = requests === 1 ? payOrder : payByKey;
  let attempt = 1;
  for (let turn = 0; ; turn += 1) {
    const url = urls[turn % urls.length] as string;
    const answer = await send(url, order, attempt).catch(() => NO_ANSWER);
    if (AGAIN.has(answer.status) && goesOn()) await pause(PAUSE_MS);
    else if (answer.status === 402 && attempt < attempts) attempt += 1;
    else {
      const key = 'idempotency-key' in answer.headers ? String(answer.headers['idempotency-key']) : undefined;
      return { status: answer.status, text: answer.text, attempt, key };
    }
  }
}

/** The charges that moved money, by the key that they were made with. */
export function chargedOf(charges: readonly ChargeLine[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { reference, status } of charges) {
    if (status === 'succeeded') counts.set(reference, (counts.get(reference) ?? 0) + 1);
  }
  return counts;
}
