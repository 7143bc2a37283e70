import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer as createTcpServer, type Server as TcpServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { type Answer, ask, generateKey, pay } from '../../testkit/client/http-client.js';
import { beginPayment, expectFirst, expectReplay, givenPaid } from '../../testkit/client/payment-answers.js';
import { answerTo, requestText } from '../../testkit/client/raw-http.js';
import { describeDeployments, describeOneDeployment, embedded } from '../../testkit/deployments/deployments.js';
import { openStoppableStores } from '../../testkit/deployments/distributed-stores.js';
import { shareService } from '../../testkit/deployments/shared-service.js';
import { spawnProgram } from '../../testkit/processes/service.js';
import { SERVICE } from '../../testkit/programs.js';
import { freePort } from '../../testkit/servers/server-process.js';
import { patience } from '../../testkit/time/patience.js';
import { until } from '../../testkit/time/until.js';

const DEADLINE_MS = 20_000;
const ALL_UP = { status: 'ready', storeOfRecord: 'up', keyValueStore: 'up', processor: 'up' };

const NO_RECORD = { ...ALL_UP, status: 'degraded', storeOfRecord: 'away' };
const NOT_REACHED = /store of record cannot be reached/;

const livez = (url: string) => ask(`${url}/livez`);
const readyz = (url: string) => ask(`${url}/readyz`);

function expectNotReady(answer: Answer, message: RegExp): void {
  expectError(answer, 503, message);
  expect(Number(answer.headers['retry-after'])).toBeGreaterThan(0);
}

/** The state that a ready process shows; undefined while it is not. */
async function stateOf(url: string): Promise<object | undefined> {
  const answer = await readyz(url);
  return answer.status === 200 ? answer.json<object>() : undefined;
}

const untilState = (url: string, state: object) =>
  expect.poll(() => stateOf(url), { timeout: patience(DEADLINE_MS) }).toEqual(state);

async function untilNotReady(url: string): Promise<void> {
  const isNotReady = async () => (await stateOf(url)) === undefined;
  await until('the process not to be ready', DEADLINE_MS, isNotReady);
  expectNotReady(await readyz(url), NOT_REACHED);
}

describeDeployments('the probes', (deployment) => {
  const shared = shareService(deployment);

  test('say that the process is alive and ready, to no cache', async () => {
    // A busy machine may keep a store from answering in time.
    await untilState(shared.url, ALL_UP);
    const [alive, ready] = await Promise.all([livez(shared.url), readyz(shared.url)]);
    expect([alive.status, alive.json()]).toEqual([200, { status: 'alive' }]);
    expect([ready.status, ready.json()]).toEqual([200, ALL_UP]);
    for (const { headers } of [alive, ready]) {
      expect(headers['cache-control']).toBe('no-store');
      expect(headers['content-type']).toMatch(/^application\/json/);
      expect(headers['x-request-id']).toMatch(/\S/);
    }
  });

  test.each(['/livez', '/readyz'])('take GET and HEAD alone: %s', async (path) => {
    expect(await ask(`${shared.url}${path}`, { method: 'HEAD' })).toMatchObject({ status: 200, text: '' });
    const refused = await ask(`${shared.url}${path}`, { method: 'POST' });
    expectError(refused, 405);
    expect(refused.headers.allow).toBe('GET, HEAD');
  });
});

describeOneDeployment('a signal', (deployment) => {
  /**
   * An orchestrator sends the signal and the load balancer stops sending requests at about the same time, in no order: what
   * still comes must be served.
   */
  test('ends readiness at once, and the listener only after DRAIN_DELAY_SECONDS', async () => {
    const stores = await deployment.open();
    onTestFinished(() => stores.close());
    const delaySeconds = Math.ceil(patience(4_000) / 1_000);
    const service = await stores.start({ DRAIN_DELAY_SECONDS: `${delaySeconds}`, PROCESSOR_DELAY_MS: '500' });
    const key = await generateKey(service.url);
    const signalledAt = performance.now();
    service.signal('SIGTERM');
    const notReady = await until('readiness to fall', DEADLINE_MS, async () => {
      const answer = await readyz(service.url);
      return answer.status === 503 && answer;
    });
    expectNotReady(notReady, /is stopping/);

    // Bug: a client that kept its connection was reset when the delay was over. Fix: each answer asks it for another connection.
    const alive = await livez(service.url);
    expect([alive.status, alive.headers.connection]).toEqual([200, 'close']);
    const { finished } = await beginPayment(service.url, key);
    const last = await generateKey(service.url);
    expectFirst(await finished);
    expectFirst(await pay(service.url, last));
    expect(await service.ended).toEqual({ code: 0, signal: null });
    expect(performance.now() - signalledAt).toBeGreaterThanOrEqual(delaySeconds * 1_000);
  });
});

