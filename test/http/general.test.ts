import { expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { type Answer, ask } from '../../testkit/client/http-client.js';
import { UNKNOWN_KEY } from '../../testkit/client/payment-answers.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';

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

/**
 * Bug (paths that end in a slash): they were refused for their transaction id. Cause: the router finds the id's route with
 * an empty id. Fix: an empty id names nothing.
 */
const UNKNOWN_ROUTES = [
  ...['/', '/api', '/api/nothing', '/api/transactionsX', '/api/transactions/1/nothing', '//api/payment'],
  ...['/api/payment/1', '/API/TRANSACTIONS', '/api/Payments', '/api/health/redis/nothing'],
  ...[`/api/payments/${UNKNOWN_KEY}/`, `/api/payments/${UNKNOWN_KEY}/resolution/1`],
];

describeDeployments('the service as a whole', (deployment) => {
  const shared = shareService(deployment);
  const path = (of: string, options = {}): Promise<Answer> => ask(`${shared.url}${of}`, options);

  it.each(UNKNOWN_ROUTES)('answers 404 to every method on an unknown route: %s', async (unknown) => {
    for (const method of ['GET', 'POST', 'PUT', 'DELETE']) expectError(await path(unknown, { method }), 404);
    const head = await path(unknown, { method: 'HEAD' });
    expect([head.status, head.text]).toEqual([404, '']);
  });

  it.each([
    ['GET', '/api/payments/'],
    ['GET', '/api/transactions/?from=A'],
    ['DELETE', '/api/transactions/'],
    ['PUT', '/api/transactions//status?newStatus=FLAGGED'],
  ])('answers 404 to a payment or transaction without an id: %s %s', async (method, unknown) => {
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

  async function requestId(headers: Record<string, string | string[]>): Promise<string> {
    const id = (await path('/api/health/redis', { headers })).headers['x-request-id'];
    expect(id).toMatch(/^[A-Za-z0-9._~:+/=-]{1,200}$/);
    return id as string;
  }

  it.each(['a', UNKNOWN_KEY, 'Job_7.step-2'])(
    'keeps the X-Request-Id of the client when it is sane: %s',
    async (sent) => {
      expect(await requestId({ 'X-Request-Id': sent })).toBe(sent);
    },
  );

  it.each([[''], ['x'.repeat(1000)], ['two words'], ['<script>'], ['caf\u00e9'], [['one', 'two']]])(
    'gives a new X-Request-Id in place of %j',
    async (sent) => {
      expect([sent].flat()).not.toContain(await requestId({ 'X-Request-Id': sent }));
    },
  );

  it('gives each request an X-Request-Id of its own where the client sends none', async () => {
    const ids = await Promise.all(Array.from({ length: 50 }, () => requestId({})));
    expect(new Set(ids).size).toBe(50);
  });

  it.each(['GET /nothing', 'GET /api/payment', 'POST /api/payment', 'DELETE /api/transactions/1', 'GET /%'])(
    'has the X-Request-Id of the client on errors too: %s',
    async (request) => {
      const [method, route = ''] = request.split(' ');
      const answer = await path(route, { method, headers: { 'X-Request-Id': 'find-me' } });
      expect(answer.status).toBeGreaterThanOrEqual(400);
      expect(answer.headers['x-request-id']).toBe('find-me');
    },
  );
});
