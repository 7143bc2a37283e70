// Clients at a fixed rate: a new round begins when its time has come, whether or not the last one has ended. So a service that
// gets slow meets the same load.
import assert from 'node:assert/strict';
import { Pool } from 'undici';
import { GOOD_BODY as PAYMENT } from '../testkit/client/payment-bodies.js';
import { pause } from '../testkit/time/until.js';

const CONNECTIONS = 128;
/** A service that falls so far behind is not at steady load any more. */
const ROUNDS_UNDER_WAY = 2000;
const TICK_MS = 20;

const TRANSACTION = JSON.stringify({ fromAccount: 'A', toAccount: 'B', amount: 100.5 });
const CHANGE = JSON.stringify({ status: 'FLAGGED' });
const JSON_TYPE = { 'Content-Type': 'application/json' };
const GENERATE_KEY = '/api/server-generated/generate-key';

interface More {
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}
type Method = 'GET' | 'POST' | 'PUT' | 'DELETE';
type Call = (method: Method, path: string, more?: More) => Promise<{ text: string; isReplayed: boolean }>;

/** One call of each kind. It removes its transactions again. Throws if an answer is wrong. */
async function everyCall(call: Call): Promise<void> {
  const key = JSON.parse((await call('GET', GENERATE_KEY)).text) as string;
  const headers = { ...JSON_TYPE, 'Idempotency-Key': key };
  const first = await call('POST', '/api/payment', { headers, body: PAYMENT });
  const again = await call('POST', '/api/payment', { headers, body: PAYMENT });
  assert.ok(again.isReplayed);
  const status = await call('GET', '/api/payment-status', { headers });
  assert.equal(idIn(again), idIn(first));
  assert.equal(idIn(status), idIn(first));

  const created = await call('POST', '/api/transactions', { headers: JSON_TYPE, body: TRANSACTION });
  const path = `/api/transactions/${(JSON.parse(created.text) as { transactionId: number }).transactionId}`;
  await call('GET', path);
  await call('PUT', `${path}/status`, { headers: JSON_TYPE, body: CHANGE });
  assert.equal((JSON.parse((await call('GET', path)).text) as { status: string }).status, 'FLAGGED');
  await call('GET', '/api/transactions?from=A');
  await call('DELETE', path);
}

function idIn({ text }: { text: string }): string | undefined {
  return /TXN\d+/.exec(text)?.[0];
}

/** Asks for this number of keys as fast as it can. */
export async function generateKeys(url: string, count: number): Promise<void> {
  const pool = new Pool(url, { connections: CONNECTIONS });
  let left = count;
  const client = async () => {
    for (; left > 0; left -= 1) await callsOf(pool)('GET', GENERATE_KEY);
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, client));
  await pool.close();
}

/** Starts a round `perSecond` times a second, until it is stopped. */
export function startRounds(url: string, perSecond: number) {
  const pool = new Pool(url, { connections: CONNECTIONS });
  const call = callsOf(pool);
  const beganAt = performance.now();
  const underWay = new Set<Promise<void>>();
  let started = 0;
  let fail: (problem: Error) => void = () => {};
  const failure = new Promise<never>((_, reject) => {
    fail = reject;
  });
  // It may fail before anybody awaits it.
  failure.catch(() => {});
  const timer = setInterval(() => {
    const due = Math.floor(((performance.now() - beganAt) / 1000) * perSecond);
    for (; started < due; started += 1) {
      if (underWay.size >= ROUNDS_UNDER_WAY) return fail(new Error(`${ROUNDS_UNDER_WAY} rounds are under way`));
      const running: Promise<void> = everyCall(call)
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
function callsOf(pool: Pool): Call {
  return async function call(method, path, more = {}) {
    const answer = await pool.request({ method, path, ...more });
    const text = await answer.body.text();
    if (answer.statusCode === 503) {
      await pause(Number(answer.headers['retry-after']) * 1000);
      return call(method, path, more);
    }
    assert.ok(answer.statusCode < 300, `${method} ${path}: ${answer.statusCode} ${text}`);
    return { text, isReplayed: answer.headers['idempotent-replayed'] === 'true' };
  };
}