describe('a processor over HTTP that is down', () => {
  test('leaves the service ready, and degraded until the next call succeeds', async () => {
    const stores = await embedded.open();
    const port = await freePort();
    onTestFinished(() => stores.close());
    const { url } = await stores.serve({ PROCESSOR_URL: `http://127.0.0.1:${port}`, LOCK_TTL_SECONDS: '11' });
    await untilState(url, ALL_UP);
    expectError(await pay(url, await generateKey(url)), 503);
    await untilState(url, { ...ALL_UP, status: 'degraded', processor: 'away' });
    const refusing = await serveRefusals(port);
    onTestFinished(() => void refusing.close());
    // Recovery looks the payment up; also an answer that settles nothing says that somebody is there.
    await untilState(url, ALL_UP);
  });
});

/**
 * Bug: a start that migrated a large file answered nothing, as SQLite works on the thread that calls it.
 * Fix: the writer thread migrates.
 */
describe('a file that takes its time', () => {
  test('is opened behind a port that answers probes', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'idempay-probes-'));
    const other = new DatabaseSync(join(folder, 'idempay.sqlite'));
    other.exec('BEGIN EXCLUSIVE');
    const { url, child, ended } = await spawnService({ DATA_DIR: folder });
    const answer = await until('the port to be open', DEADLINE_MS, () => livez(url).catch(() => undefined));
    expect(answer.status).toBe(200);
    for (let asked = 0; asked < 5; asked += 1) expectNotReady(await readyz(url), /is starting/);
    other.exec('COMMIT');
    other.close();
    await untilState(url, ALL_UP);
    child.kill('SIGTERM');
    expect((await ended).code).toBe(0);
    await rm(folder, { recursive: true });
  });
});

describe('stores that are down', () => {
  let stores: Awaited<ReturnType<typeof openStoppableStores>>;
  beforeAll(async () => {
    stores = await openStoppableStores();
  });
  afterAll(() => stores?.close());

  test('make a running service degraded without Redis', async () => {
    const { url, stop } = await stores.serve();
    await untilState(url, ALL_UP);
    await stores.redis.kill();
    await untilState(url, { ...ALL_UP, status: 'degraded', keyValueStore: 'away' });
    await stores.redis.start();
    await untilState(url, ALL_UP);
    await stop();
  });

  test('leave the only process degraded without PostgreSQL, and not ready if Redis is down too', async () => {
    const { url, stop } = await stores.serve();
    const { key, transactionId } = await givenPaid(url);
    await stores.postgres.stopImmediately();
    await untilState(url, NO_RECORD);
    expectReplay(await pay(url, key), transactionId);

    await stores.redis.kill();
    await untilNotReady(url);
    expect((await livez(url)).status).toBe(200);
    await stores.redis.start();
    await untilState(url, NO_RECORD);
    await stores.postgres.start();
    await untilState(url, ALL_UP);
    await stop();
  });

  test('are waited for behind an open port, which answers probes and refuses everything else', async () => {
    await stores.postgres.stopImmediately();
    const { url, port } = await spawnService(stores.environment);
    await until('the port to be open', DEADLINE_MS, () => livez(url).catch(() => undefined));

    const alive = await ask(`${url}/livez?x=1`);
    expect([alive.status, alive.json()]).toEqual([200, { status: 'alive' }]);
    expect(alive.headers['x-request-id']).toMatch(/\S/);
    const isStarting = /is starting/;
    expectNotReady(await readyz(url), isStarting);
    for (const path of ['/api/health/redis', '/api/transactions', '/nothing', '/']) {
      expectNotReady(await ask(`${url}${path}`), isStarting);
    }
    const key = '018f0000-0000-7000-8000-000000000000';
    expectNotReady(await pay(url, key), isStarting);
    expectNotReady(await ask(`${url}/livez`, { method: 'POST' }), isStarting);
    expectNotReady(await pay(url, key, 'x'.repeat(1_000_000)), isStarting);
    // Bytes that never become a request are refused as ever.
    expectError(await answerTo(port, requestText('CONNECT example.com:443 HTTP/1.1')), 405);
    expectError(await answerTo(port, 'NOISE\r\n\r\n'), 400);
    expectError(await answerTo(port, requestText('GET / HTTP/1.1', ['Expect: a-miracle'])), 417);
    expect((await answerTo(port, requestText('GET http://127.0.0.1/livez HTTP/1.1'))).status).toBe(200);

    await stores.postgres.start();
    await untilState(url, ALL_UP);
    expectFirst(await pay(url, await generateKey(url)));
  });
});

/** A process that may not serve yet. */
async function spawnService(environment: Record<string, string>) {
  const port = await freePort();
  const { child, ended } = spawnProgram(SERVICE, { ...environment, PORT: `${port}` });
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  return { url: `http://127.0.0.1:${port}`, port, child, ended };
}

/** Answers everything with a 400, and closes. */
async function serveRefusals(port: number): Promise<TcpServer> {
  const server = createTcpServer((socket) => {
    socket.on('error', () => {});
    socket.once('data', () => socket.end('HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n'));
  }).listen(port, '127.0.0.1');
  await once(server, 'listening');
  return server;
}
