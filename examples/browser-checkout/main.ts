// A checkout whose page pays through the shop's server. The guide is docs/guides/browser.md.
import { readFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { Idempay } from '@idempay/client';
import { fastify } from 'fastify';
import { Orders } from '../shop/orders.ts';
import { finishOpenPayments } from '../shop/payments.ts';
import { serveAttempts } from './attempts.ts';

const {
  IDEMPAY_URL = 'http://127.0.0.1:8080',
  IDEMPAY_API_KEY,
  PORT = '3000',
  ORDERS = './data/orders',
  /** Where checkout.html and checkout.js are. */
  PAGE = './examples/browser-checkout/page',
} = process.env;
const PRICE = { amount: '24.90', currency: 'EUR' };
/** The client is plain modules without dependencies, so a browser loads it as it is. */
const CLIENT = new URL('.', import.meta.resolve('@idempay/client'));
const MODULE = /^[a-z-]+(\/[a-z-]+)?\.js$/;

const orders = new Orders(ORDERS);
const app = fastify();

app.addHook('onSend', async (_request, reply) => {
  reply.header('content-security-policy', "default-src 'self'").header('cache-control', 'no-store');
});
// The address names the order, so a reload, the back button and a second tab find the same one.
app.get('/', async (_request, reply) => reply.redirect(`/checkout/${(await orders.create('book', PRICE)).id}`, 303));
app.get('/checkout/:id', async (_request, reply) =>
  reply.type('text/html').send(await readFile(`${PAGE}/checkout.html`)),
);
app.get('/checkout.js', async (_request, reply) =>
  reply.type('text/javascript').send(await readFile(`${PAGE}/checkout.js`)),
);
app.get<{ Params: { '*': string } }>('/idempay-client/*', async (request, reply) => {
  const name = request.params['*'];
  if (!MODULE.test(name)) return reply.code(404).send({ message: 'There is no such module.' });
  return reply.type('text/javascript').send(await readFile(new URL(name, CLIENT)));
});
app.get<{ Params: { id: string } }>('/orders/:id', async (request, reply) => {
  const order = await orders.find(request.params.id);
  if (!order) return reply.code(404).send({ message: 'There is no such order.' });
  const { attempt, outcome, hasBegun, deadKey } = await orders.newest(order);
  const transactionId = outcome?.state === 'paid' ? outcome.transactionId : null;
  return {
    price: order.price,
    attempt: attempt.number,
    hasBegun,
    transactionId,
    isUnresolved: deadKey !== undefined,
  };
});
const idempay = new Idempay({ baseUrl: IDEMPAY_URL, ...(IDEMPAY_API_KEY && { apiKey: IDEMPAY_API_KEY }) });
serveAttempts(app, orders, idempay);

const closing = new AbortController();
await app.listen({ host: '127.0.0.1', port: Number(PORT) });
console.log(JSON.stringify({ msg: 'listening', port: (app.server.address() as AddressInfo).port }));
// A payer may close the window in the middle of a payment.
const finishing = finishOpenPayments(idempay, orders, closing.signal);

process.once('SIGTERM', async () => {
  closing.abort();
  await app.close();
  await finishing;
});
