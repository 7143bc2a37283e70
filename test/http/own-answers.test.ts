import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Answer, ask, generateKey, pay, paymentStatus } from '../../testkit/client/http-client.js';
import { answerTo, requestText } from '../../testkit/client/raw-http.js';
import { describeOneDeployment, type Stores } from '../../testkit/deployments/deployments.js';
import { spawnProgram } from '../../testkit/processes/service.js';
import { type ServiceInProcess, serveInProcess } from '../../testkit/processes/service-in-process.js';
import { SERVICE } from '../../testkit/programs.js';
import { freePort } from '../../testkit/servers/server-process.js';
import { until } from '../../testkit/time/until.js';

/** Short, so that a slow request is refused within the test. The other limits are production's. */
const LIMITS = { headersTimeout: 2_000, connectionsCheckingInterval: 50 };
const TYPED = ['Idempotency-Key: 01936d5e-7c1a-7f3e-8b5a-2f6c1d9e4b70', 'Content-Type: application/json'];
const WANTS_A_BODY = 'POST /api/payment HTTP/1.1';

/** Bytes that never become a request that a route answers, and requests that are refused before one does. */
const RAW: readonly [what: string, text: string, status: number][] = [
  ['noise', 'NOISE\r\n\r\n', 400],
  ['a header without a colon', requestText('GET /livez HTTP/1.1', ['nonsense']), 400],
  ['HEAD with a length that is no number', requestText('HEAD /livez HTTP/1.1', ['Content-Length: many']), 400],
  ['a request that does not come to its end', 'GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ', 408],
  [
    'chunk extensions that are too large',
    requestText(WANTS_A_BODY, [...TYPED, 'Transfer-Encoding: chunked'], `1;${'x'.repeat(20_000)}\r\n1\r\n`),
    413,
  ],
  ['a body that is too large', requestText(WANTS_A_BODY, [...TYPED, 'Content-Length: 99999']), 413],
  ['a target of 12,000 characters', requestText(`GET /${'x'.repeat(12_000)} HTTP/1.1`), 414],
  ['a target of 20,000 characters', requestText(`HEAD /${'x'.repeat(20_000)} HTTP/1.1`), 414],
  ['an unknown expectation', requestText('GET / HTTP/1.1', ['Expect: a-miracle']), 417],
  ['a Host of another machine', requestText('GET /livez HTTP/1.1').replace('127.0.0.1', 'evil.example'), 421],
  ['headers that are too large', requestText('GET /livez HTTP/1.1', [`X-Long: ${'a'.repeat(40_000)}`]), 431],
  ['an unknown method', requestText('BREW /livez HTTP/1.1'), 501],
  ['an unknown coding', requestText(WANTS_A_BODY, ['Transfer-Encoding: gzip, chunked']), 501],
  ['an unknown version', requestText('GET /livez HTTP/9.9'), 505],
  ['a path that is not validly encoded', requestText('GET /%zz HTTP/1.1'), 400],
  ['an unknown path', requestText('GET /nothing HTTP/1.1'), 404],
  ['a wrong method', requestText('DELETE /livez HTTP/1.1'), 405],
  ['OPTIONS, as a browser asks before a request', requestText('OPTIONS /api/payment HTTP/1.1'), 405],
  ['CONNECT', requestText('CONNECT example.com:443 HTTP/1.1'), 405],
  ['an upgrade', requestText('GET /livez HTTP/1.1', ['Connection: Upgrade', 'Upgrade: websocket']), 200],
  ['HEAD', requestText('HEAD /livez HTTP/1.1', ['Connection: close']), 200],
];

/** One of each kind that a route gives. */
const ROUTES: readonly [path: string, status: number][] = [
  ['/livez', 200],
  ['/readyz', 200],
  ['/api/health/redis', 200],
  ['/api/health/redis/stats', 200],
  ['/api/health/redis/key/none', 404],
  ['/api/transactions', 200],
  ['/api/transactions/100000000000001', 404],
  ['/api/transactions/abc', 400],
  ['/api/transactions/search', 200],
  ['/api/payments', 200],
  ['/api/payments?limit=0', 400],
  ['/api/payments/none', 404],
  ['/api/payments/export?day=2026-11-20', 200],
  ['/api/session', 200],
  ['/metrics', 200],
  ['/api/live', 200],
  ['/openapi.json', 200],
  ['/docs', 200],
  ['/problems', 200],
  ['/docs/start.js', 200],
  ['/docs/none.js', 404],
  ['/console/', 308],
];

function expectOwn(answer: Answer, status: number): void {
  expect([answer.status, answer.headers.idempay]).toEqual([status, '1']);
}

/**
 * Rule P23. Clients take a refusal for the service's own only with this header, so that the page of a gateway never says what
 * became of a payment. `expectError` and the checks against the description look for it too.
 */
describeOneDeployment('an answer says that it is of the service', (deployment) => {
  let stores: Stores;
  let service: ServiceInProcess;

  beforeAll(async () => {
    stores = await deployment.open();
    service = await serveInProcess(stores.environment, LIMITS);
  });
  afterAll(async () => {
    await service?.stop(50);
    await stores?.close();
  });

  test.each(RAW)('to %s', async (_what, text, status) => {
    expectOwn(await answerTo(service.port, text), status);
  });

  test.each(ROUTES)('to GET and HEAD of %s', async (path, status) => {
    const url = `${service.url}${path}`;
    expectOwn(await ask(url), status);
    expectOwn(await ask(url, { method: 'HEAD' }), status);
    const tag = (await ask(url)).headers.etag;
    if (tag) expectOwn(await ask(url, { headers: { 'If-None-Match': tag } }), 304);
  });

  test('to payments, and to what their bodies and keys are refused for', async () => {
    const key = await generateKey(service.url);
    expectOwn(await paymentStatus(service.url, key), 404);
    for (const status of [200, 200]) expectOwn(await pay(service.url, key), status);
    expectOwn(await paymentStatus(service.url, key), 200);
    expectOwn(await pay(service.url, ''), 400);
    expectOwn(await pay(service.url, 'none'), 400);
    expectOwn(await pay(service.url, await generateKey(service.url), '{'), 400);
    const untyped = { headers: { 'Content-Type': 'text/plain' } };
    expectOwn(await pay(service.url, await generateKey(service.url), undefined, untyped), 415);
  });

  test('while the service starts', async () => {
    const port = await freePort();
    // Its stores are not there, so it goes on to start.
    const away = { REDIS_URL: 'redis://127.0.0.1:1', DATABASE_URL: 'postgres://idempay@127.0.0.1:1/idempay' };
    const { child, ended } = spawnProgram(SERVICE, { ...away, PORT: `${port}` });
    const read = (path: string) => answerTo(port, requestText(`GET ${path} HTTP/1.1`));
    expectOwn(await until('the port to be open', 20_000, () => read('/livez').catch(() => undefined)), 200);
    expectOwn(await read('/readyz'), 503);
    expectOwn(await answerTo(port, requestText(WANTS_A_BODY)), 503);
    child.kill('SIGKILL');
    await ended;
  });
});
