// Clients at a fixed rate: a new round begins when its time has come, whether or not the last one has ended. So a service that
// gets slow meets the same load, and the time that a round waits for a connection counts as its latency.
import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import { Pool } from 'undici';

const CONNECTIONS = 128;
/** A service that falls so far behind is not at steady load any more. */
const ROUNDS_UNDER_WAY = 2000;
const TICK_MS = 20;

const PAYMENT = JSON.stringify({ amount: '100.50', currency: 'USD' });
const TRANSACTION = JSON.stringify({ fromAccount: 'A', toAccount: 'B', amount: 100.5 });
const CHANGE = JSON.stringify({ status: 'FLAGGED' });
const JSON_TYPE = { 'Content-Type': 'application/json' };

/** One call of each kind. What it creates in the transactions area it removes again. Throws when an answer is wrong. */
export async function everyCall(client) {
  const key = JSON.parse((await client.ask('GET', '/api/server-generated/generate-key')).text);
  const headers = { ...JSON_TYPE, 'Idempotency-Key': key };
  const first = await client.ask('POST', '/api/payment', { headers, body: PAYMENT });
  const again = await client.ask('POST', '/api/payment', { headers, body: PAYMENT });
  assert.equal(again.headers['idempotent-replayed'], 'true');
  const status = await client.ask('GET', '/api/payment-status', { headers });
  assert.equal(idIn(again), idIn(first));
  assert.equal(idIn(status), idIn(first));

  const created = await client.ask('POST', '/api/transactions', { headers: JSON_TYPE, body: TRANSACTION });
  const path = `/api/transactions/${JSON.parse(created.text).transactionId}`;
  await client.ask('GET', path);
  await client.ask('PUT', `${path}/status`, { headers: JSON_TYPE, body: CHANGE });
  assert.equal(JSON.parse((await client.ask('GET', path)).text).status, 'FLAGGED');
  await client.ask('GET', '/api/transactions?from=A');
  await client.ask('DELETE', path);
}

/** Asks for so many keys as fast as it can. */
export async function generateKeys(url, count) {
  const pool = new Pool(url, { connections: CONNECTIONS });
  let left = count;
  const client = async () => {
    for (; left > 0; left -= 1) await ask(pool, 'GET', '/api/server-generated/generate-key');
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, client));
  await pool.close();
}

function idIn({ text }) {
  return text.match(/TXN\d+/)[0];
}

/**
 * Starts a round `perSecond` times a second, until it is stopped.
 * @param {string} url
 * @param {number} perSecond
 * @param {(client: { ask: Function }) => Promise<void>} round
 */
export function startRounds(url, perSecond, round) {
  const pool = new Pool(url, { connections: CONNECTIONS });
  const client = { ask: (method, path, more) => ask(pool, method, path, more) };
  const beganAt = performance.now();
  const underWay = new Set();
  let started = 0;
  let fail;
  const failure = new Promise((_, reject) => {
    fail = reject;
  });
  // It may fail before anybody awaits it.
  failure.catch(() => {});
  const timer = setInterval(() => {
    const due = Math.floor(((performance.now() - beganAt) / 1000) * perSecond);
    for (; started < due; started += 1) {
      if (underWay.size >= ROUNDS_UNDER_WAY) return fail(new Error(`${ROUNDS_UNDER_WAY} rounds are under way`));
      const running = round(client)
        .catch(fail)
        .finally(() => underWay.delete(running));
      underWay.add(running);
    }
  }, TICK_MS);
  return {
    /** Rejects when a round fails; never resolves. */
    failure,
    started: () => started,
    async stop() {
      clearInterval(timer);
      await Promise.all(underWay);
      await pool.close();
    },
  };
}

/** Repeats what was refused for load, as a client should. */
async function ask(pool, method, path, { headers = {}, body } = {}) {
  const answer = await pool.request({ method, path, headers, body });
  const text = await answer.body.text();
  if (answer.statusCode === 503) {
    await delay(Number(answer.headers['retry-after']) * 1000);
    return ask(pool, method, path, { headers, body });
  }
  assert.ok(answer.statusCode < 300, `${method} ${path}: ${answer.statusCode} ${text}`);
  return { status: answer.statusCode, headers: answer.headers, text };
}
