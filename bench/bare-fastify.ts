// The peer of every row: Fastify alone, with the service's own body reader and constant answers of the same size. The service's own cost is
// the difference to this. With PROCESSOR_URL each payment is one charge there, and still nothing is stored.
import type { AddressInfo } from 'node:net';
import Fastify, { type FastifyReply, type RouteHandlerMethod } from 'fastify';
import { readJsonBody } from '#idempay/http/requests/json-body.js';
import { createHttpProcessor } from '#idempay/payments/processors/http.js';

const TRANSACTION_ID = 'TXN1700000000000000000';
const CHARGE = { transactionId: TRANSACTION_ID, amount: '100.50', currency: 'USD' };
const KEY = '018f0000-0000-7000-8000-000000000000';
const TAG = '"0123456789abcdef0123456789abcdef"';
const TRANSACTION = {
  transactionId: 100000000000001,
  fromAccount: 'A',
  toAccount: 'B',
  amount: 100.5,
  status: 'PENDING',
  createdAt: '2026-01-01T00:00:00.000Z',
};
const JSON_TYPE = 'application/json';

const app = Fastify();

app.removeAllContentTypeParsers();
app.addContentTypeParser(JSON_TYPE, { parseAs: 'buffer' }, (_request, body, done) =>
  done(null, readJsonBody(body as Buffer)),
);

const text = { schema: { response: { 200: { type: 'string' } } } };
const sendText = (reply: FastifyReply, value: string) => reply.type(JSON_TYPE).send(JSON.stringify(value));
const sendPaid = (reply: FastifyReply) =>
  sendText(reply, `Payment processed successfully with Transaction ID: ${TRANSACTION_ID}`);

app.get('/api/server-generated/generate-key', text, (_request, reply) => sendText(reply, KEY));
const { PROCESSOR_URL } = process.env;
app.post('/api/payment', text, PROCESSOR_URL ? chargeAndAnswer(PROCESSOR_URL) : (_request, reply) => sendPaid(reply));
app.get('/api/payment-status', text, (_request, reply) => sendText(reply, `Transaction ID: ${TRANSACTION_ID}`));

app.get('/api/transactions', (request, reply) => {
  reply.header('etag', TAG);
  return request.headers['if-none-match'] === TAG ? reply.code(304).send() : reply.send([]);
});

const transactionSchema = {
  type: 'object',
  properties: {
    transactionId: { type: 'integer' },
    fromAccount: { type: 'string' },
    toAccount: { type: 'string' },
    amount: { type: 'number' },
    status: { type: 'string' },
    createdAt: { type: 'string' },
  },
};
app.get('/api/transactions/:id', { schema: { response: { 200: transactionSchema } } }, (_request, reply) =>
  reply.send(TRANSACTION),
);

function chargeAndAnswer(url: string): RouteHandlerMethod {
  const settings = { url, timeoutMs: 10_000, dedupMs: 0, connections: 256, alarm: console.error };
  const processor = createHttpProcessor(settings);
  app.addHook('onClose', () => processor.close());
  return async (request, reply) => {
    const key = String(request.headers['idempotency-key']);
    const { state } = await processor.charge({ key, ...CHARGE });
    return state === 'succeeded' ? sendPaid(reply) : reply.code(502).send();
  };
}

process.once('SIGTERM', () => void app.close());
await app.listen({ host: '127.0.0.1', port: Number(process.env.PORT ?? 0) });
console.log(JSON.stringify({ msg: 'listening', port: (app.server.address() as AddressInfo).port }));
