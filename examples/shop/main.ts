// A shop in front of Idempay: an order has a page, and the page has one button. The guide is docs/guides/shop.md.
import type { AddressInfo } from 'node:net';
import { Idempay } from '@idempay/client';
import { type FastifyReply, type FastifyRequest, fastify } from 'fastify';
import { cardsOf } from './cards.ts';
import { addOrder, findOrder, type Order } from './orders.ts';
import { orderPage, startPage } from './pages.ts';
import { payOrder, type Standing, standingOf } from './payments.ts';

const {
  IDEMPAY_URL = 'http://127.0.0.1:8080',
  IDEMPAY_API_KEY,
  PORT = '3000',
  /** One of the two, if the processor is told who pays. */
  TEST_CARDS,
  STRIPE_PUBLISHABLE_KEY,
} = process.env;
const cards = cardsOf(TEST_CARDS, STRIPE_PUBLISHABLE_KEY);
const PRICES = new Map([
  ['book', { amount: '24.90', currency: 'EUR' }],
  ['lamp', { amount: '89.00', currency: 'EUR' }],
]);
/** The button sends the number that the payer saw, and the form the name of the payer's card at the processor, never its number. */
const CLICK = {
  type: 'object',
  required: cards.areAsked ? ['attempt', 'source'] : ['attempt'],
  properties: {
    attempt: { type: 'integer', minimum: 1, maximum: 99 },
    source: { type: 'string', pattern: '^[A-Za-z]\\w{0,499}$' },
  },
};

const idempay = new Idempay({ baseUrl: IDEMPAY_URL, ...(IDEMPAY_API_KEY && { apiKey: IDEMPAY_API_KEY }) });
const app = fastify();
app.addContentTypeParser(
  'application/x-www-form-urlencoded',
  { parseAs: 'string' },
  async (_: FastifyRequest, form: string) => Object.fromEntries(new URLSearchParams(form)),
);

app.get('/', async (_request, reply) => reply.type('text/html').send(startPage(PRICES)));

app.post<{ Body: { article?: string } | null }>('/orders', async (request, reply) => {
  const article = request.body?.article ?? '';
  const price = PRICES.get(article);
  if (!price) return reply.code(400).send('There is no such article.');
  const { id } = await addOrder(article, price);
  return reply.redirect(`/orders/${id}`, 303);
});

app.get<{ Params: { id: string } }>('/orders/:id', async (request, reply) => {
  const order = await findOrder(request.params.id);
  if (!order) return reply.code(404).send('There is no such order.');
  return show(reply, order, await standingOf(idempay, order));
});

app.post<{ Params: { id: string }; Body: { attempt: number; source?: string } }>(
  '/orders/:id',
  { schema: { body: CLICK } },
  async (request, reply) => {
    const order = await findOrder(request.params.id);
    if (!order) return reply.code(404).send('There is no such order.');
    const standing = await payOrder(idempay, order, request.body);
    // The result is shown at the order's address, so that a reload and the back button send no form again.
    return standing.isKnown ? reply.redirect(`/orders/${order.id}`, 303) : show(reply, order, standing);
  },
);

/** A page that is shown again must ask again. */
function show(reply: FastifyReply, order: Order, standing: Standing): FastifyReply {
  reply.code(standing.status).type('text/html').header('cache-control', 'no-store');
  return reply.send(orderPage(order, standing, cards));
}

await app.listen({ host: '127.0.0.1', port: Number(PORT) });
console.log(JSON.stringify({ msg: 'listening', port: (app.server.address() as AddressInfo).port }));
process.once('SIGTERM', () => app.close());
