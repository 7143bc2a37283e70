// The peer of every row: Fastify alone, with the service's own body reader and constant answers of the same size. What the
// service costs beyond this is the service.
import Fastify from 'fastify';
import { readJsonBody } from '../dist/http/json-body.js';

const TRANSACTION_ID = 'TXN1700000000000000000';
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
app.post('/api/payment', text, constantText(`Payment processed successfully with Transaction ID: ${TRANSACTION_ID}`));
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

process.once('SIGTERM', () => app.close());
await app.listen({ host: '127.0.0.1', port: Number(process.env.PORT ?? 0) });
console.log(JSON.stringify({ msg: 'listening', port: app.server.address().port }));
