// The back office of the shop: gives one line of an order back. It has a key of its own, because a checkout must not give money back, and no
// login, which a real one needs in front of it. The guide is docs/guides/shop.md.
import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { Idempay } from '@idempay/client';
import { type FastifyRequest, fastify } from 'fastify';
import { answerFault } from '../shop/faults.ts';
import { allOrders, findOrder, type Order } from '../shop/orders.ts';
import { ordersPage, returnsPage } from './pages.ts';
import { giveBack } from './refunds.ts';
import { type Return, returnsOf, returnsUnderWay, saveReturn } from './returns.ts';

const {
  IDEMPAY_URL = 'http://127.0.0.1:8080',
  /** The key of the client whose key the shop has, with the scope refunds:write. */
  IDEMPAY_API_KEY,
  PORT = '3010',
  /** The host of its address in a browser, such as `office.example:3010`. Names of this machine are always taken. */
  OFFICE_HOST,
  /** The seconds between two looks at the refunds that are under way. */
  LOOK_SECONDS = '5',
} = process.env;
const CLICK = {
  type: 'object',
  required: ['line'],
  properties: { line: { type: 'integer', minimum: 1, maximum: 99 } },
};

const idempay = new Idempay({ baseUrl: IDEMPAY_URL, ...(IDEMPAY_API_KEY && { apiKey: IDEMPAY_API_KEY }) });
const app = fastify();
app.setErrorHandler(answerFault('The back office does not answer now. Reload.'));
app.addContentTypeParser(
  'application/x-www-form-urlencoded',
  { parseAs: 'string' },
  async (_: FastifyRequest, form: string) => Object.fromEntries(new URLSearchParams(form)),
);

const LOOPBACK = /^(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?$/;

/** A page of another web site must not give money back through the browser of the shopkeeper. */
app.addHook('onRequest', async ({ method, headers }, reply) => {
  reply.header('content-security-policy', "frame-ancestors 'none'");
  const { host = '' } = headers;
  // A name of another site may lead to this machine, and its pages are of the same origin then.
  if (host !== OFFICE_HOST && !LOOPBACK.test(host)) return reply.code(421).send('Set OFFICE_HOST to this host.');
  // Browsers leave Sec-Fetch-Site out at an address without https that is not on their own machine.
  const from = headers['sec-fetch-site'] ?? (headers.origin?.endsWith(`//${host}`) === false ? 'other' : 'same-origin');
  if (method === 'POST' && from !== 'same-origin') return reply.code(403).send('Use the page of the back office.');
});

app.get('/', async (_request, reply) => reply.type('text/html').send(ordersPage([...(await allOrders()).values()])));

app.get<{ Params: { id: string } }>('/orders/:id', async (request, reply) => {
  const order = await findOrder(request.params.id);
  if (!order) return reply.code(404).send('There is no such order.');
  reply.type('text/html').header('cache-control', 'no-store');
  return reply.send(returnsPage(order, await returnsOf(order.id)));
});

app.post<{ Params: { id: string }; Body: { line: number } }>(
  '/orders/:id/returns',
  { schema: { body: CLICK } },
  async (request, reply) => {
    const order = await findOrder(request.params.id);
    const { line } = request.body;
    if (order?.end !== 'paid' || !order.lines[line - 1])
      return reply.code(404).send('There is no such line to return.');
    const known = (await returnsOf(order.id)).get(line);
    // A second click finds the return, and the look goes on with it.
    if (!known || known.state === 'refused') {
      await saveReturn({ order: order.id, line, state: 'under way', text: 'Not sent yet.' });
      await refundLine(order, { line }, false);
    }
    // The result is shown at the order's address, so that a reload and the back button send no form again.
    return reply.redirect(`/orders/${order.id}`, 303);
  },
);

async function refundLine(order: Order, { line, text }: Pick<Return, 'line'> & Partial<Return>, mayBeRepeat: boolean) {
  const standing = await giveBack(idempay, order, line, { mayBeRepeat });
  if (standing.text !== text) await saveReturn({ order: order.id, line, ...standing });
}

async function lookOnce(): Promise<void> {
  for (const returned of await returnsUnderWay()) {
    const order = await findOrder(returned.order);
    if (order) await refundLine(order, returned, true).catch((fault) => console.error(fault));
  }
}

/** The shop asks on its own: whoever clicked may have closed the page, or this process may have died in the middle. */
async function lookAtReturns(): Promise<never> {
  for (;;) {
    await pause(Number(LOOK_SECONDS) * 1_000, undefined, { ref: false });
    await lookOnce().catch((fault) => console.error(fault));
  }
}

await app.listen({ host: '127.0.0.1', port: Number(PORT) });
console.log(JSON.stringify({ msg: 'listening', port: (app.server.address() as AddressInfo).port }));
void lookAtReturns();
process.once('SIGTERM', () => app.close());
