import { expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { type Answer, ask, generateKey } from '../../testkit/client/http-client.js';
import { givenPaid, KEY_GENERATED, keyRecord, UNKNOWN_KEY } from '../../testkit/client/payment-answers.js';
import { expectHeadAsGet } from '../../testkit/client/payment-records.js';
import { givenTransaction, readTransaction } from '../../testkit/client/transactions.js';
import { describeDeployments, describeOneDeployment } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';
import { until } from '../../testkit/time/until.js';

/** Every path, and what its `Allow` must be. */
const ROUTES: readonly [path: string, allow: string][] = [
  ['/api/server-generated/generate-key', 'GET'],
  ['/api/payment', 'POST'],
  ['/api/payment-status', 'GET, HEAD'],
  ['/api/health/redis', 'GET, HEAD'],
  ['/api/health/redis/key/some-key', 'GET, HEAD'],
  ['/api/health/redis/stats', 'GET, HEAD'],
  ['/api/transactions', 'GET, HEAD, POST'],
  ['/api/transactions/100000000000001', 'DELETE, GET, HEAD'],
  ['/api/transactions/100000000000001/status', 'PUT'],
  ['/api/payments', 'GET, HEAD'],
  ['/api/payments/export', 'GET, HEAD'],
  [`/api/payments/${UNKNOWN_KEY}`, 'GET, HEAD'],
  [`/api/payments/${UNKNOWN_KEY}/resolution`, 'POST'],
];

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'PROPFIND'];

const ODD_IDS = ['', 'x'.repeat(1000), 'two words', '<script>', 'caf\u00e9'];
const REFUSED = ['GET /nothing', 'GET /api/payment', 'POST /api/payment', 'DELETE /api/transactions/1', 'GET /%'];

/**
 * Bug (paths that end in a slash): they were refused for their transaction id. Cause: the router finds the id's route with
 * an empty id. Fix: an empty id names nothing.
 */
const UNKNOWN_ROUTES = [
  ...['/', '/api', '/api/nothing', '/api/transactionsX', '/api/transactions/1/nothing', '//api/payment'],
  ...['/api/payment/1', '/API/TRANSACTIONS', '/api/Payments', '/api/health/redis/nothing'],
  ...[`/api/payments/${UNKNOWN_KEY}/`, `/api/payments/${UNKNOWN_KEY}/resolution/1`],
];

