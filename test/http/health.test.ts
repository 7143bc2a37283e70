import { describe, expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { type Answer, ask, generateKey, pay, transactionIdOf } from '../../testkit/client/http-client.js';
import { givenTransaction, readTransaction } from '../../testkit/client/transactions.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';
import { until } from '../../testkit/time/until.js';

const IDEMPOTENCY_TTL_SECONDS = 600;

interface Stats {
  totalKeys: number;
  usedMemoryBytes: number;
  hits: number;
  misses: number;
  expiredKeys: number;
  evictedKeys: number;
  connectedClients: number;
  uptimeSeconds: number;
  version: string;
}

/** A key as it stands in a path, and the key that it means. */
const ABSENT_KEYS: readonly [path: string, key: string][] = [
  ['absent', 'absent'],
  ['3f0c9f0e-5b7a-4c1d-9e2f-8a6b4c2d1e0f', '3f0c9f0e-5b7a-4c1d-9e2f-8a6b4c2d1e0f'],
  ['transactionCache::1', 'transactionCache::1'],
  ['transactionCache::', 'transactionCache::'],
  ['a%2Fb', 'a/b'],
  ['%2F..%2F..%2Fetc', '/../../etc'],
  ['a%20b%22c%27', `a b"c'`],
  ['caf%C3%A9%F0%9F%98%80', 'caf\u00e9\u{1f600}'],
  ['a%0Ab%00', 'a\nb\0'],
  ['100%25', '100%'],
  ['*', '*'],
  ['%7Babc%7D', '{abc}'],
  ['a+b&c=d;e:f@g', 'a+b&c=d;e:f@g'],
  ['__proto__', '__proto__'],
  ['constructor', 'constructor'],
  ['k'.repeat(101), 'k'.repeat(101)],
  ['k'.repeat(5000), 'k'.repeat(5000)],
];

describeDeployments('the health of the key-value store', (deployment) => {
  const shared = shareService(deployment, { IDEMPOTENCY_TTL_SECONDS: String(IDEMPOTENCY_TTL_SECONDS) });

  it('is UP, with the kind of store, a sentence and the time it took', async () => {
    const started = performance.now();
    const answer = await ask(`${shared.url}/api/health/redis`);
    const elapsed = performance.now() - started;

    expect(answer.status).toBe(200);
    expect(answer.headers['content-type']).toMatch(/^application\/json\b/);
    expect(answer.headers['x-request-id']).toMatch(/\S/);
    expect(elapsed).toBeLessThan(1000);
    const health = answer.json<Record<string, unknown>>();
    expect(health).toEqual({
      status: 'UP',
      store: expect.stringMatching(/^(redis|embedded)$/),
      message: expect.stringMatching(/\S/),
      latencyMs: expect.any(Number),
    });
    expect(health.latencyMs).toBeGreaterThanOrEqual(0);
    expect(health.latencyMs).toBeLessThan(elapsed);
  });

  describe('of one key', () => {
    it('shows the value of an issued key and how long it lives', async () => {
      const key = await generateKey(shared.url);
      const answer = await readKey(key);

      expect(answer.status).toBe(200);
      expect(answer.headers['content-type']).toMatch(/^application\/json\b/);
      const held = answer.json<{ ttlSeconds: number }>();
      expect(held).toEqual({ key, value: 'KEY GENERATED', ttlSeconds: expect.any(Number) });
      expectLifetime(held.ttlSeconds);
    });

    it('shows the transaction id once the key has paid, and a life that began anew', async () => {
      const key = await generateKey(shared.url);
      const payment = await pay(shared.url, key);
      const held = (await readKey(key)).json<{ ttlSeconds: number }>();

      expect(held).toEqual({ key, value: transactionIdOf(payment), ttlSeconds: expect.any(Number) });
      expectLifetime(held.ttlSeconds);
    });

    it.each(ABSENT_KEYS)('that is absent says so: %s', async (path, key) => {
      expectError(await readKey(path), 404, `Key '${key}' not found.`);
    });

    it('finds a key also when its characters are percent-encoded', async () => {
      const key = await generateKey(shared.url);
      expect((await readKey(key.replaceAll('-', '%2D'))).json()).toMatchObject({ key, value: 'KEY GENERATED' });
    });

    it('tells nothing of a key that only resembles an issued one', async () => {
      const key = await generateKey(shared.url);
      for (const other of [`${key}0`, key.slice(0, -1), `${key}%20`, `%20${key}`, `${key}%00`, `{${key}}`]) {
        expectError(await readKey(other), 404);
      }
    });

    it('needs a key', async () => {
      expectError(await readKey(''), 404);
    });
  });

  describe('in numbers', () => {
    it('has every number, and the version of the store', async () => {
      const answer = await ask(`${shared.url}/api/health/redis/stats`);
      expect(answer.status).toBe(200);
      expect(answer.headers['content-type']).toMatch(/^application\/json\b/);

      const { version, uptimeSeconds, ...counts } = await stats();
      expect(version).toMatch(/\d/);
      expect(uptimeSeconds).toBeGreaterThanOrEqual(0);
      const names = [
        'totalKeys',
        'usedMemoryBytes',
        'hits',
        'misses',
        'expiredKeys',
        'evictedKeys',
        'connectedClients',
      ];
      for (const name of names) {
        const count = (counts as Record<string, number>)[name];
        expect(Number.isSafeInteger(count), `${name}: ${count}`).toBe(true);
        expect(count, name).toBeGreaterThanOrEqual(0);
      }
      expect(counts.usedMemoryBytes).toBeGreaterThan(0);
    });

    it('counts every generated key', async () => {
      const before = await stats();
      await Promise.all(Array.from({ length: 25 }, () => generateKey(shared.url)));
      expect((await stats()).totalKeys).toBe(before.totalKeys + 25);
    });

    it('counts what the cache was asked for in vain, and what it had', async () => {
      const { transactionId } = await givenTransaction(shared.url);
      const atFirst = await stats();
      await readTransaction(shared.url, transactionId);
      const missed = await stats();
      expect(missed.misses).toBeGreaterThan(atFirst.misses);

      for (let n = 0; n < 5; n++) await readTransaction(shared.url, transactionId);
      const hit = await stats();
      expect(hit.hits).toBeGreaterThanOrEqual(missed.hits + 5);
      expect(hit.misses).toBe(missed.misses);
    });

    it('counts the seconds of the store', async () => {
      const before = await stats();
      await until('a greater uptime', 10_000, async () => (await stats()).uptimeSeconds > before.uptimeSeconds);
    });
  });

  function readKey(path: string): Promise<Answer> {
    return ask(`${shared.url}/api/health/redis/key/${path}`);
  }

  async function stats(): Promise<Stats> {
    return (await ask(`${shared.url}/api/health/redis/stats`)).json<Stats>();
  }

  function expectLifetime(ttlSeconds: number): void {
    expect(Number.isInteger(ttlSeconds), `${ttlSeconds} seconds`).toBe(true);
    expect(ttlSeconds).toBeLessThanOrEqual(IDEMPOTENCY_TTL_SECONDS);
    // Issued a moment ago: a machine on which that moment takes a minute would fail long before.
    expect(ttlSeconds).toBeGreaterThan(IDEMPOTENCY_TTL_SECONDS - 60);
  }
});

describeDeployments('keys that expire', (deployment) => {
  const shared = shareService(deployment, { IDEMPOTENCY_TTL_SECONDS: '1' });

  it('are absent after that, and counted as expired', async () => {
    const expired = async () => (await ask(`${shared.url}/api/health/redis/stats`)).json<Stats>().expiredKeys;
    const before = await expired();
    const key = await generateKey(shared.url);
    const read = () => ask(`${shared.url}/api/health/redis/key/${key}`);

    await until('the key is absent', 10_000, async () => (await read()).status === 404);
    expectError(await read(), 404, `Key '${key}' not found.`);
    await until('the expired key is counted', 20_000, async () => (await expired()) > before);
  });
});
