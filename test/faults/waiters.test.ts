import { Agent } from 'node:http';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { type Answer, generateKey, pay, transactionIdOf } from '../../testkit/client/http-client.js';
import { expectFirst, expectReplay } from '../../testkit/client/payment-answers.js';
import { shownPaymentOf } from '../../testkit/client/payment-records.js';
import { type DistributedStores, openDistributedStores } from '../../testkit/deployments/distributed-stores.js';
import { type ReferenceProcessor, startReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import type { Service } from '../../testkit/processes/service.js';
import { startTcpProxy, type TcpProxy } from '../../testkit/servers/tcp-proxy.js';
import { patience } from '../../testkit/time/patience.js';
import { pause, until } from '../../testkit/time/until.js';

const WAITERS = 500;
const PROCESSES = 3;
const POOL_SIZE = 4;
/**
 * Longer than it takes to send all waiters and to look at them while they wait, also on a slow machine; but two of them and a lease fit
 * into the wait of a request.
 */
const CHARGE_MS = Math.min(patience(4_500), 9_000);
/** A machine with other work may add so much to a charge. */
const PROCESSOR_TIMEOUT_MS = CHARGE_MS + 2_000;
/** The processor's time-out must be shorter. */
const LEASE_SECONDS = Math.ceil((PROCESSOR_TIMEOUT_MS + 1_000) / 1_000);
const DEADLINE_MS = 20_000;
/** Commands of one process while it is looked at: its look, a renewal, and what it asks for by itself. */
const QUIET = 4;
const AWAY_MS = 2_000;
/** A waiter pauses for up to a second between two tries, and who has tried is answered: far from all of them. */
const MOST_TRIES_WHILE_AWAY = 40;

/** As patient as the service allows. */
const PATIENT = { Prefer: 'wait=30' } as const;

interface Waited {
  readonly answer: Answer;
  /** How often the request was sent: again, elsewhere, when its process died. */
  readonly sends: number;
}

/**
 * Requests for one payment that wait at the same time, each on a connection of its own, in turn at each process; one that is
 * cut off sends the same again to the next.
 */
function sendWaiters(urls: readonly string[], key: string): Promise<Waited[]> {
  const agent = new Agent({ keepAlive: true });
  async function sendOne(index: number, sends = 1): Promise<Waited> {
    const url = urls[(index + sends) % urls.length] as string;
    try {
      return { answer: await pay(url, key, undefined, { headers: PATIENT, agent }), sends };
    } catch (fault) {
      if (sends >= urls.length) throw fault;
      return sendOne(index, sends + 1);
    }
  }
  return Promise.all(Array.from({ length: WAITERS }, (_, index) => sendOne(index))).finally(() => agent.destroy());
}

describe(`${WAITERS} requests that wait for one payment at ${PROCESSES} processes`, () => {
  let processor: ReferenceProcessor;
  /** Counts what reaches the processor. */
  let wire: TcpProxy;
  let sent: () => { charges: number; lookUps: number };
  let stores: DistributedStores;
  let owner: Service;
  let urls: string[];

  beforeEach(async () => {
    const charging = startReferenceProcessor({ behaviour: { latencyMs: CHARGE_MS } });
    [processor, stores] = await Promise.all([charging, openDistributedStores()]);
    wire = await startTcpProxy(processor.port);
    const [charges, lookUps] = [wire.count('POST /charges '), wire.count('GET /charges/')];
    sent = () => ({ charges: charges(), lookUps: lookUps() });
    const settings = {
      PROCESSOR_URL: wire.through(processor.url),
      PROCESSOR_TIMEOUT_MS: `${PROCESSOR_TIMEOUT_MS}`,
      LOCK_TTL_SECONDS: `${LEASE_SECONDS}`,
      DATABASE_POOL_SIZE: `${POOL_SIZE}`,
    };
    const services = await Promise.all(Array.from({ length: PROCESSES }, () => stores.start(settings)));
    urls = services.map(({ url }) => url);
    owner = services[0] as Service;
  });
  afterEach(async () => {
    await stores?.close();
    await Promise.all([wire?.close(), processor?.close()]);
  });

  /** A payment under way in the first process, and all the others, which have asked once: Redis has little to do. */
  async function givenWaiting() {
    const key = await generateKey(owner.url);
    const first = pay(owner.url, key);
    first.catch(() => {});
    await until('the charge to be under way', DEADLINE_MS, () => sent().charges > 0);
    const lock = (await stores.keyNames()).payment(key).lock;
    const holder = await stores.redis.client.hget(lock, 'owner');
    const waiting = sendWaiters(urls, key);
    let before = await commandsOfRedis();
    await until('all to wait', DEADLINE_MS, async () => {
      await pause(150);
      const now = await commandsOfRedis();
      const quiet = now > 2 * WAITERS && now - before <= PROCESSES;
      before = now;
      return quiet;
    });
    return { key, first, waiting, lock, holder };
  }

  /** Calls of scripts that look at a key; each looks once or twice. */
  const commandsOfRedis = () => stores.redis.timesRun('hmget');

  async function connectionsByState(): Promise<Record<string, number>> {
    const rows = await stores.sql<{ state: string; count: number }>(
      `SELECT state, count(*)::int FROM pg_stat_activity
       WHERE application_name = 'idempay' AND datname = current_database() GROUP BY state`,
    );
    return Object.fromEntries(rows.map(({ state, count }) => [state, count]));
  }

  /** All got 200 and one id, as a repeat but for one who may have finished it, and it was charged once. Returns the id and the executions. */
  async function expectToldOnce(key: string, told: readonly Waited[], url: string) {
    expect(told.length).toBeGreaterThan(0);
    const taker = told.find(({ answer }) => !('idempotent-replayed' in answer.headers));
    const id = taker ? expectFirst(taker.answer) : transactionIdOf((told[0] as Waited).answer);
    for (const each of told) {
      if (each !== taker) expectReplay(each.answer, id);
      expect(each.answer.headers['preference-applied']).toBe(PATIENT.Prefer);
    }
    const { executions, ...shown } = await shownPaymentOf(url, key);
    expect(shown).toMatchObject({ state: 'COMPLETED', transactionId: id });
    expect(await processor.charges()).toMatchObject([{ reference: key, transactionId: id, status: 'succeeded' }]);
    return { id, executions };
  }

  test('get its single outcome, and hold neither lock nor connection while they wait', async () => {
    const { key, first, waiting, lock, holder } = await givenWaiting();
    const commands = await commandsOfRedis();
    const seen: Record<string, number>[] = [];
    for (let look = 0; look < 10; look += 1) {
      seen.push(await connectionsByState());
      await pause(50);
    }
    const commandsMeanwhile = (await commandsOfRedis()) - commands;
    expect(await stores.redis.client.keys('*:lock')).toEqual([lock]);
    expect(await stores.redis.client.hget(lock, 'owner')).toBe(holder);
    // Else it was not seen while they waited.
    expect(await Promise.race([first, waiting, 'under way'])).toBe('under way');

    console.log(`${commandsMeanwhile} commands to Redis; connections to PostgreSQL: ${JSON.stringify(seen)}`);
    expect(commandsMeanwhile, 'commands to Redis').toBeLessThanOrEqual(QUIET * PROCESSES);
    for (const { idle = 0, ...busy } of seen) {
      const atWork = Object.values(busy).reduce((total, count) => total + count, 0);
      expect(idle + atWork, 'connections to PostgreSQL').toBeLessThanOrEqual(POOL_SIZE * PROCESSES);
      // The owner renews its lease, and recovery looks now and then.
      expect(atWork, JSON.stringify(busy)).toBeLessThanOrEqual(PROCESSES);
      expect(busy).not.toHaveProperty('idle in transaction');
    }

    const { id, executions } = await expectToldOnce(key, await waiting, owner.url);
    expect(expectFirst(await first)).toBe(id);
    expect({ executions, ...sent() }).toEqual({ executions: 1, charges: 1, lookUps: 0 });
    expect(await stores.redis.client.keys('*:lock')).toEqual([]);
  });

  test('get it after the owner is killed, those of that process by asking another process', async () => {
    const { key, first, waiting } = await givenWaiting();
    const killedAt = performance.now();
    await owner.kill();
    await expect(first).rejects.toThrow();
    const waited = await waiting;
    const tookMs = Math.round(performance.now() - killedAt);
    expect(waited.filter(({ sends }) => sends > 1).length).toBeGreaterThanOrEqual(Math.floor(WAITERS / PROCESSES));
    const { executions } = await expectToldOnce(key, waited, urls[1] as string);
    console.log(`all told ${tookMs} ms after the kill; executions ${executions}, ${JSON.stringify(sent())}`);
    // They come back to the processor once, not all of them: the rest was a second look by chance.
    expect(sent().charges + sent().lookUps).toBeLessThanOrEqual(4);
    expect(executions).toBeLessThanOrEqual(4);
  });

  test('retry now and then while the processor is down, and get the outcome when it is back', async () => {
    const { key, first, waiting } = await givenWaiting();
    await processor.kill();
    expectError(await first, 504);
    await pause(AWAY_MS);
    const { executions } = await shownPaymentOf(owner.url, key);
    await processor.restart({ latencyMs: 0 });
    const told = (await waiting).filter(({ answer }) => answer.status !== 504);
    const { id } = await expectToldOnce(key, told, owner.url);
    console.log(`${executions} executions in ${AWAY_MS} ms; ${WAITERS - told.length} were told 504`);
    expect(executions).toBeGreaterThan(1);
    expect(executions).toBeLessThanOrEqual(MOST_TRIES_WHILE_AWAY);
    expectReplay(await pay(owner.url, key), id);
  });
});
