import { afterAll, beforeAll, expect, test } from 'vitest';
import type { RedisClient } from '#idempay/stores/redis/connection/masters.js';
import { loadScript } from '#idempay/stores/redis/scripts/script.js';
import { alongside } from '../../testkit/concurrency.js';
import { openRedisClient } from '../../testkit/protocol/redis-process.js';
import { type RedisCluster, startCluster } from '../../testkit/servers/cluster.js';

const TAGS = Array.from({ length: 30 }, (_, index) => `tag-${index}`);
const LOOPS = 16;
const LIFE_MS = 600_000;

const issue = loadScript('issue');
let cluster: RedisCluster;
let client: RedisClient;

beforeAll(async () => {
  cluster = await startCluster();
  client = await openRedisClient(cluster.url);
});
afterAll(async () => {
  client?.disconnect();
  await cluster?.close();
});

/** Step by step what `redis-cli --cluster reshard` does with one slot. */
async function moveSlotOf(tag: string): Promise<void> {
  const masters = await cluster.masters();
  const slot = Number(await masters[0]?.client.cluster('KEYSLOT', `{${tag}}`));
  const ranges = (await masters[0]?.client.cluster('SLOTS')) ?? [];
  const port = ranges.find(([from, to]) => from <= slot && slot <= to)?.[2]?.[1];
  const from = masters.find((master) => master.port === port);
  const to = masters.find((master) => master.port !== port);
  if (!from || !to) throw new Error(`slot ${slot} has no master`);
  const [fromId, toId] = (await Promise.all([from, to].map(({ client }) => client.cluster('MYID')))) as [
    string,
    string,
  ];

  await to.client.call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', fromId);
  await from.client.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', toId);
  for (;;) {
    const keys = (await from.client.call('CLUSTER', 'GETKEYSINSLOT', slot, 100)) as string[];
    if (keys.length === 0) break;
    await from.client.call('MIGRATE', '127.0.0.1', to.port, '', 0, 5_000, 'KEYS', ...keys);
  }
  for (const master of [to, from]) await master.client.call('CLUSTER', 'SETSLOT', slot, 'NODE', toId);
}

/** As an operator does to a Cluster that grows: slots move between masters that all live. */
test('a Cluster whose slots move under load refuses nobody, and each redirected command is done once', async () => {
  let issued = 0;
  const faults: string[] = [];
  const twice: string[] = [];
  await alongside(
    LOOPS,
    // All tags at once, so that one write holds moved, moving and unmoved slots.
    async (loop) => {
      await Promise.all(
        TAGS.map(async (tag) => {
          issued += 1;
          const key = `idempay:{${tag}}:${loop}:${issued}`;
          const first = await issue(client, [key], ['x', LIFE_MS, '']).catch(
            ({ message }) => void faults.push(message),
          );
          if (first === 0) twice.push(key);
        }),
      );
    },
    async () => {
      for (const tag of TAGS) await moveSlotOf(tag);
    },
  );
  expect(faults.slice(0, 5), `${faults.length} of ${issued} refused`).toEqual([]);
  expect(twice).toEqual([]);
  const sizes = await Promise.all((await cluster.masters()).map((master) => master.client.dbsize()));
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(issued);
});
