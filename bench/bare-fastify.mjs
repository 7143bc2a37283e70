// The peer of every row: Fastify alone, with the service's own body reader and constant answers of the same size. What the
// service costs beyond this is the service. With PROCESSOR_URL each payment is one charge there, and still nothing is stored.
import Fastify from 'fastify';
import { readJsonBody } from '../dist/http/json-body.js';
import { createHttpProcessor } from '../dist/payments/processors/http.js';

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
app.addContentTypeParser(JSON_TYPE, { parseAs: 'buffer' }, (_request, body, done) => done(null, readJsonBody(body)));

const text = { schema: { response: { 200: { type: 'string' } } } };
const constantText = (value) => (_request, reply) => reply.type(JSON_TYPE).send(JSON.stringify(value));

app.get('/api/server-generated/generate-key', text, constantText(KEY));
const pay = constantText(`Payment processed successfully with Transaction ID: ${TRANSACTION_ID}`);
app.post('/api/payment', text, process.env.PROCESSOR_URL ? chargeAndAnswer(process.env.PROCESSOR_URL, pay) : pay);
app.get('/api/payment-status', text, constantText(`Transaction ID: ${TRANSACTION_ID}`));

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

function chargeAndAnswer(url, answer) {
  const processor = createHttpProcessor({ url, timeoutMs: 10_000, dedupMs: 0, connections: 256, alarm: console.error });
  app.addHook('onClose', processor.close);
  return async (request, reply) => {
    const { state } = await processor.charge({ reference: request.headers['idempotency-key'], ...CHARGE });
    if (state !== 'succeeded') return reply.code(502).send();
    return answer(request, reply);
  };
}

process.once('SIGTERM', () => app.close());
await app.listen({ host: '127.0.0.1', port: Number(process.env.PORT ?? 0) });
console.log(JSON.stringify({ msg: 'listening', port: app.server.address().port }));
