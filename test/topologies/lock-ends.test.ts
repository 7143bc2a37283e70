import { afterAll, afterEach, beforeAll, beforeEach, describe, test } from 'vitest';
import {
  givenLockedKey,
  givenWatch,
  openRedisProcess,
  type RedisProcess,
  untilTold,
  type Watching,
} from '../../testkit/protocol/redis-process.js';
import { type RedisCluster, startCluster } from '../../testkit/servers/cluster.js';
import type { RedisServer } from '../../testkit/servers/redis.js';
import { type SentinelTrio, startSentinelTrio } from '../../testkit/servers/sentinel.js';
import { until } from '../../testkit/time/until.js';

const TURN_DEADLINE_MS = 60_000;
const TEST_MS = 180_000;
/** Enough for every master of a Cluster to have some. */
const KEYS = 30;

let one: RedisProcess;
let other: RedisProcess;

async function openTwo(url: string): Promise<void> {
  [one, other] = await Promise.all([openRedisProcess(url), openRedisProcess(url)]);
}

function closeTwo(): void {
  one?.close();
  other?.close();
}

async function givenWatches(): Promise<Watching[]> {
  return Promise.all(Array.from({ length: KEYS }, async () => givenWatch(one, await givenLockedKey(other))));
}

/** Whoever waited through the trouble was told of it, and what ends afterwards is heard wherever it is kept. */
async function expectHeardAgain(before: readonly Watching[]): Promise<void> {
  await until('who waited to be told', TURN_DEADLINE_MS, async () => {
    // As whoever waits does, about once a second.
    await Promise.allSettled(before.map(({ key }) => one.keys.watch(key, () => {}).then(({ unwatch }) => unwatch())));
    return before.every(({ told }) => told() > 0);
  });
  const later = await until('all keys to be served', TURN_DEADLINE_MS, () => givenWatches().catch(() => undefined));
  await Promise.all(later.map(({ key, owner }) => other.keys.release(key, owner)));
  await Promise.all(later.map(untilTold));
}

/** The server that tells the first process. */
async function told(servers: readonly RedisServer[]): Promise<RedisServer> {
  for (const server of servers) {
    const list = await server.client.call('CLIENT', 'LIST', 'TYPE', 'pubsub').catch(() => '');
    if (String(list).includes('idempay-listener')) return server;
  }
  throw new Error('no server has a listener');
}

describe('the ends of locks on a Cluster', () => {
  let cluster: RedisCluster;

  beforeAll(async () => {
    cluster = await startCluster();
  });
  afterAll(() => cluster?.close());
  beforeEach(() => openTwo(cluster.url));
  afterEach(closeTwo);

  test(
    'are heard again after the node that told them was killed',
    async () => {
      const watches = await givenWatches();
      const victim = await told(cluster.nodes);
      await victim.kill();
      await expectHeardAgain(watches);
      await victim.start();
      await cluster.whole();
    },
    TEST_MS,
  );

  test(
    'are heard again while the node that told them hangs',
    async () => {
      const watches = await givenWatches();
      const victim = await told(cluster.nodes);
      victim.signal('SIGSTOP');
      await expectHeardAgain(watches);
      victim.signal('SIGCONT');
      await cluster.whole();
    },
    TEST_MS,
  );
});

describe('the ends of locks with Sentinels', () => {
  let trio: SentinelTrio;

  beforeAll(async () => {
    trio = await startSentinelTrio();
  });
  afterAll(() => trio?.close());
  beforeEach(() => openTwo(trio.url));
  afterEach(closeTwo);

  test(
    'are heard again after the master was killed',
    async () => {
      const watches = await givenWatches();
      const victim = await trio.master();
      await victim.kill();
      await expectHeardAgain(watches);
      await victim.start();
      await trio.whole();
    },
    TEST_MS,
  );

  test(
    'are heard again after the master was told to give way, and lives on as a replica',
    async () => {
      const watches = await givenWatches();
      await trio.giveWay();
      await expectHeardAgain(watches);
      await trio.whole();
    },
    TEST_MS,
  );
});
