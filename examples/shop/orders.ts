import { randomUUID } from 'node:crypto';
import { appendFile, mkdir, readFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { PaymentRequest } from '@idempay/client';

const { ORDERS = './data/orders.ndjson' } = process.env;

export interface Order {
  readonly id: string;
  readonly article: string;
  /** The price that the shop asks for. Nothing that a browser sends changes it. */
  readonly price: PaymentRequest;
  /** The session of the browser that ordered. Only this browser may pay, and is told the address of the payer's bank. */
  readonly session: string;
  /** The address of its page, to which the bank sends the payer back. */
  readonly url: string;
  /** The time of the order, in milliseconds since the epoch. */
  readonly orderedAtMs: number;
  /** The end of the order; undefined as long as it is open. */
  readonly end?: 'paid' | 'closed';
}

export async function addOrder(order: Pick<Order, 'article' | 'price' | 'session'>, shopUrl: string): Promise<Order> {
  const id = randomUUID();
  const added = { ...order, id, url: `${shopUrl}/orders/${id}`, orderedAtMs: Date.now() };
  await saveOrder(added);
  return added;
}

/** The file stands for the shop's database, which its servers share. It knows orders, and nothing about payments. */
export async function saveOrder(order: Order): Promise<void> {
  await mkdir(dirname(ORDERS), { recursive: true });
  await appendFile(ORDERS, `${JSON.stringify(order)}\n`);
}

export const findOrder = async (id: string) => (await allOrders()).get(id);

export const openOrders = async () => [...(await allOrders()).values()].filter(({ end }) => end === undefined);

/** The last line of an order counts. */
async function allOrders(): Promise<ReadonlyMap<string, Order>> {
  const lines = (await readFile(ORDERS, 'utf8').catch(() => '')).trim().split('\n').filter(Boolean);
  return new Map(lines.map((line): Order => JSON.parse(line)).map((order) => [order.id, order]));
}
