import { randomUUID } from 'node:crypto';
import { appendFile, mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { PaymentRequest } from '@idempay/client';

const { ORDERS = './data/orders.ndjson' } = process.env;

/** The prices are those of the shop. Nothing that a browser sends changes them. */
export interface OrderLine {
  readonly article: string;
  readonly price: PaymentRequest;
}

export interface Order {
  readonly id: string;
  /** They never change, because a refund is named by the number of its line. */
  readonly lines: readonly OrderLine[];
  /** The sum of the lines. */
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

export async function addOrder({ lines, session }: Pick<Order, 'lines' | 'session'>, shopUrl: string): Promise<Order> {
  const id = randomUUID();
  const url = `${shopUrl.replace(/\/+$/, '')}/orders/${id}`;
  const added = { id, lines, price: sumOf(lines), session, url, orderedAtMs: Date.now() };
  await saveOrder(added);
  return added;
}

const TWO_DECIMALS = /^\d+\.\d{2}$/;

/**
 * In cents, because sums of decimal fractions are not exact. The articles of the shop have one currency, and two decimals: anything else would
 * be charged as another price, such as '25' as 0.25.
 */
export function sumOf(lines: readonly OrderLine[]): PaymentRequest {
  const [first] = lines;
  if (!first) throw new RangeError('An order needs a line.');
  const { currency } = first.price;
  for (const { article, price } of lines) {
    if (!TWO_DECIMALS.test(price.amount) || price.currency !== currency) {
      throw new RangeError(
        `The price of '${article}' must be an amount in ${currency} with two decimals, such as 24.90.`,
      );
    }
  }
  const cents = lines.reduce((sum, { price }) => sum + Number(price.amount.replace('.', '')), 0);
  return { amount: (cents / 100).toFixed(2), currency };
}

/** The name of the order at Idempay, to which its payment and its refunds belong. */
export const referenceOf = ({ id }: Pick<Order, 'id'>) => `order-${id}`;

export const articlesOf = ({ lines }: Pick<Order, 'lines'>) => lines.map(({ article }) => article);

/** The file stands for the shop's database, which its servers share. It knows orders, and nothing about payments. */
export async function saveOrder(order: Order): Promise<void> {
  await mkdir(dirname(ORDERS), { recursive: true });
  await appendFile(ORDERS, `${JSON.stringify(order)}\n`);
}

/**
 * True for the first one that ends the order. In a database this is an update of an open order, in the transaction that adds its shipment, so
 * that a crash loses neither.
 */
export async function endOrder(order: Order, end: 'paid' | 'closed'): Promise<boolean> {
  const isFirst = await writeFile(join(dirname(ORDERS), `${order.id}.ended`), '', { flag: 'wx' }).then(
    () => true,
    (fault: NodeJS.ErrnoException) => {
      if (fault.code === 'EEXIST') return false;
      throw fault;
    },
  );
  await saveOrder({ ...order, end });
  return isFirst;
}

export const findOrder = async (id: string) => (await allOrders()).get(id);

export const openOrders = async () => [...(await allOrders()).values()].filter(({ end }) => end === undefined);

/** Any other fault must not look like a shop without orders. */
export function emptyIfAbsent(fault: NodeJS.ErrnoException): string {
  if (fault.code === 'ENOENT') return '';
  throw fault;
}

/** The last line of an order counts. */
export async function allOrders(): Promise<ReadonlyMap<string, Order>> {
  const lines = (await readFile(ORDERS, 'utf8').catch(emptyIfAbsent)).trim().split('\n').filter(Boolean);
  return new Map(lines.map((line): Order => JSON.parse(line)).map((order) => [order.id, order]));
}
