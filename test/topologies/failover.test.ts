import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type FailoverTrial, startTrial } from '../../testkit/deployments/failover-trial.js';
import { untilTold } from '../../testkit/protocol/payment-steps.js';
import { openRedisProcess, type RedisProcess } from '../../testkit/protocol/redis-process.js';
import { type RedisCluster, startCluster } from '../../testkit/servers/cluster.js';
import type { RedisServer } from '../../testkit/servers/redis.js';
import { type SentinelTrio, startSentinelTrio } from '../../testkit/servers/sentinel.js';
import { until } from '../../testkit/time/until.js';

const TURN_DEADLINE_MS = 60_000;
/** Enough for every master of a Cluster to have some. */
const KEYS = 30;

describe.each([
  ['Cluster', startCluster],
  ['Sentinels', startSentinelTrio],
] as const)('masters that change on %s', (name, start) => {
  let servers: RedisCluster | SentinelTrio;
  beforeAll(async () => {
    servers = await start();
  });
  afterAll(() => servers?.close());

  describe('under two processes that pay and write', () => {
    let trial: FailoverTrial;
    beforeAll(async () => {
      trial = await startTrial(servers.url);
    });
    afterAll(() => trial?.close());

    async function someMaster(index = 0): Promise<RedisServer> {
      const masters = await servers.masters();
      return masters[index % masters.length] as RedisServer;
    }

    test.each([1, 2, 3])('a killed master costs seconds, no payment and no wrong answer (%i of 3)', async (round) => {
      const victim = await someMaster(round);
      await trial.round(`${name}, master killed, ${round} of 3`, () => victim.kill());
      await victim.start();
      await servers.whole();
    });

    test('a master that hangs, is replaced and then goes on shows nobody what it held', async () => {
      const victim = await someMaster();
      await trial.round(
        `${name}, master paused, then going on`,
        async () => victim.signal('SIGSTOP'),
        () => victim.signal('SIGCONT'),
      );
      await servers.whole();
    });

    test('a master that a replica replaces on command, and that goes on as a replica, costs as little', async () => {
      const before = await servers.masters();
      await trial.round(`${name}, master replaced on command`, () => servers.giveWay());
      expect(await servers.masters()).not.toEqual(before);
    });

    if (name === 'Sentinels') return;
    test('all nodes killed and started are found again without a restart of ours', async () => {
      const { nodes } = servers as RedisCluster;
      await trial.round('Cluster, all nodes killed and started', async () => {
        await Promise.all(nodes.map((node) => node.kill()));
        await Promise.all(nodes.map((node) => node.start()));
      });
      await servers.whole();
    });
  });

  /** Two clients, the second of which ends locks that the first waits for. */
  describe('the ends of locks', () => {
    let one: RedisProcess;
    let other: RedisProcess;
    beforeEach(async () => {
      [one, other] = await Promise.all([openRedisProcess(servers.url), openRedisProcess(servers.url)]);
    });
    afterEach(() => {
      one?.close();
      other?.close();
    });

    async function givenWatch() {
      const locked = await other.lockedKey();
      return { ...locked, ...(await one.watching(locked.key)) };
    }
    const givenWatches = () => Promise.all(Array.from({ length: KEYS }, givenWatch));

    /** The server that tells the first client. */
    async function teller(): Promise<RedisServer> {
      for (const server of 'nodes' in servers ? servers.nodes : await servers.masters()) {
        const list = await server.client.call('CLIENT', 'LIST', 'TYPE', 'pubsub').catch(() => '');
        if (String(list).includes('idempay-listener')) return server;
      }
      throw new Error('no server has a listener');
    }

    const killed = async () => {
      const victim = await teller();
      await victim.kill();
      return victim.start;
    };
    const hanging = async () => {
      const victim = await teller();
      victim.signal('SIGSTOP');
      return () => victim.signal('SIGCONT');
    };
    const replaced = () => servers.giveWay().then(() => () => {});
    // In a Cluster a server other than the new master may publish them, and stays up.
    const faults: Record<string, () => Promise<() => unknown>> = {
      'after the server that told them was killed': killed,
      'while the server that told them hangs': hanging,
      ...(name === 'Sentinels' && { 'after the master was replaced on command': replaced }),
    };
    test.each(Object.entries(faults))(
      'are heard again %s, and waiting requests are answered',
      async (_title, cause) => {
        const before = await givenWatches();
        const mend = await cause();
        await until('who waited to be told', TURN_DEADLINE_MS, async () => {
          // As a waiting request does, about once a second.
          const watches = before.map(({ key }) => one.keys.watch(key, () => {}).then(({ unwatch }) => unwatch()));
          await Promise.allSettled(watches);
          return before.every(({ told }) => told() > 0);
        });
        const later = await until('all keys to be served', TURN_DEADLINE_MS, () =>
          givenWatches().catch(() => undefined),
        );
        await Promise.all(later.map(({ key, owner }) => other.keys.release(key, owner)));
        await Promise.all(later.map(untilTold));
        await mend();
        await servers.whole();
      },
    );
  });
});
