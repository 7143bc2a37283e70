import { expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { type Answer, ask, generateKey } from '../../testkit/client/http-client.js';
import { givenPaid, KEY_GENERATED, keyRecord, UNKNOWN_KEY } from '../../testkit/client/payment-answers.js';
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
    expect(elapsed).toBeLessThan(1000);
    expect(health).toEqual({
      status: 'UP',
      store: expect.stringMatching(/^(redis|embedded)$/),
      message: expect.stringMatching(/\S/),
      latencyMs: expect.any(Number),
    });
    expect(health.latencyMs).toBeGreaterThanOrEqual(0);
    expect(health.latencyMs).toBeLessThan(elapsed);
  });

  it('shows the value of a key, also percent-encoded, before and after it has paid, and how long it lives', async () => {
    const { key: paid, transactionId } = await givenPaid(shared.url);
    for (const [key, value] of [
      [await generateKey(shared.url), KEY_GENERATED] as const,
      [paid, transactionId] as const,
    ]) {
      for (const path of [key, key.replaceAll('-', '%2D')]) {
        const { ttlSeconds, ...held } = expectJson(await keyRecord(shared.url, path));
        expect(held).toEqual({ key, value });
        expect(Number.isInteger(ttlSeconds)).toBe(true);
        expect(ttlSeconds).toBeLessThanOrEqual(TTL_SECONDS);
        expect(ttlSeconds).toBeGreaterThan(TTL_SECONDS - 60);
      }
    }
  });

  it.each(ABSENT_KEYS)('says of a key that it is absent: %s', async (path) => {
    expectError(await keyRecord(shared.url, path), 404, `Key '${decodeURIComponent(path)}' not found.`);
  });

  it('finds nothing for no key, or one that only resembles an issued one', async () => {
    const key = await generateKey(shared.url);
    const others = ['', `${key}0`, key.slice(0, -1), `${key}%20`, `%20${key}`, `${key}%00`, `{${key}}`];
    for (const other of others) expectError(await keyRecord(shared.url, other), 404);
  });

  it('has every number, and the version of the store; the seconds go on', async () => {
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
  });

  it('counts every generated key, and the misses and the hits of the cache', async () => {
    const { transactionId } = await givenTransaction(shared.url);
    const before = await stats(shared.url);
    await Promise.all(Array.from({ length: 25 }, () => generateKey(shared.url)));
    expect((await stats(shared.url)).totalKeys).toBe(before.totalKeys + 25);
    await readTransaction(shared.url, transactionId);
    const missed = await stats(shared.url);
    expect(missed.misses).toBeGreaterThan(before.misses);
    for (let n = 0; n < 5; n++) await readTransaction(shared.url, transactionId);
    const hit = await stats(shared.url);
    expect(hit.hits).toBeGreaterThanOrEqual(missed.hits + 5);
    expect(hit.misses).toBe(missed.misses);
  });
});
