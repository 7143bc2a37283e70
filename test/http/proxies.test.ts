import { describe, expect, test } from 'vitest';
import { ask } from '../../testkit/client/http-client.js';
import { embedded } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';
import type { LogLine } from '../../testkit/processes/service.js';

const PROXY = { AUTH: 'none', LOG_LEVEL: 'debug' };
let requests = 0;

/** The address from which the service says that a request with this header came. */
async function loggedAddress(shared: { url: string; service: { logs: LogLine[] } }, forwardedFor: string | string[]) {
  requests += 1;
  const requestId = `proxies-${requests}`;
  const headers = { 'X-Forwarded-For': forwardedFor, 'X-Forwarded-Host': 'evil.example', 'X-Request-Id': requestId };
  await ask(`${shared.url}/livez`, { headers });
  await expect.poll(() => shared.service.logs.some((line) => line.requestId === requestId)).toBe(true);
  return shared.service.logs.find((line) => line.requestId === requestId)?.address;
}

describe('with TRUST_PROXY', () => {
  const trusting = shareService(embedded, { ...PROXY, TRUST_PROXY: '127.0.0.0/8, 10.1.0.0/16,fd00::1' });

  /**
   * Bug: each port in X-Forwarded-For (`6.6.6.6:1001`) was a client of its own for RATE_LIMIT_PER_MINUTE, and so was each text that is no address.
   * Cause: an entry that is no address counted as the client's address as it was.
   * Fix: ports are left out, and a text that is no address counts as the proxy that named it.
   */
  test.each([
    ['203.0.113.7', '203.0.113.7'],
    ['2001:db8::7', '2001:db8::7'],
    ['198.51.100.1, 203.0.113.7', '203.0.113.7'],
    ['203.0.113.7, 10.1.2.3', '203.0.113.7'],
    ['203.0.113.7, fd00::1', '203.0.113.7'],
    ['203.0.113.7, 10.2.0.1', '10.2.0.1'],
    ['', '127.0.0.1'],
    ['203.0.113.7:1001', '203.0.113.7'],
    ['[2001:db8::7]:1001', '2001:db8::7'],
    ['[2001:db8::7]', '2001:db8::7'],
    ['203.0.113.7, 10.1.2.3:4431', '203.0.113.7'],
    ['2001:db8::7%a', '2001:db8::7'],
    ['unknown', '127.0.0.1'],
    ['203.0.113.7, _hidden', '127.0.0.1'],
    ['203.0.113.7, 6.6.6.6:x', '127.0.0.1'],
    ['203.0.113.7, , 10.1.2.3, ', '203.0.113.7'],
    ['_hidden, 10.1.2.3', '10.1.2.3'],
    ['10.1.2.3, ::ffff:10.1.2.4', '10.1.2.3'],
  ])(
    'a request with X-Forwarded-For %j came from %s: the last address that is no trusted proxy',
    async (header, from) => {
      expect(await loggedAddress(trusting, header)).toBe(from);
    },
  );
});

describe('a connection that is no trusted proxy', () => {
  const elsewhere = shareService(embedded, { ...PROXY, TRUST_PROXY: '10.0.0.0/8' });
  const without = shareService(embedded, PROXY);

  test('cannot say that it asks for others', async () => {
    expect(await loggedAddress(elsewhere, '203.0.113.7')).toBe('127.0.0.1');
    expect(await loggedAddress(without, ['203.0.113.7', '127.0.0.1'])).toBe('127.0.0.1');
  });
});