describeOneDeployment('the service as a whole', (deployment) => {
  const shared = shareService(deployment);
  const path = (of: string, options = {}): Promise<Answer> => ask(`${shared.url}${of}`, options);

  it.each(UNKNOWN_ROUTES)('answers 404 to every method on an unknown route: %s', async (unknown) => {
    for (const method of ['GET', 'POST', 'PUT', 'DELETE']) expectError(await path(unknown, { method }), 404);
    await expectHeadAsGet(`${shared.url}${unknown}`, ['content-type']);
  });

  it.each([
    ['GET', '/api/payments/'],
    ['GET', '/api/health/redis/key/'],
    ['GET', '/api/transactions/?from=A'],
    ['DELETE', '/api/transactions/'],
    ['PUT', '/api/transactions//status?newStatus=FLAGGED'],
  ])('answers 404 where the id of a payment, key or transaction is empty: %s %s', async (method, unknown) => {
    expectError(await path(unknown, { method }), 404);
  });

  it.each(ROUTES)('answers 405 on %s to every method but %s', async (route, allow) => {
    for (const method of METHODS) {
      const answer = await path(route, { method });
      expect(answer.status === 405, method).toBe(!allow.split(', ').includes(method));
      if (answer.status !== 405) continue;
      expect(answer.headers.allow).toBe(allow);
      if (method !== 'HEAD') expectError(answer, 405);
    }
  });

  it('answers 405 before anything else of the request is looked at', async () => {
    const headers = { 'Content-Type': 'text/plain' };
    expectError(await path('/api/payment', { method: 'PUT', headers, body: '{' }), 405);
    expectError(await path('/api/transactions', { method: 'PUT', headers, body: 'x'.repeat(10_000) }), 405);
    expectError(await path('/api/transactions/abc', { method: 'PATCH' }), 405);
  });

  it.each([
    ...['/api/health/redis/key/%', '/api/health/redis/key/%zz', '/api/health/redis/key/%ff', '/%'],
    ...['/api/transactions/%E0%A4%A', '/api/payments/%zz'],
  ])('answers 400 to a path with bad percent-encoding: %s', async (bad) => {
    expectError(await path(bad), 400);
  });

  /** Bug: an account in Latin-1, or a cut escape, was taken literally, so a list was empty, or unchanged by the tag of the empty list. */
  it.each(['from=Jos%E9', 'from=Jos%', 'from=%zz', 'x=%ff', 'from=a?%'])(
    'answers 400 to a query with bad percent-encoding: %s',
    async (bad) => {
      for (const of of ['/api/transactions', '/api/transactions/search', '/api/payments', '/nothing']) {
        expectError(await path(`${of}?${bad}`, { headers: { 'If-None-Match': '*' } }), 400, /percent-encoded/);
      }
    },
  );

  async function requestId(headers: Record<string, string | string[]>): Promise<string> {
    const id = (await path('/api/health/redis', { headers })).headers['x-request-id'];
    expect(id).toMatch(/^[A-Za-z0-9._~:+/=-]{1,200}$/);
    return id as string;
  }

  it.each(['a', UNKNOWN_KEY, 'Job_7.step-2'])('keeps the sane X-Request-Id of the client: %s', async (sent) => {
    expect(await requestId({ 'X-Request-Id': sent })).toBe(sent);
  });

  it('gives a new X-Request-Id in place of any other one, or several, and where the client sends none', async () => {
    for (const sent of [...ODD_IDS, ['one', 'two']]) {
      expect([sent].flat()).not.toContain(await requestId({ 'X-Request-Id': sent }));
    }
    const ids = await Promise.all(Array.from({ length: 50 }, () => requestId({})));
    expect(new Set(ids).size).toBe(50);
  });

  it.each(REFUSED)('has the X-Request-Id of the client on errors: %s', async (request) => {
    const [method, route = ''] = request.split(' ');
    const answer = await path(route, { method, headers: { 'X-Request-Id': 'find-me' } });
    expect(answer.status).toBeGreaterThanOrEqual(400);
    expect(answer.headers['x-request-id']).toBe('find-me');
  });

  // RFC 9111 4.2.2 lets a cache keep a 404, 405, 410, 414 or 501 that does not say otherwise.
  it.each(REFUSED)('lets no cache keep an error: %s', async (request) => {
    const [method, route = ''] = request.split(' ');
    for (const headers of [{}, { Accept: 'application/problem+json' }]) {
      const answer = await path(route, { method, headers });
      expect(answer.status).toBeGreaterThanOrEqual(400);
      expect(answer.headers['cache-control']).toBe('no-store');
    }
  });
});

const TTL_SECONDS = 600;
const COUNTS = [
  ...['totalKeys', 'usedMemoryBytes', 'hits', 'misses', 'expiredKeys', 'evictedKeys', 'connectedClients'],
  'uptimeSeconds',
] as const;
type Stats = Record<(typeof COUNTS)[number], number> & { version: string };

/** As they stand in a path. */
const ABSENT_KEYS = [
  ...['absent', UNKNOWN_KEY, 'transactionCache::1', 'transactionCache::', 'a%2Fb', '%2F..%2F..%2Fetc', '*', '100%25'],
  ...['a%20b%22c%27', 'caf%C3%A9%F0%9F%98%80', 'a%0Ab%00', '%7Babc%7D', 'a+b&c=d;e:f@g', '__proto__', 'k'.repeat(5000)],
];

