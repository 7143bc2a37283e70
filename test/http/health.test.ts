import { describe, expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { type Answer, ask, generateKey } from '../../testkit/client/http-client.js';
import { givenPaid, keyRecord } from '../../testkit/client/payment-answers.js';
import { givenTransaction, readTransaction } from '../../testkit/client/transactions.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';
import { until } from '../../testkit/time/until.js';

const TTL_SECONDS = 600;
const COUNTS = [
  ...['totalKeys', 'usedMemoryBytes', 'hits', 'misses', 'expiredKeys', 'evictedKeys', 'connectedClients'],
  'uptimeSeconds',
] as const;
type Stats = Record<(typeof COUNTS)[number], number> & { version: string };

/** A key as it stands in a path, and the key that it means where that is another text. */
const ABSENT_KEYS: readonly [path: string, key?: string][] = [
  ['absent'],
  ['3f0c9f0e-5b7a-4c1d-9e2f-8a6b4c2d1e0f'],
  ['transactionCache::1'],
  ['transactionCache::'],
  ['a%2Fb', 'a/b'],
  ['%2F..%2F..%2Fetc', '/../../etc'],
  ['a%20b%22c%27', `a b"c'`],
  ['caf%C3%A9%F0%9F%98%80', 'caf\u00e9\u{1f600}'],
  ['a%0Ab%00', 'a\nb\0'],
  ['100%25', '100%'],
  ['*'],
  ['%7Babc%7D', '{abc}'],
  ['a+b&c=d;e:f@g'],
  ['__proto__'],
  ['constructor'],
  ['k'.repeat(101)],
  ['k'.repeat(5000)],
];

async function stats(url: string): Promise<Stats> {
  return (await ask(`${url}/api/health/redis/stats`)).json<Stats>();
}

function expectJson(answer: Answer): void {
  expect(answer.status).toBe(200);
  expect(answer.headers['content-type']).toMatch(/^application\/json\b/);
  expect(answer.headers['x-request-id']).toMatch(/\S/);
}

describeDeployments('the health of the key-value store', (deployment) => {
  const shared = shareService(deployment, { IDEMPOTENCY_TTL_SECONDS: String(TTL_SECONDS) });

  it('is UP, with the kind of store, a sentence and the time it took', async () => {
    const started = performance.now();
    const answer = await ask(`${shared.url}/api/health/redis`);
    const elapsed = performance.now() - started;
    expectJson(answer);
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
    it.each([
      ['KEY GENERATED once it is issued', async () => [await generateKey(shared.url), 'KEY GENERATED']],
      [
        'the transaction id once it has paid',
        async () => Object.values(await givenPaid(shared.url)) as [key: string, transactionId: string],
      ],
    ])('shows %s, and how long it lives', async (_what, given) => {
      const [key, value] = await given();
      // Also when its characters are percent-encoded.
      for (const path of [key as string, (key as string).replaceAll('-', '%2D')]) {
        const answer = await keyRecord(shared.url, path);
        expectJson(answer);
        const held = answer.json<{ ttlSeconds: number }>();
        expect(held).toEqual({ key, value, ttlSeconds: expect.any(Number) });
        expect(Number.isInteger(held.ttlSeconds)).toBe(true);
        expect(held.ttlSeconds).toBeLessThanOrEqual(TTL_SECONDS);
        expect(held.ttlSeconds).toBeGreaterThan(TTL_SECONDS - 60);
      }
    });

    it.each(ABSENT_KEYS)('that is absent says so: %s', async (path, key = path) => {
      expectError(await keyRecord(shared.url, path), 404, `Key '${key}' not found.`);
    });

    it('finds nothing for no key, or one that only resembles an issued one', async () => {
      const key = await generateKey(shared.url);
      const others = [`${key}0`, key.slice(0, -1), `${key}%20`, `%20${key}`, `${key}%00`, `{${key}}`];
      for (const other of ['', ...others]) expectError(await keyRecord(shared.url, other), 404);
    });
  });

  describe('in numbers', () => {
    it('has every number, and the version of the store', async () => {
      expectJson(await ask(`${shared.url}/api/health/redis/stats`));
      const { version, ...counts } = await stats(shared.url);
      expect(version).toMatch(/\d/);
      expect(Object.keys(counts).sort()).toEqual([...COUNTS].sort());
      for (const name of COUNTS) {
        expect(counts[name], name).toBeGreaterThanOrEqual(0);
        if (name !== 'uptimeSeconds') expect(Number.isSafeInteger(counts[name]), name).toBe(true);
      }
      expect(counts.usedMemoryBytes).toBeGreaterThan(0);
    });

    it('counts every generated key', async () => {
      const before = await stats(shared.url);
      await Promise.all(Array.from({ length: 25 }, () => generateKey(shared.url)));
      expect((await stats(shared.url)).totalKeys).toBe(before.totalKeys + 25);
    });

    it('counts the misses and the hits of the cache', async () => {
      const { transactionId } = await givenTransaction(shared.url);
      const before = await stats(shared.url);
      await readTransaction(shared.url, transactionId);
      const missed = await stats(shared.url);
      expect(missed.misses).toBeGreaterThan(before.misses);
      for (let n = 0; n < 5; n++) await readTransaction(shared.url, transactionId);
      const hit = await stats(shared.url);
      expect(hit.hits).toBeGreaterThanOrEqual(missed.hits + 5);
      expect(hit.misses).toBe(missed.misses);
    });

    it('counts the seconds of the store', async () => {
      const { uptimeSeconds } = await stats(shared.url);
      await until('a greater uptime', 10_000, async () => (await stats(shared.url)).uptimeSeconds > uptimeSeconds);
    });
  });
});

describeDeployments('keys that expire', (deployment) => {
  const shared = shareService(deployment, { IDEMPOTENCY_TTL_SECONDS: '1' });

  it('are absent after that, and counted as expired', async () => {
    const before = await stats(shared.url);
    const key = await generateKey(shared.url);
    await until('the key is absent', 10_000, async () => (await keyRecord(shared.url, key)).status === 404);
    expectError(await keyRecord(shared.url, key), 404, `Key '${key}' not found.`);
    await until('the expired key is counted', 20_000, async () => {
      return (await stats(shared.url)).expiredKeys > before.expiredKeys;
    });
  });
});
