import { describe, expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { type Answer, ask } from '../../testkit/client/http-client.js';
import { UNKNOWN_KEY } from '../../testkit/client/payment-answers.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';

/** Every path, and the methods that it must serve. Others it may serve, as long as `Allow` names them. */
const ROUTES: readonly [path: string, methods: readonly string[], notServed: readonly string[]][] = [
  ['/api/server-generated/generate-key', ['GET'], ['HEAD', 'POST']],
  ['/api/payment', ['POST'], ['GET', 'HEAD']],
  ['/api/payment-status', ['GET'], ['POST']],
  ['/api/health/redis', ['GET'], ['POST']],
  ['/api/health/redis/key/some-key', ['GET'], ['POST', 'DELETE']],
  ['/api/health/redis/stats', ['GET'], ['POST']],
  ['/api/transactions', ['GET', 'HEAD', 'POST'], ['PUT', 'DELETE']],
  ['/api/transactions/100000000000001', ['GET', 'HEAD', 'DELETE'], ['POST', 'PUT']],
  ['/api/transactions/100000000000001/status', ['PUT'], ['GET', 'HEAD', 'POST', 'DELETE']],
  ['/api/payments', ['GET', 'HEAD'], ['POST', 'PUT', 'DELETE']],
  ['/api/payments/export', ['GET', 'HEAD'], ['POST', 'PUT', 'DELETE']],
  [`/api/payments/${UNKNOWN_KEY}`, ['GET', 'HEAD'], ['POST', 'PUT', 'DELETE']],
  [`/api/payments/${UNKNOWN_KEY}/resolution`, ['POST'], ['GET', 'HEAD', 'PUT', 'DELETE']],
];

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'];

describeDeployments('the service as a whole', (deployment) => {
  const shared = shareService(deployment);
  const path = (of: string, options = {}): Promise<Answer> => ask(`${shared.url}${of}`, options);

  describe('an unknown route', () => {
    it.each([
      ...['/', '/api', '/api/', '/api/nothing', '/api/transactionsX', '/api/transactions/1/nothing', '//api/payment'],
      ...['/api/transactions/1/status/more', '/api/payment/1', '/API/TRANSACTIONS', '/favicon.ico', '/api/Payments'],
      ...['/api/health/redis/nothing', `/api/payments/${UNKNOWN_KEY}/resolution/1`],
    ])('is 404 for every method: %s', async (unknown) => {
      for (const method of METHODS.filter((name) => name !== 'HEAD')) {
        expectError(await path(unknown, { method }), 404);
      }
      const head = await path(unknown, { method: 'HEAD' });
      expect(head.status).toBe(404);
      expect(head.text).toBe('');
    });
  });

  /**
   * Bug: a path that ends in a slash was refused for its transaction id. Cause: the router finds the id's route with an
   * empty id. Fix: an empty id names nothing.
   */
  it.each([
    ['GET', '/api/payments/'],
    ['GET', `/api/payments/${UNKNOWN_KEY}/`],
    ['POST', `/api/payments/${UNKNOWN_KEY}/resolutions`],
    ['GET', '/api/transactions/'],
    ['GET', '/api/transactions/?from=A'],
    ['DELETE', '/api/transactions/'],
    ['PUT', '/api/transactions//status?newStatus=FLAGGED'],
  ])('answers 404 to a path that only resembles a route: %s %s', async (method, unknown) => {
    expectError(await path(unknown, { method }), 404);
  });

  describe('a method that a path does not serve', () => {
    it.each(ROUTES)('is 405 on %s, with the methods that it serves in Allow', async (route, served, notServed) => {
      const allowed = allowedBy(await path(route, { method: 'PATCH' }));
      expect(allowed).toEqual(expect.arrayContaining([...served]));

      for (const method of METHODS) {
        const answer = await path(route, { method });
        if (allowed.includes(method)) {
          expect(answer.status, `${method} is in Allow`).not.toBe(405);
          continue;
        }
        expect(answer.status, `${method} is not in Allow`).toBe(405);
        expect(allowedBy(answer)).toEqual(allowed);
        if (method !== 'HEAD') expectError(answer, 405);
      }
      for (const method of notServed) expect(allowed).not.toContain(method);
    });

    it('is 405 before anything else of the request is looked at', async () => {
      const headers = { 'Content-Type': 'text/plain' };
      expectError(await path('/api/payment', { method: 'PUT', headers, body: '{' }), 405);
      expectError(await path('/api/transactions', { method: 'PUT', headers, body: 'x'.repeat(10_000) }), 405);
      expectError(await path('/api/transactions/abc', { method: 'PATCH' }), 405);
    });

    it.each(['OPTIONS', 'TRACE', 'PROPFIND'])('has the error body also when it is %s', async (method) => {
      for (const [route] of ROUTES) {
        const answer = await path(route, { method });
        expect([404, 405, 501]).toContain(answer.status);
        expectError(answer, answer.status);
        if (answer.status === 405) expect(allowedBy(answer)).not.toContain(method);
      }
    });
  });

  describe('a path with bad percent-encoding', () => {
    it.each([
      ...['/api/health/redis/key/%', '/api/health/redis/key/%zz', '/api/health/redis/key/%ff', '/%'],
      ...['/api/health/redis/key/%ED%A0%80', '/api/transactions/%E0%A4%A', '/api/payments/%zz'],
    ])('is 400: %s', async (bad) => {
      expectError(await path(bad), 400);
    });
  });

  describe('X-Request-Id', () => {
    const idFor = async (headers: Record<string, string | string[]>): Promise<string> => {
      const id = (await path('/api/health/redis', { headers })).headers['x-request-id'];
      expect(id).toMatch(/^[\x21-\x7e]{1,200}$/);
      return id as string;
    };

    it('is what the client sent, when that is sane', async () => {
      for (const sent of ['a', 'abc-123', '3f0c9f0e-5b7a-4c1d-9e2f-8a6b4c2d1e0f', 'Job_7.step-2']) {
        expect(await idFor({ 'X-Request-Id': sent })).toBe(sent);
      }
    });

    it('is a new one when it is empty, too long, of other characters, or sent twice', async () => {
      const odd = [
        '',
        'x'.repeat(1000),
        'two words',
        'two\twords',
        '"quoted"',
        '<script>',
        'caf\u00e9',
        ['one', 'two'],
      ];
      for (const sent of odd) {
        const id = await idFor({ 'X-Request-Id': sent });
        expect([sent].flat()).not.toContain(id);
        expect(id).not.toMatch(/["'<>, ]/);
      }
    });

    it('is another one for each request that brings none', async () => {
      const ids = await Promise.all(Array.from({ length: 50 }, () => idFor({})));
      expect(new Set(ids).size).toBe(50);
    });

    it('is on errors too, and the client can name it', async () => {
      const headers = { 'X-Request-Id': 'find-me' };
      const refused = ['GET /nothing', 'GET /api/payment', 'POST /api/payment', 'DELETE /api/transactions/1', 'GET /%'];
      for (const [method, route = ''] of refused.map((request) => request.split(' '))) {
        const answer = await path(route, { method, headers });
        expect(answer.status).toBeGreaterThanOrEqual(400);
        expect(answer.headers['x-request-id']).toBe('find-me');
      }
    });
  });
});

function allowedBy(answer: Answer): string[] {
  expect(answer.status).toBe(405);
  return (answer.headers.allow ?? '')
    .split(',')
    .map((method) => method.trim())
    .sort();
}
