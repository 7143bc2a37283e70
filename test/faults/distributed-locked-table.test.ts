import { Agent } from 'node:http';
import pg from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { untilOutcome } from '../../testkit/client/full-service.js';
import { ask, generateKey, pay } from '../../testkit/client/http-client.js';
import { expectReplay } from '../../testkit/client/payment-answers.js';
import { draft, listTransactions, newAccount, postTransaction } from '../../testkit/client/transactions.js';
import { openTestStores } from '../../testkit/deployments/distributed-stores.js';
import { serveReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import { withSlack } from '../../testkit/time/patience.js';
import { pause, until } from '../../testkit/time/until.js';

/** Charged, but not settled when the table is locked. */
const UNDER_WAY = 100;
/** On a busy machine. The payments that are settled before the lock leave enough others. */
const SENDING_LIMIT_MS = 10_000;
/** Sent in waves while the table is locked: more than the statements under way can take along. */
const WAVES = 10;
const PAYMENTS_PER_WAVE = 30;
const WAVE_PAUSE_MS = 300;
/** Sent with them over the waves. Each is a statement of its own. */
const CANCELLATIONS = 64;
/** What the requests get that do not need the table. */
const SERVED = ['created 201', 'list 200', 'ready 200'];
/**
 * One write of the ledger: 3 s in the queue, 3 s for one of the connections of payments, 2 s until the server refuses to wait longer for
 * the lock. All of it comes again, because the items of a batch whose lock was refused run one by one. A payment that is charged has two
 * writes, its settlement and the end of its lease.
 */
const WRITE_LIMIT_MS = 2 * (3_000 + 3_000 + 2_000);

/**
 * Bug: requests waited without limit for a statement of their own (p50 10 s), and a batch whose statement was cancelled for
 * taking too long was run again row by row. Cause: the queue had no deadline, and every SQLSTATE led to the second run.
 * Fix: a queue that refuses late items, and a second run only if one value is at fault.
 *
 * Bug: transactions and `/readyz` got 503 too. Cause: statements that waited for the table took every connection of the pool. Fix:
 * statements on payments use a part of it together.
 */
test.each([2, 10])(
  'with %i connections, a locked payments table costs each request a bounded time and a 503, and nothing else; nothing is stuck or charged twice',
  async (poolSize) => {
    const agent = new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY });
    onTestFinished(() => agent.destroy());
    const stores = await openTestStores();
    const processor = await serveReferenceProcessor();
    const releaseReplies = processor.holdReplies();
    onTestFinished(processor.close);
    const { url, logs } = await stores.start({
      ...{ PROCESSOR_URL: processor.url, LOCK_TTL_SECONDS: '7', PROCESSOR_TIMEOUT_MS: '6000' },
      DATABASE_POOL_SIZE: `${poolSize}`,
    });

    const cancel = (key: string) =>
      ask(`${url}/api/payment-cancellation`, { method: 'POST', headers: { 'Idempotency-Key': key }, agent });
    const generateKeys = (count: number) => Promise.all(Array.from({ length: count }, () => generateKey(url)));
    const timed = async (key: string) => {
      const askedAt = performance.now();
      const answer = await pay(url, key, undefined, { agent });
      return { answer, tookMs: performance.now() - askedAt };
    };
    const charged = await generateKeys(UNDER_WAY);
    const waves = await Promise.all(Array.from({ length: WAVES }, () => generateKeys(PAYMENTS_PER_WAVE)));
    const cancelled = await generateKeys(CANCELLATIONS);
    const settling = charged.map(timed);
    await until('charges to be sent', SENDING_LIMIT_MS, async () => (await processor.charges()).length > UNDER_WAY / 2);

    const locker = new pg.Client({ connectionString: stores.databaseUrl });
    await locker.connect();
    await locker.query('BEGIN; LOCK TABLE idempay.payments IN ACCESS EXCLUSIVE MODE');
    // A charge is not settled before, however late the lock is.
    releaseReplies();
    const cancelling = cancelled.map(cancel);
    const claiming: ReturnType<typeof timed>[] = [];
    let isLocked = true;
    const others = (async () => {
      const rounds: Awaited<ReturnType<typeof useOthers>>[] = [];
      for (; isLocked; await pause(WAVE_PAUSE_MS)) rounds.push(await useOthers(url));
      return rounds;
    })();
    for (const wave of waves) {
      claiming.push(...wave.map(timed));
      await pause(WAVE_PAUSE_MS);
    }
    const [refused, settled, uncancelled] = await Promise.all([
      Promise.all(claiming),
      Promise.all(settling),
      Promise.all(cancelling),
    ]);
    isLocked = false;
    const served = await others;
    await locker.end();

    // A machine that pauses may miss a time limit once.
    const isServed = (answers: readonly string[] = SERVED) => answers.every((answer) => SERVED.includes(answer));
    const notServed = served.filter((answers, round) => !isServed(answers) && !isServed(served[round + 1]));
    expect(notServed, 'rounds that another such round followed').toEqual([]);
    expect(logs.filter(({ msg, store }) => store === 'PostgreSQL' && msg?.includes('cannot serve'))).toEqual([]);
    for (const answer of uncancelled) expectError(answer, 503);
    for (const { answer } of refused) expectError(answer, 503);
    for (const { answer } of settled) expect([200, 503, 504]).toContain(answer.status);
    expect(settled.some(({ answer }) => answer.status !== 200)).toBe(true);
    expect(Math.max(...refused.map(({ tookMs }) => tookMs))).toBeLessThan(withSlack(WRITE_LIMIT_MS));
    expect(Math.max(...settled.map(({ tookMs }) => tookMs))).toBeLessThan(withSlack(2 * WRITE_LIMIT_MS));

    const keys = [...charged, ...waves.flat()];
    await Promise.all(keys.map((key) => untilOutcome(url, key)));
    for (const key of keys) expectReplay(await pay(url, key));
    expect(await stores.sql('SELECT state, count(*)::int FROM idempay.payments GROUP BY state')).toEqual([
      { state: 'COMPLETED', count: keys.length },
    ]);
    const references = (await processor.charges()).map(({ reference }) => reference);
    expect(references.toSorted()).toEqual(keys.toSorted());
  },
);

/** Requests that do not need the table, and go on although others wait for it. */
function useOthers(url: string): Promise<string[]> {
  const account = newAccount();
  const asked = {
    created: postTransaction(url, draft({ fromAccount: account })),
    list: listTransactions(url, { from: account }),
    ready: ask(`${url}/readyz`),
  };
  return Promise.all(Object.entries(asked).map(async ([name, answer]) => `${name} ${(await answer).status}`));
}
