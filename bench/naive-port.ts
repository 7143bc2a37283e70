// The second peer of the payment rows: the payment area as it is usually ported. Fastify with its own body parser, ioredis
// with its defaults, and one command after the other: lock, get, set, unlock. Nothing is durable but what Redis keeps, a
// crash between the commands leaves the key locked, and the lock is deleted without a check of its owner.
import { randomUUID } from 'node:crypto';
import type { AddressInfo } from 'node:net';
import Fastify, { type FastifyReply } from 'fastify';
import { Redis } from 'ioredis';

const KEY_GENERATED = 'KEY GENERATED';
const TTL_SECONDS = 86_400;
const LOCK_TTL_MS = 30_000;

const redis = new Redis(process.env.REDIS_URL ?? '');
const app = Fastify();

const refuse = (reply: FastifyReply, status: number, error: string, message: string) =>
  reply.code(status).send({ status, error, message });
const sendText = (reply: FastifyReply, text: string) => reply.type('application/json').send(JSON.stringify(text));

app.get('/api/server-generated/generate-key', async (_request, reply) => {
  const key = randomUUID();
  await redis.set(key, KEY_GENERATED, 'EX', TTL_SECONDS);
  return sendText(reply, key);
});

app.post('/api/payment', async (request, reply) => {
  const key = request.headers['idempotency-key'];
  if (typeof key !== 'string') return refuse(reply, 400, 'Bad Request', 'Missing Idempotency-Key header.');
  const lock = `lock:${key}`;
  if ((await redis.set(lock, '1', 'PX', LOCK_TTL_MS, 'NX')) === null) {
    return refuse(reply, 409, 'Conflict', 'Payment is already being processed.');
  }
  try {
    const value = await redis.get(key);
    if (value === null) return refuse(reply, 400, 'Bad Request', 'Invalid or missing Idempotency-Key.');
    if (value !== KEY_GENERATED) return sendText(reply, `Transaction ID: ${value}`);
    const transactionId = `TXN${Date.now()}`;
    await redis.set(key, transactionId, 'EX', TTL_SECONDS);
    return sendText(reply, `Payment processed successfully with Transaction ID: ${transactionId}`);
  } finally {
    await redis.del(lock);
  }
});

app.get('/api/payment-status', async (request, reply) => {
  const value = await redis.get(String(request.headers['idempotency-key'] ?? ''));
  if (value === null || value === KEY_GENERATED) {
    return refuse(reply, 404, 'Not Found', 'No payment found for this Idempotency-Key.');
  }
  return sendText(reply, `Transaction ID: ${value}`);
});

process.once('SIGTERM', async () => {
  await app.close();
  redis.disconnect();
});
await app.listen({ host: '127.0.0.1', port: Number(process.env.PORT ?? 0) });
console.log(JSON.stringify({ msg: 'listening', port: (app.server.address() as AddressInfo).port }));
