import { type ComputeKey, createComputeKey, type Reference } from '#idempay/payments/values/reference.js';
import { type ComputeRefundKey, createComputeRefundKey } from '#idempay/payments/values/refund.js';

/** The time on the clocks of a simulated machine at its beginning. */
export const EPOCH_MS = 1_700_000_000_000;

/** The key (a UUIDv7) that the client with this number is given at a moment. */
export function keyOf(client: number, ms: number): string {
  const time = Math.max(0, Math.floor(ms)).toString(16).padStart(12, '0');
  return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-${String(client).padStart(12, '0')}`;
}

/** Whose the references are: scripts that follow each other pay orders with one name. */
export const SHOPS = [undefined, 'key:one', 'key:another'];
const compute = createComputeKey('the simulator');
/** The names of computed keys, which say nothing by themselves. */
const names = new Map<string, string>();

/** The order that the script with this number pays, if it pays by reference. */
export function referenceOf(script: number, attempt = 1): Reference {
  const [order, shop] = [Math.floor(script / SHOPS.length), script % SHOPS.length];
  return { text: `order-${order}`, client: SHOPS[shop], attempt };
}

export const computeKey: ComputeKey = (reference) => {
  const key = compute(reference);
  const script = Number(reference.text.slice('order-'.length)) * SHOPS.length + SHOPS.indexOf(reference.client);
  if (!names.has(key)) names.set(key, attemptName(`k${script}`, reference.attempt));
  return key;
};

/** `order`: the name of its first attempt. */
export const attemptName = (order: string, attempt: number) => (attempt === 1 ? order : `${order}.${attempt}`);

/** The name of the order that an attempt is at; of a key of its own: its name. */
export const orderOf = (name: string) => name.split('.')[0] as string;

export const attemptOf = (name: string) => Number(name.split('.')[1] ?? 1);

/** The name of a key in plans and traces; anything else keeps its name. */
export function nameOf(key: string): string {
  const [, client] = /-7000-8000-(\d{12})$/.exec(key) ?? [];
  return client === undefined ? (names.get(key) ?? key) : `k${Number(client)}`;
}

const computeRefund = createComputeRefundKey('the simulator');

export const refundName = (payment: string, name: string) => `refund ${name} of ${payment}`;

export const computeRefundKey: ComputeRefundKey = (payment, name) => {
  const key = computeRefund(payment, name);
  names.set(key, refundName(nameOf(payment), name));
  return key;
};
