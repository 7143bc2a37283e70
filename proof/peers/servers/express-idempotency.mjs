// Express with express-idempotency, as its README advises: the middleware, `isHit`, `reportError`; and the Redis adapter as
// that one's README advises. One thing is added: a client with a listener for its errors, as node-redis asks for, since one
// without ends the process when Redis goes down.
import { createClient } from '@redis/client';
import express from 'express';
import { getSharedIdempotencyService, idempotency } from 'express-idempotency';
import redisAdapter from 'express-idempotency-redis-adapter';
import { charge } from './charge.mjs';

const { HOST, PORT, REDIS_URL } = process.env;

const client = createClient({ url: REDIS_URL });
client.on('error', (error) => console.error(error.message));
const dataAdapter = new redisAdapter.default({ connectionInstance: client });
await dataAdapter.connect();

const app = express();
app.use(express.json());
app.use(idempotency({ dataAdapter }));
app.post('/payments', async (request, response) => {
  const service = getSharedIdempotencyService();
  if (service.isHit(request)) return;
  const { status, body } = await charge(request.get('Idempotency-Key'), request.body);
  if (status !== 200) await service.reportError(request);
  response.status(status).send(body);
});
app.listen(PORT, HOST);
