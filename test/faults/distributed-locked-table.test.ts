import { Agent } from 'node:http';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { type Answer, generateKey, pay } from '../../testkit/client/http-client.js';
import { expectReplay } from '../../testkit/client/payment-answers.js';
import { postTransaction } from '../../testkit/client/transactions.js';
import { type DistributedStores, openDistributedStores } from '../../testkit/deployments/distributed-stores.js';
import { type ReferenceProcessor, startReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import type { Service } from '../../testkit/processes/service.js';
import { pause, until } from '../../testkit/time/until.js';

/** Charged, but not settled when the table is locked. */
const UNDER_WAY = 100;
const LATENCY_MS = 1_000;
/** Sent in waves while the table is locked: more than the statements under way can take along. */
const WAVES = 10;
const PAYMENTS_PER_WAVE = 30;
const WAVE_PAUSE_MS = 300;
/**
 * One write of the ledger: 3 s in the queue, 3 s for a connection, 5 s until the server cancels the statement. A payment
 * that is charged has two of them, its settlement and the end of its lease. And a busy machine.
 */
const CLAIM_LIMIT_MS = 11_000 + 3_000;
const SETTLE_LIMIT_MS = 2 * 11_000 + 3_000;
/** A lease of 2 s, a round of recovery, and a busy machine. */
const RECOVERED_LIMIT_MS = 20_000;

interface Timed {
  readonly key: string;
  readonly answer: Answer;
  readonly tookMs: number;
}

/**
 * Bug: requests waited without limit for a statement of their own (p50 10 s), and a batch whose statement was cancelled for
 * taking too long was run again row by row. Cause: the queue had no deadline, and every SQLSTATE led to the second run.
 * Fix: a queue that refuses what is late, and a second run after integrity violations only.
 */
describe('a payments table that somebody keeps locked', () => {
  let stores: DistributedStores;
  let processor: ReferenceProcessor;
  let service: Service;
  const agent = new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY });

  beforeAll(async () => {
    [stores, processor] = await Promise.all([
      openDistributedStores(),
      startReferenceProcessor({ behaviour: { replyLatencyMs: LATENCY_MS } }),
    ]);
    service = await stores.start({ PROCESSOR_URL: processor.url, LOCK_TTL_SECONDS: '2', PROCESSOR_TIMEOUT_MS: '1700' });
  }, 90_000);
  afterAll(async () => {
    agent.destroy();
    await stores?.close();
    await processor?.close();
  });

  async function timed(key: string): Promise<Timed> {
    const askedAt = performance.now();
    const answer = await pay(service.url, key, undefined, { agent });
    return { key, answer, tookMs: performance.now() - askedAt };
  }

  function generateKeys(count: number): Promise<string[]> {
    return Promise.all(Array.from({ length: count }, () => generateKey(service.url)));
  }

  test('costs each request a bounded time and a 503, and afterwards nothing is stuck and nothing charged twice', async () => {
    const charged = await generateKeys(UNDER_WAY);
    const waiting = await generateKeys(WAVES * PAYMENTS_PER_WAVE);
    const underWay = charged.map(timed);
    await until('charges to be sent', LATENCY_MS, async () => (await processor.charges()).length > UNDER_WAY / 2);

    const locker = new pg.Client({ connectionString: stores.databaseUrl });
    await locker.connect();
    await locker.query('BEGIN');
    await locker.query('LOCK TABLE idempay.payments IN ACCESS EXCLUSIVE MODE');
    let refused: Timed[];
    let settled: Timed[];
    try {
      const asked: Promise<Timed>[] = [];
      for (let wave = 0; wave < WAVES; wave += 1) {
        const keys = waiting.slice(wave * PAYMENTS_PER_WAVE, (wave + 1) * PAYMENTS_PER_WAVE);
        asked.push(...keys.map(timed));
        await pause(WAVE_PAUSE_MS);
      }
      // What does not need the table goes on, although requests wait for it.
      expect((await postTransaction(service.url)).status).toBe(201);
      [refused, settled] = await Promise.all([Promise.all(asked), Promise.all(underWay)]);
    } finally {
      await locker.end();
    }
    const slowest = (each: readonly Timed[]) => Math.round(Math.max(...each.map(({ tookMs }) => tookMs)));
    console.log(`locked: claims refused within ${slowest(refused)} ms, settlements within ${slowest(settled)} ms`);
    for (const { answer } of refused) expectError(answer, 503);
    for (const { answer } of settled) expect([200, 503, 504]).toContain(answer.status);
    expect(settled.some(({ answer }) => answer.status !== 200)).toBe(true);
    expect(slowest(refused)).toBeLessThan(CLAIM_LIMIT_MS);
    expect(slowest(settled)).toBeLessThan(SETTLE_LIMIT_MS);

    const keys = [...charged, ...waiting];
    const liftedAt = performance.now();
    const outcomes = await Promise.all(
      keys.map((key) =>
        until(`an outcome of ${key}`, RECOVERED_LIMIT_MS, async () => {
          const { answer } = await timed(key);
          if (answer.status !== 200) expect([409, 503, 504]).toContain(answer.status);
          return answer.status === 200;
        }),
      ),
    );
    expect(outcomes).toHaveLength(keys.length);
    console.log(`all ${keys.length} have an outcome ${Math.round(performance.now() - liftedAt)} ms after the lock`);
    for (const key of keys) expectReplay(await pay(service.url, key));
    const rows = await stores.sql<{ state: string; count: string }>(
      'SELECT state, count(*) FROM idempay.payments GROUP BY state',
    );
    expect(rows).toEqual([{ state: 'COMPLETED', count: String(keys.length) }]);
    const references = (await processor.charges()).map(({ reference }) => reference);
    expect(references.toSorted()).toEqual(keys.toSorted());
  }, 120_000);
});
