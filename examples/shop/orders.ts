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
}

/** The file stands for the shop's database, which its servers share. It knows orders, and nothing about payments. */
export async function addOrder(article: string, price: PaymentRequest): Promise<Order> {
  const order = { id: randomUUID(), article, price };
  await mkdir(dirname(ORDERS), { recursive: true });
  await appendFile(ORDERS, `${JSON.stringify(order)}\n`);
  return order;
}

export async function findOrder(id: string): Promise<Order | undefined> {
  const lines = (await readFile(ORDERS, 'utf8').catch(() => '')).trim().split('\n').filter(Boolean);
  return lines.map((line): Order => JSON.parse(line)).find((order) => order.id === id);
}
