// A shop in front of Idempay. The guide is docs/guides/shop.md.
import type { AddressInfo } from 'node:net';
import { Idempay } from '@idempay/client';
import { fastify } from 'fastify';
import { Orders } from './orders.ts';
import { finishOpenPayments, payAttempt } from './payments.ts';

const { IDEMPAY_URL = 'http://127.0.0.1:8080', IDEMPAY_API_KEY, PORT = '3000', ORDERS = './data/orders' } = process.env;
const PRICES: Readonly<Record<string, { amount: string; currency: string }>> = {
  book: { amount: '24.90', currency: 'EUR' },
  lamp: { amount: '89.00', currency: 'EUR' },
};
const STATUS = { paid: 200, declined: 402, unknown: 202, unresolved: 202, unavailable: 503 };
const UNRESOLVED =
  'It is not known whether the attempt before was charged: a person looks for its key at the processor. No other attempt may begin.';

const idempay = new Idempay({ baseUrl: IDEMPAY_URL, ...(IDEMPAY_API_KEY && { apiKey: IDEMPAY_API_KEY }) });
const orders = new Orders(ORDERS);
const app = fastify();

app.post<{ Body: { article?: string } | null }>('/orders', async (request, reply) => {
  const article = request.body?.article ?? '';
  const price = Object.hasOwn(PRICES, article) ? PRICES[article] : undefined;
  if (!price) return reply.code(400).send({ message: `'article' must be one of: ${Object.keys(PRICES).join(', ')}.` });
  return reply.code(201).send(await orders.create(article, price));
});

app.get<{ Params: { id: string } }>('/orders/:id', async (request, reply) => {
  const order = await orders.find(request.params.id);
  if (!order) return reply.code(404).send({ message: 'There is no such order.' });
  const { attempt, outcome, hasBegun, deadKey } = await orders.newest(order);
  if (deadKey !== undefined) return { ...order, attempt: attempt.number, state: 'unresolved', key: deadKey };
  return { ...order, attempt: attempt.number, state: outcome?.state ?? (hasBegun ? 'unknown' : 'open') };
});

// PUT: the same request twice is the same payment. The number is that of the attempt that the payer saw.
app.put<{ Params: { id: string; number: string } }>('/orders/:id/payments/:number', async (request, reply) => {
  const order = await orders.find(request.params.id);
  if (!order) return reply.code(404).send({ message: 'There is no such order.' });
  const attempt = await orders.attempt(order, Number(request.params.number));
  if (!attempt) {
    const { deadKey } = await orders.newest(order);
    if (deadKey !== undefined) return reply.code(409).send({ state: 'unresolved', key: deadKey, message: UNRESOLVED });
    return reply.code(404).send({ message: 'There is no such attempt. Read the order again.' });
  }
  const standing = await payAttempt(idempay, orders, attempt);
  if (standing.state === 'unavailable') reply.header('retry-after', '1');
  return reply.code(STATUS[standing.state]).send(standing);
});

const closing = new AbortController();
await app.listen({ host: '127.0.0.1', port: Number(PORT) });
console.log(JSON.stringify({ msg: 'listening', port: (app.server.address() as AddressInfo).port }));
const finishing = finishOpenPayments(idempay, orders, closing.signal);

process.once('SIGTERM', async () => {
  closing.abort();
  await app.close();
  await finishing;
});
