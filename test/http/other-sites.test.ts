import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { credentialOf, keyFileOf } from '../../testkit/client/credentials.js';
import { expectError } from '../../testkit/client/error-body.js';
import { ask } from '../../testkit/client/http-client.js';
import { embedded } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';

const MESSAGE =
  'Without AUTH a page of another site may not ask this service. Ask from a program, from a page of the same origin, or set AUTH.';
const IMAGE = { 'Sec-Fetch-Site': 'cross-site', 'Sec-Fetch-Mode': 'no-cors', 'Sec-Fetch-Dest': 'image' };
const LINK = { 'Sec-Fetch-Site': 'cross-site', 'Sec-Fetch-Mode': 'navigate', 'Sec-Fetch-Dest': 'document' };
const NEW_KEY = '/api/server-generated/generate-key';

/**
 * Bug: an image on a page of any site issued keys on a loopback service, one with each view.
 * Cause: the browser names this machine in Host, so nothing told the request from one of the machine's own programs.
 * Fix: what a browser marks as another site's is refused (rule A8).
 */
describe.each([
  ['unset', {}],
  ['none', { AUTH: 'none' }],
])('with AUTH %s', (_auth, environment) => {
  const shared = shareService(embedded, environment);
  const keys = async () => (await ask(`${shared.url}/api/health/redis/stats`)).json<{ totalKeys: number }>().totalKeys;
  const statusOf = async (path: string, headers: Record<string, string>, method = 'GET') =>
    (await ask(`${shared.url}${path}`, { method, headers })).status;

  test('a page of another site issues no key, pays nothing and reads nothing', async () => {
    const before = await keys();
    for (const headers of [IMAGE, LINK, { 'Sec-Fetch-Site': 'cross-site' }]) {
      for (const path of [NEW_KEY, '/api/payments', '/livez', '/openapi.json', '/nothing']) {
        expectError(await ask(`${shared.url}${path}`, { headers }), 403, MESSAGE);
      }
    }
    for (const path of ['/api/payment', '/api/transactions', '/docs']) {
      expectError(await ask(`${shared.url}${path}`, { method: 'POST', headers: LINK, body: '{' }), 403, MESSAGE);
    }
    expectError(await ask(`${shared.url}/docs`, { headers: IMAGE }), 403, MESSAGE);
    expect(await keys()).toBe(before);
  });

  test('a link of another site leads to a page of the service', async () => {
    for (const path of ['/console', '/docs']) expect(await statusOf(path, LINK)).toBe(200);
    expect(await statusOf('/console/', LINK)).toBe(308);
  });

  /**
   * Bug: a form on another page of the machine, or on any page in a browser without `Sec-Fetch-Site`, closed an order.
   * Cause: only the value `cross-site` was refused, and `Origin` was not read.
   * Fix: `Sec-Fetch-Site` decides alone, and if it is absent, the host of `Origin` must be the host that is asked.
   */
  test('a page of another origin closes no order, whether its browser sends Sec-Fetch-Site or not', async () => {
    const close = (reference: string, headers: Record<string, string>) =>
      ask(`${shared.url}/api/payment-cancellation?reference=${reference}`, { method: 'POST', headers });
    const { host, port } = new URL(shared.url);
    const foreign: Record<string, string>[] = [
      { 'Sec-Fetch-Site': 'same-site' },
      { 'Sec-Fetch-Site': 'cross-site', Origin: `http://${host}` },
      ...[
        'null',
        '',
        'https://shop.example',
        'http://127.0.0.1',
        `http://127.0.0.1:${Number(port) + 1}`,
        'about:blank',
      ].map((Origin) => ({ Origin })),
      { Origin: `http://${host}, http://${host}` },
    ];
    for (const headers of foreign) expectError(await close('order-7', headers), 403, MESSAGE);
    const own: Record<string, string>[] = [
      { Origin: `http://${host}` },
      { Origin: `https://${host}` },
      { Origin: 'null', 'Sec-Fetch-Site': 'same-origin' },
      { Origin: 'https://shop.example', 'Sec-Fetch-Site': 'none' },
      {},
    ];
    for (const headers of own) expect((await close('order-7', headers)).status).toBe(200);
    expect((await close('order-8', { Origin: 'http://LOCALHOST', Host: 'localhost:80' })).status).toBe(200);
  });

  test.each(['same-origin', 'none'])('a request that a browser marks as %s is served', async (site) => {
    expect(await statusOf(NEW_KEY, { 'Sec-Fetch-Site': site, 'Sec-Fetch-Mode': 'cors' })).toBe(200);
  });
});

test('with AUTH=required the credential decides, whatever site the request comes from', async () => {
  const shop = credentialOf('shop', ['payments:write']);
  const folder = await mkdtemp(join(tmpdir(), 'idempay-sites-'));
  const stores = await embedded.open();
  onTestFinished(async () => {
    await stores.close();
    await rm(folder, { recursive: true });
  });
  const file = join(folder, 'keys.json');
  await writeFile(file, keyFileOf(shop));
  const { url } = await stores.serve({ AUTH: 'required', API_KEYS_FILE: file });
  expect((await ask(`${url}${NEW_KEY}`, { headers: { ...IMAGE, ...shop.headers } })).status).toBe(200);
  expect((await ask(`${url}${NEW_KEY}`, { headers: IMAGE })).status).toBe(401);
});
