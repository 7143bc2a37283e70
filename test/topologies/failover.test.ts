import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type FailoverTrial, startTrial } from '../../testkit/deployments/failover-trial.js';
import { type RedisCluster, startCluster } from '../../testkit/servers/cluster.js';
import type { RedisServer } from '../../testkit/servers/redis.js';
import { type SentinelTrio, startSentinelTrio } from '../../testkit/servers/sentinel.js';
import { until } from '../../testkit/time/until.js';

const ROUND_MS = 240_000;
const TURN_DEADLINE_MS = 30_000;

interface Topology {
  readonly url: string;
  masters(): Promise<readonly RedisServer[]>;
  /** Has a replica take over from a master that is well. */
  giveWay(): Promise<void>;
  whole(): Promise<void>;
  close(): Promise<void>;
}

/** Two processes pay and write on while masters change under them. */
function describeFailovers(name: string, start: () => Promise<Topology>): void {
  describe(`under load on ${name}`, { timeout: ROUND_MS }, () => {
    let topology: Topology;
    let trial: FailoverTrial;
    beforeAll(async () => {
      topology = await start();
      trial = await startTrial(topology.url);
    });
    afterAll(async () => {
      await trial?.close();
      await topology?.close();
    });

    async function someMaster(index = 0): Promise<RedisServer> {
      const masters = await topology.masters();
      return masters[index % masters.length] as RedisServer;
    }

    test.each([1, 2, 3])('a killed master costs seconds, no payment and no wrong answer (%i of 3)', async (round) => {
      const victim = await someMaster(round);
      await trial.round(`${name}, master killed, ${round} of 3`, () => victim.kill());
      await victim.start();
      await topology.whole();
    });

    test('a master that hangs, is replaced and then goes on shows nobody what it held', async () => {
      const victim = await someMaster();
      await trial.round(
        `${name}, master paused, then going on`,
        async () => victim.signal('SIGSTOP'),
        () => victim.signal('SIGCONT'),
      );
      await topology.whole();
    });

    test('a master that a replica replaces on command, and that goes on as a replica, costs as little', async () => {
      const before = await topology.masters();
      await trial.round(`${name}, master replaced on command`, () => topology.giveWay());
      expect(await topology.masters()).not.toEqual(before);
    });

    if (name !== 'Cluster') return;
    test('all nodes killed at once and started again are found again without a restart of ours', async () => {
      const { nodes } = topology as RedisCluster & Topology;
      await trial.round('Cluster, all nodes killed and started', async () => {
        await Promise.all(nodes.map((node) => node.kill()));
        await Promise.all(nodes.map((node) => node.start()));
      });
      await topology.whole();
    });
  });
}

describeFailovers('Cluster', async () => {
  const cluster = await startCluster();
  return {
    ...cluster,
    async giveWay() {
      const masters = await cluster.masters();
      const replica = cluster.nodes.find((node) => !masters.includes(node)) as RedisServer;
      await replica.client.cluster('FAILOVER');
      await until('the replica to be master', TURN_DEADLINE_MS, async () =>
        (await replica.client.info('replication')).includes('role:master'),
      );
    },
  };
});

describeFailovers('Sentinels', async () => {
  const trio: SentinelTrio = await startSentinelTrio();
  return { ...trio, masters: async () => [await trio.master()] };
});
