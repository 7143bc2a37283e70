// A shop in front of Idempay: an order has a page, and the page has one button. The guide is docs/guides/shop.md.
import { randomUUID } from 'node:crypto';
import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { Idempay } from '@idempay/client';
import { type FastifyReply, type FastifyRequest, fastify } from 'fastify';
import { cardsOf } from './cards.ts';
import { answerFault } from './faults.ts';
import { finishOrders } from './open-orders.ts';
import { addOrder, findOrder, type Order, type OrderLine } from './orders.ts';
import { orderPage, payersActs, startPage } from './pages.ts';
import { endPayment, payOrder, type Standing, standingOf } from './payments.ts';
import { webhooks } from './webhooks.ts';

const {
  IDEMPAY_URL = 'http://127.0.0.1:8080',
  IDEMPAY_API_KEY,
  PORT = '3000',
  /** The address of the shop in a browser, to which a bank sends payers back. If omitted, the address at which it listens. */
  SHOP_URL,
  /** The seconds between two looks at the open orders. */
  LOOK_SECONDS = '5',
  /** The secrets of the shop's endpoint at Idempay, with white space between them. If omitted, the shop takes no webhooks. */
  WEBHOOK_SECRETS,
  /** One of the two, if the processor is told who pays. */
  TEST_CARDS,
  STRIPE_PUBLISHABLE_KEY,
} = process.env;
const cards = cardsOf(TEST_CARDS, STRIPE_PUBLISHABLE_KEY);
const BOOK = { article: 'book', price: { amount: '24.90', currency: 'EUR' } };
const LAMP = { article: 'lamp', price: { amount: '89.00', currency: 'EUR' } };
const BASKETS: ReadonlyMap<string, readonly OrderLine[]> = new Map([
  ['book', [BOOK]],
  ['lamp', [LAMP]],
  ['book and lamp', [BOOK, LAMP]],
]);
/** The button sends the number that the payer saw. */
const ATTEMPT = {
  type: 'object',
  required: ['attempt'],
  properties: { attempt: { type: 'integer', minimum: 1, maximum: 99 } },
};
/** The form sends the name of the payer's card at the processor as well, never its number. */
const CLICK = {
  type: 'object',
  required: cards.areAsked ? ['attempt', 'source'] : ['attempt'],
  properties: { ...ATTEMPT.properties, source: { type: 'string', pattern: '^[A-Za-z]\\w{0,499}$' } },
};

const idempay = new Idempay({ baseUrl: IDEMPAY_URL, ...(IDEMPAY_API_KEY && { apiKey: IDEMPAY_API_KEY }) });
const app = fastify();
app.setErrorHandler(answerFault('Payments do not answer now. Reload.'));
app.addContentTypeParser(
  'application/x-www-form-urlencoded',
  { parseAs: 'string' },
  async (_: FastifyRequest, form: string) => Object.fromEntries(new URLSearchParams(form)),
);

/** The form of another site comes without the payer's session, so that a new one would take its place. */
app.addHook('onRequest', async ({ method, headers }, reply) => {
  if (method === 'POST' && headers['sec-fetch-site'] === 'cross-site')
    return reply.code(403).send('Use the page of the shop.');
});

app.get('/', async (_request, reply) => reply.type('text/html').send(startPage(BASKETS)));

app.post<{ Body: { basket?: string } | null }>('/orders', async (request, reply) => {
  const lines = BASKETS.get(request.body?.basket ?? '');
  if (!lines) return reply.code(400).send('There is no such basket.');
  const session = sessionOf(request) ?? randomUUID();
  const { id } = await addOrder({ lines, session }, SHOP_URL ?? app.listeningOrigin);
  // The cookie is Lax and not Strict, because a browser sends no Strict cookie when the bank sends the payer back. With https, add Secure.
  reply.header('set-cookie', `session=${session}; Path=/; HttpOnly; SameSite=Lax`);
  return reply.redirect(`/orders/${id}`, 303);
});

app.get<{ Params: { id: string } }>('/orders/:id', async (request, reply) => {
  const order = await findOrder(request.params.id);
  if (!order) return reply.code(404).send('There is no such order.');
  return show(request, reply, order, await standingOf(idempay, order));
});

app.post<{ Params: { id: string }; Body: { attempt: number; source?: string } }>(
  '/orders/:id',
  { schema: { body: CLICK } },
  async (request, reply) => {
    const order = await findOrder(request.params.id);
    if (!order || !isBuyer(request, order)) return reply.code(404).send('There is no such order.');
    const standing = await payOrder(idempay, order, request.body);
    if (standing.bankUrl) return reply.redirect(standing.bankUrl, 303);
    // The result is shown at the order's address, so that a reload and the back button send no form again.
    return standing.isKnown ? reply.redirect(`/orders/${order.id}`, 303) : show(request, reply, order, standing);
  },
);

app.post<{ Params: { id: string }; Body: { attempt: number } }>(
  '/orders/:id/another-card',
  { schema: { body: ATTEMPT } },
  async (request, reply) => {
    const order = await findOrder(request.params.id);
    if (!order || !isBuyer(request, order)) return reply.code(404).send('There is no such order.');
    await endPayment(idempay, order, { attempt: request.body.attempt, only: 'attempt' });
    return reply.redirect(`/orders/${order.id}`, 303);
  },
);

if (WEBHOOK_SECRETS) app.register(webhooks(idempay, WEBHOOK_SECRETS.split(/\s+/).filter(Boolean)));

/** A page that is shown again must ask again. Other browsers see the state of the order, and have no buttons. */
function show(request: FastifyRequest, reply: FastifyReply, order: Order, standing: Standing): FastifyReply {
  reply.code(standing.status).type('text/html').header('cache-control', 'no-store');
  return reply.send(orderPage(order, standing, isBuyer(request, order) ? payersActs(order, standing, cards) : ''));
}

function sessionOf({ headers }: FastifyRequest): string | undefined {
  return /(?:^|; )session=([\w-]{36})(?:;|$)/.exec(headers.cookie ?? '')?.[1];
}

const isBuyer = (request: FastifyRequest, order: Order) => sessionOf(request) === order.session;

async function lookAtOpenOrders(): Promise<never> {
  for (;;) {
    await pause(Number(LOOK_SECONDS) * 1_000, undefined, { ref: false });
    await finishOrders(idempay).catch((fault) => console.error(fault));
  }
}

await app.listen({ host: '127.0.0.1', port: Number(PORT) });
console.log(JSON.stringify({ msg: 'listening', port: (app.server.address() as AddressInfo).port }));
void lookAtOpenOrders();
process.once('SIGTERM', () => app.close());
