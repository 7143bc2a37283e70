import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Answer, ask, generateKey, pay } from '../../testkit/client/http-client.js';
import { answerTo, requestText } from '../../testkit/client/raw-http.js';
import { describeOneDeployment, embedded, type Stores } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';
import { spawnProgram } from '../../testkit/processes/service.js';
import { SERVICE } from '../../testkit/programs.js';
import { makeCertificates } from '../../testkit/servers/certificates.js';
import { freePort } from '../../testkit/servers/server-process.js';
import { until } from '../../testkit/time/until.js';

const ONE_YEAR = 'max-age=31536000';

function expectSecurityHeaders({ headers }: Answer, transportSecurity?: string): void {
  expect(headers['x-content-type-options']).toBe('nosniff');
  expect(headers['content-security-policy']).toBe("default-src 'none'; frame-ancestors 'none'");
  expect(headers['strict-transport-security']).toBe(transportSecurity);
  expect(Object.keys(headers).filter((name) => name.startsWith('access-control-'))).toEqual([]);
}

/** Each answer is made in another place of the code. */
const WITHOUT_ROUTE: readonly [what: string, text: string, status: number][] = [
  ['a whole request', requestText('GET /livez HTTP/1.1'), 200],
  ['an unknown path', requestText('GET /nothing HTTP/1.1'), 404],
  ['a wrong method', requestText('DELETE /livez HTTP/1.1'), 405],
  ['a path that is not validly encoded', requestText('GET /%zz HTTP/1.1'), 400],
  ['an unknown expectation', requestText('GET / HTTP/1.1', ['Expect: a-miracle']), 417],
  ['CONNECT', requestText('CONNECT example.com:443 HTTP/1.1'), 405],
  ['noise', 'NOISE\r\n\r\n', 400],
];

describeOneDeployment('every answer has the security headers', (deployment) => {
  const shared = shareService(deployment);

  test.each(WITHOUT_ROUTE)('to %s', async (_what, text, status) => {
    const answer = await answerTo(shared.service.port, text);
    expect(answer.status).toBe(status);
    expectSecurityHeaders(answer);
  });

  test('of the features, also where it has no body or is streamed', async () => {
    const key = await generateKey(shared.url);
    const answers = [await pay(shared.url, key), await pay(shared.url, key), await pay(shared.url, key, 'x')];
    const list = await ask(`${shared.url}/api/transactions`);
    const headers = { 'If-None-Match': String(list.headers.etag) };
    answers.push(list, await ask(`${shared.url}/api/transactions`, { headers }));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 400, 200, 304]);
    for (const answer of answers) expectSecurityHeaders(answer);
  });
});

describe('a page of another origin', () => {
  const shared = shareService(embedded);
  const Origin = 'https://shop.example';

  test('is allowed nothing: no answer to a preflight, and no header that lets it read', async () => {
    const headers = {
      Origin,
      'Access-Control-Request-Method': 'POST',
      'Access-Control-Request-Headers': 'content-type',
    };
    const preflight = await ask(`${shared.url}/api/payment`, { method: 'OPTIONS', headers });
    expect(preflight.status).toBe(403);
    expectSecurityHeaders(preflight);
    expectSecurityHeaders(await ask(`${shared.url}/livez`, { headers: { Origin } }));
  });
});

describe('over TLS', () => {
  let certificates: Awaited<ReturnType<typeof makeCertificates>>;
  let authority: Buffer;
  let files: Record<string, string>;
  let stores: Stores;

  beforeAll(async () => {
    [certificates, stores] = await Promise.all([makeCertificates(), embedded.open()]);
    authority = await readFile(certificates.authority);
    files = { TLS_CERT_FILE: certificates.certificate, TLS_KEY_FILE: certificates.key };
  });
  afterAll(async () => {
    await stores?.close();
    await certificates?.remove();
  });

  test('every answer asks for TLS from now on', async () => {
    const { port } = await stores.serve(files);
    for (const [, text, status] of WITHOUT_ROUTE) {
      const answer = await answerTo(port, text, authority);
      expect(answer.status).toBe(status);
      expectSecurityHeaders(answer, ONE_YEAR);
    }
  });

  test('so do those of a start', async () => {
    const port = await freePort();
    // Its stores are not there, so it goes on to start.
    const away = { REDIS_URL: 'redis://127.0.0.1:1', DATABASE_URL: 'postgres://idempay@127.0.0.1:1/idempay' };
    const { child, ended } = spawnProgram(SERVICE, { ...away, ...files, PORT: `${port}` });
    const read = (path: string) => answerTo(port, requestText(`GET ${path} HTTP/1.1`), authority);
    const alive = await until('the port to be open', 20_000, () => read('/livez').catch(() => undefined));
    expectSecurityHeaders(alive, ONE_YEAR);
    const refused = await read('/api/transactions');
    expect(refused.status).toBe(503);
    expectSecurityHeaders(refused, ONE_YEAR);
    child.kill('SIGKILL');
    await ended;
  });
});
