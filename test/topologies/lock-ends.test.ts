import { afterAll, afterEach, beforeAll, beforeEach, describe, test } from 'vitest';
import {
  givenLockedKey,
  givenWatch,
  openRedisProcess,
  type RedisProcess,
  untilTold,
  type Watching,
} from '../../testkit/protocol/redis-process.js';
import { startCluster } from '../../testkit/servers/cluster.js';
import type { RedisServer } from '../../testkit/servers/redis.js';
import { startSentinelTrio } from '../../testkit/servers/sentinel.js';
import { until } from '../../testkit/time/until.js';

const TURN_DEADLINE_MS = 60_000;
const TEST_MS = 180_000;
/** Enough for every master of a Cluster to have some. */
const KEYS = 30;

/** Two clients on these servers, the second of which ends locks that the first waits for. */
function describeLockEnds<Servers extends { url: string; whole(): Promise<void>; close(): Promise<void> }>(
  name: string,
  start: () => Promise<Servers>,
  faults: readonly (readonly [title: string, cause: (servers: Servers) => Promise<(() => unknown) | undefined>])[],
): void {
  describe(`the ends of locks ${name}`, { timeout: TEST_MS }, () => {
    let servers: Servers;
    let one: RedisProcess;
    let other: RedisProcess;
    beforeAll(async () => {
      servers = await start();
    });
    afterAll(() => servers?.close());
    beforeEach(async () => {
      [one, other] = await Promise.all([openRedisProcess(servers.url), openRedisProcess(servers.url)]);
    });
    afterEach(() => {
      one?.close();
      other?.close();
    });

    function givenWatches(): Promise<Watching[]> {
      return Promise.all(Array.from({ length: KEYS }, async () => givenWatch(one, await givenLockedKey(other))));
    }

    /** Whoever waited through the fault was woken, and what ends afterwards is heard wherever it is kept. */
    test.each(faults)('are heard again %s', async (_title, cause) => {
      const before = await givenWatches();
      const mend = await cause(servers);
      await until('who waited to be told', TURN_DEADLINE_MS, async () => {
        // As whoever waits does, about once a second.
        const watches = before.map(({ key }) => one.keys.watch(key, () => {}).then(({ unwatch }) => unwatch()));
        await Promise.allSettled(watches);
        return before.every(({ told }) => told() > 0);
      });
      const later = await until('all keys to be served', TURN_DEADLINE_MS, () => givenWatches().catch(() => undefined));
      await Promise.all(later.map(({ key, owner }) => other.keys.release(key, owner)));
      await Promise.all(later.map(untilTold));
      await mend?.();
      await servers.whole();
    });
  });
}

/** The server that tells the first client. */
async function teller(servers: readonly RedisServer[]): Promise<RedisServer> {
  for (const server of servers) {
    const list = await server.client.call('CLIENT', 'LIST', 'TYPE', 'pubsub').catch(() => '');
    if (String(list).includes('idempay-listener')) return server;
  }
  throw new Error('no server has a listener');
}

describeLockEnds('on a Cluster', startCluster, [
  [
    'after the node that told them was killed',
    async ({ nodes }) => {
      const victim = await teller(nodes);
      await victim.kill();
      return () => victim.start();
    },
  ],
  [
    'while the node that told them hangs',
    async ({ nodes }) => {
      const victim = await teller(nodes);
      victim.signal('SIGSTOP');
      return () => victim.signal('SIGCONT');
    },
  ],
]);

describeLockEnds('with Sentinels', startSentinelTrio, [
  [
    'after the master was killed',
    async (trio) => {
      const victim = await trio.master();
      await victim.kill();
      return () => victim.start();
    },
  ],
  ['after the master was replaced on command, and goes on as a replica', async (trio) => void (await trio.giveWay())],
]);