const stats = async (url: string) => expectJson(await ask(`${url}/api/health/redis/stats`)) as Stats;

function expectJson(answer: Answer): Record<string, unknown> {
  expect(answer.status).toBe(200);
  expect(answer.headers['content-type']).toMatch(/^application\/json\b/);
  expect(answer.headers['x-request-id']).toMatch(/\S/);
  return answer.json();
}

describeDeployments('the health of the key-value store', (deployment) => {
  const shared = shareService(deployment, { IDEMPOTENCY_TTL_SECONDS: String(TTL_SECONDS) });

  it('is UP, with the kind of store, a sentence and the time it took', async () => {
    const started = performance.now();
    const health = expectJson(await ask(`${shared.url}/api/health/redis`));
    const elapsed = performance.now() - started;
    expect(health).toEqual({
      status: 'UP',
      store: expect.stringMatching(/^(redis|embedded)$/),
      message: expect.stringMatching(/\S/),
      latencyMs: expect.any(Number),
    });
    expect(health.latencyMs).toBeGreaterThanOrEqual(0);
    expect(health.latencyMs).toBeLessThan(elapsed);
  });

  it('shows the value of a key, also percent-encoded or in capitals, before and after it has paid, and how long it lives', async () => {
    const { key: paid, transactionId } = await givenPaid(shared.url);
    const values = { [await generateKey(shared.url)]: KEY_GENERATED, [paid]: transactionId };
    for (const [key, value] of Object.entries(values)) {
      for (const path of [key, key.replaceAll('-', '%2D'), key.toUpperCase()]) {
        const { ttlSeconds, ...held } = expectJson(await keyRecord(shared.url, path));
        expect(held).toEqual({ key: decodeURIComponent(path), value });
        expect(Number.isInteger(ttlSeconds)).toBe(true);
        expect(ttlSeconds).toBeLessThanOrEqual(TTL_SECONDS);
        expect(ttlSeconds).toBeGreaterThan(TTL_SECONDS - 60);
      }
    }
  });

  it.each(ABSENT_KEYS)('says of a key that it is absent: %s', async (path) => {
    expectError(await keyRecord(shared.url, path), 404, `Key '${decodeURIComponent(path)}' not found.`);
  });

  it('has every number, and the version of the store; the seconds go on, and what happens is counted', async () => {
    const { transactionId } = await givenTransaction(shared.url);
    const { version, ...counts } = await stats(shared.url);
    expect(version).toMatch(/\d/);
    expect(Object.keys(counts).sort()).toEqual([...COUNTS].sort());
    for (const name of COUNTS) {
      expect(counts[name], name).toBeGreaterThanOrEqual(0);
      if (name !== 'uptimeSeconds') expect(Number.isSafeInteger(counts[name]), name).toBe(true);
    }
    expect(counts.usedMemoryBytes).toBeGreaterThan(0);
    const isLater = async () => (await stats(shared.url)).uptimeSeconds > counts.uptimeSeconds;
    await until('a greater uptime', 10_000, isLater);
    // Read after the second that has passed: a transaction may be cached a moment after the answer that read it.
    const { totalKeys } = await stats(shared.url);
    await Promise.all(Array.from({ length: 25 }, () => generateKey(shared.url)));
    // The process may write a few keys of its own meanwhile, such as its sample for the live view.
    const more = (await stats(shared.url)).totalKeys - totalKeys;
    expect(more).toBeGreaterThanOrEqual(25);
    expect(more).toBeLessThan(30);
    await readTransaction(shared.url, transactionId);
    const missed = await stats(shared.url);
    expect(missed.misses).toBeGreaterThan(counts.misses);
    for (let n = 0; n < 5; n++) await readTransaction(shared.url, transactionId);
    const hit = await stats(shared.url);
    expect(hit.hits).toBeGreaterThanOrEqual(missed.hits + 5);
    expect(hit.misses).toBe(missed.misses);
  });
});
