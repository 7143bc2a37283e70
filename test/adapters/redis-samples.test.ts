import { afterAll, expect, onTestFinished, test } from 'vitest';
import { KEEP_MS, type SharedSamples } from '#idempay/live/shared-samples.js';
import { StoreUnavailable } from '#idempay/platform/faults.js';
import { connected, connectRedis } from '#idempay/stores/redis/connection/client.js';
import { readRedisUrl } from '#idempay/stores/redis/connection/url.js';
import { createKeyNames } from '#idempay/stores/redis/key-names.js';
import { createRedisSharedSamples } from '#idempay/stores/redis/shared-samples.js';
import { startRedis } from '../../testkit/servers/redis.js';

const redis = await startRedis();
afterAll(() => redis.close());

let deployments = 0;

/** Opens the shared samples of a deployment; if none is named, of a new one. */
async function open({ deployment = `samples-${++deployments}`, url = redis.url, isRoomy = true } = {}) {
  const location = readRedisUrl(url);
  if (!location) throw new Error(`${url} is no Redis URL`);
  const client = connectRedis(location, () => {});
  await connected(client);
  onTestFinished(() => client.disconnect());
  const names = createKeyNames(deployment);
  return { deployment, name: names.samples, samples: createRedisSharedSamples(client, names, () => isRoomy) };
}

async function allOf(samples: SharedSamples, position?: string) {
  const lines: string[] = [];
  for (let at = position; ; ) {
    const page = await samples.read(at);
    lines.push(...page.lines);
    at = page.position;
    if (page.isLast) return { lines, position: at };
  }
}

test('what one process appends every process of the deployment reads once, in its order, and no other deployment', async () => {
  const one = await open();
  const [same, foreign] = [await open({ deployment: one.deployment }), await open()];
  expect(await allOf(same.samples)).toEqual({ lines: [], position: undefined });
  const lines = Array.from({ length: 450 }, (_, index) => `{"a":"é ${index}"}`);
  for (const line of lines) await one.samples.append(line);
  const first = await allOf(same.samples);
  expect(first.lines).toEqual(lines);
  expect(await allOf(same.samples, first.position)).toEqual({ lines: [], position: first.position });
  await same.samples.append('later');
  expect((await allOf(same.samples, first.position)).lines).toEqual(['later']);
  expect((await allOf(foreign.samples)).lines).toEqual([]);
});

test('what is older than fifteen minutes, or too much, is removed, and all of it when nobody appends any more', async () => {
  const { name, samples } = await open();
  const sample = 'x'.repeat(1_500);
  const old = Date.now() - KEEP_MS - 1_000;
  for (let entry = 0; entry < 100; entry += 1) await redis.client.xadd(name, `${old}-${entry + 1}`, 'sample', sample);
  await samples.append(sample);
  // In whole nodes of 4 kB.
  expect(await redis.client.xlen(name)).toBeLessThan(10);
  const life = await redis.client.pttl(name);
  expect(life).toBeGreaterThan(KEEP_MS - 10_000);
  expect(life).toBeLessThanOrEqual(KEEP_MS);
  const filling = redis.client.pipeline();
  for (let entry = 0; entry < 12_000; entry += 1) filling.xadd(name, '*', 'sample', sample);
  await filling.exec();
  // The number of keys that one command removes is bounded too.
  for (let time = 0; time < 60; time += 1) await samples.append(sample);
  expect(await redis.client.xlen(name)).toBeLessThan(10_100);
});

test('without a right, or without room, nothing is written; the fault is one of the store', async () => {
  const rights = '~idempay:* &idempay:* -@all +@hash +@keyspace +@scripting +info +time +ping';
  await redis.client.call('ACL', 'SETUSER', 'narrow', 'on', '>secret', ...rights.split(' '));
  const narrow = await open({ url: redis.url.replace('//', '//narrow:secret@') });
  await expect(narrow.samples.append('a')).rejects.toThrow(StoreUnavailable);
  await expect(narrow.samples.read(undefined)).rejects.toThrow(StoreUnavailable);
  const full = await open({ isRoomy: false });
  await full.samples.append('a');
  for (const { name } of [narrow, full]) expect(await redis.client.exists(name)).toBe(0);
});
