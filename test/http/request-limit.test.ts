import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { credentialOf, keyFileOf } from '../../testkit/client/credentials.js';
import { expectError } from '../../testkit/client/error-body.js';
import { type Answer, ask, generateKey, pay } from '../../testkit/client/http-client.js';
import { expectUnspent } from '../../testkit/client/payment-answers.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { openTestStores } from '../../testkit/deployments/distributed-stores.js';
import { until } from '../../testkit/time/until.js';

const DEADLINE_MS = 10_000;
/** The rights that docs/operations/deployment.md asks for. */
const RIGHTS =
  '~idempay:* &idempay:* -@all +@hash +@keyspace +@scripting +info +time +ping +dbsize +subscribe +publish +xadd +xtrim +xread'.split(
    ' ',
  );
const NEVER_LIMITED = ['/livez', '/readyz', '/api/health/redis'];

function expectLimited(answer: Answer, perMinute: number): void {
  expectError(
    answer,
    429,
    `At most ${perMinute} requests a minute are served to one client, and nothing was begun for this one. Retry it after Retry-After seconds.`,
  );
  const { 'retry-after': after, 'ratelimit-reset': reset, 'ratelimit-remaining': remaining } = answer.headers;
  expect(remaining).toBe('0');
  expect(after).toBe(reset);
  expect(Number(after)).toBeGreaterThanOrEqual(1);
  expect(Number(after)).toBeLessThanOrEqual(60);
}

describeDeployments('with RATE_LIMIT_PER_MINUTE', (deployment) => {
  test('an address gets so many answers a minute; a payment beyond that locks and spends nothing', async () => {
    const stores = await deployment.open();
    onTestFinished(() => stores.close());
    const limited = await stores.serve({ RATE_LIMIT_PER_MINUTE: '3' });
    const key = await generateKey(limited.url);
    for (const remaining of ['1', '0']) {
      const { status, headers } = await ask(`${limited.url}/api/transactions`);
      expect(status).toBe(200);
      expect(headers).toMatchObject({ 'ratelimit-limit': '3', 'ratelimit-remaining': remaining });
    }
    expectLimited(await pay(limited.url, key), 3);
    for (const path of NEVER_LIMITED) {
      const { status, headers } = await ask(`${limited.url}${path}`);
      expect(status).toBe(200);
      expect(headers).not.toHaveProperty('ratelimit-limit');
    }
    await limited.stop();
    await expectUnspent((await stores.serve()).url, key);
  });

  test('a client has its own, with all of its API keys; there is none by default', async () => {
    const stores = await deployment.open();
    const folder = await mkdtemp(join(tmpdir(), 'idempay-limit-'));
    onTestFinished(async () => {
      await stores.close();
      await rm(folder, { recursive: true });
    });
    const [shop, renewed, rival] = ['shop', 'shop', 'rival'].map((name) => credentialOf(name, ['transactions:read']));
    if (!shop || !renewed || !rival) throw new Error('unreachable');
    const scraper = credentialOf('scraper', ['metrics']);
    const file = join(folder, 'keys.json');
    await writeFile(file, keyFileOf(shop, renewed, rival, scraper));
    const access = { AUTH: 'required', API_KEYS_FILE: file };
    const limited = await stores.serve({ ...access, RATE_LIMIT_PER_MINUTE: '2' });
    const list = (url: string, { headers }: typeof shop) => ask(`${url}/api/transactions`, { headers });
    expect((await list(limited.url, shop)).status).toBe(200);
    expect((await list(limited.url, renewed)).status).toBe(200);
    expectLimited(await list(limited.url, shop), 2);
    expect((await list(limited.url, rival)).headers).toMatchObject({ 'ratelimit-remaining': '1' });
    // A request without the scope of its route counts too.
    for (const remaining of ['1', '0']) {
      const refused = await list(limited.url, scraper);
      expectError(refused, 403);
      expect(refused.headers).toMatchObject({ 'ratelimit-remaining': remaining });
    }
    expectLimited(await list(limited.url, scraper), 2);
    // A request without credentials counts for no client.
    expectError(await ask(`${limited.url}/api/transactions`), 401);
    await limited.stop();
    const unlimited = await stores.serve(access);
    expect((await list(unlimited.url, shop)).headers).not.toHaveProperty('ratelimit-limit');
  });
});

describe('on Redis', () => {
  test('the processes share the count, under the names of the deployment, and for a minute', async () => {
    const stores = await openTestStores();
    const [one, other] = await Promise.all([1, 2].map(() => stores.serve({ RATE_LIMIT_PER_MINUTE: '1000' })));
    if (!one || !other) throw new Error('unreachable');
    for (let sent = 0; sent < 50; sent += 1) await ask(`${one.url}/api/transactions`);
    await until('the count of the other process', DEADLINE_MS, async () => {
      const { headers } = await ask(`${other.url}/api/transactions`);
      return Number(headers['ratelimit-remaining']) < 950;
    });
    const name = (await stores.keyNames()).requests('address:127.0.0.1');
    expect(await stores.redis.client.keys('*')).toEqual(expect.arrayContaining([name]));
    for (const each of await stores.redis.client.keys('*')) expect(each).toMatch(/^idempay:/);
    expect(await stores.redis.client.pttl(name)).toBeGreaterThan(0);
    expect(await stores.redis.client.pttl(name)).toBeLessThanOrEqual(60_000);
  });

  test('that is down each process counts for itself', async () => {
    const stores = await openTestStores();
    const service = await stores.serve({ RATE_LIMIT_PER_MINUTE: '20' });
    await stores.redis.kill();
    const answers: Answer[] = [];
    for (let sent = 0; sent < 22; sent += 1) answers.push(await ask(`${service.url}/api/transactions`));
    expect(answers.map(({ status }) => status)).toEqual([...Array(20).fill(200), 429, 429]);
  });

  test('the counts need no more rights than docs/operations/deployment.md asks for', async () => {
    const stores = await openTestStores();
    await stores.redis.client.call('ACL', 'SETUSER', 'limited', 'reset', 'on', '>secret', 'resetchannels', ...RIGHTS);
    const REDIS_URL = stores.redis.url.replace('://', '://limited:secret@');
    const { url } = await stores.serve({ RATE_LIMIT_PER_MINUTE: '1000', REDIS_URL });
    await generateKey(url);
    const names = await stores.keyNames();
    const count = names.requests('address:127.0.0.1');
    await until('a report', DEADLINE_MS, async () => (await stores.redis.client.exists(count)) === 1);
    for (const each of await stores.redis.client.keys('*')) expect(each).toMatch(/^idempay:/);
  });
});
