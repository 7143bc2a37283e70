// The server that most people would write, without a library for it: a table with a unique key. The first request inserts a row, charges,
// and keeps the answer in the row; a repeat is answered from there. Fastify and pg are the product's own, with their defaults. One thing is
// added: a listener for errors of idle connections, since a pool without one ends the process when one breaks.
import Fastify from 'fastify';
import pg from 'pg';
import { charge } from './charge.mjs';

const { HOST, PORT, DATABASE_URL } = process.env;

const pool = new pg.Pool({ connectionString: DATABASE_URL });
pool.on('error', (error) => console.error(error.message));
await pool.query(`CREATE TABLE IF NOT EXISTS payments (
  idempotency_key text PRIMARY KEY,
  status integer,
  body jsonb,
  created_at timestamptz NOT NULL DEFAULT now()
)`);

const INSERT = 'INSERT INTO payments (idempotency_key) VALUES ($1) ON CONFLICT DO NOTHING';
const READ = 'SELECT status, body FROM payments WHERE idempotency_key = $1';
const COMPLETE = 'UPDATE payments SET status = $2, body = $3 WHERE idempotency_key = $1';

const app = Fastify();
app.post('/payments', async (request, reply) => {
  const key = request.headers['idempotency-key'];
  const { rowCount } = await pool.query(INSERT, [key]);
  if (rowCount === 0) {
    const { status, body } = (await pool.query(READ, [key])).rows[0];
    return status === null ? reply.code(409).send({ error: 'is being processed' }) : reply.code(status).send(body);
  }
  const { status, body } = await charge(key, request.body);
  await pool.query(COMPLETE, [key, status, body]);
  return reply.code(status).send(body);
});
await app.listen({ host: HOST, port: PORT });
