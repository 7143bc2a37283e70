import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type FailoverTrial, startTrial } from '../../testkit/deployments/failover-trial.js';
import { type RedisCluster, startCluster } from '../../testkit/servers/cluster.js';
import { until } from '../../testkit/time/until.js';

const ROUND_MS = 240_000;
const TURN_DEADLINE_MS = 30_000;

/** Two processes pay and write on while a Cluster changes its masters under them. */
describe('under load on a Cluster', () => {
  let cluster: RedisCluster;
  let trial: FailoverTrial;

  beforeAll(async () => {
    cluster = await startCluster();
    trial = await startTrial(cluster.url);
  });
  afterAll(async () => {
    await trial?.close();
    await cluster?.close();
  });

  test.each([1, 2, 3])(
    'a killed master costs seconds, no payment and no truth (%i of 3)',
    async (round) => {
      const [victim] = (await cluster.masters()).slice(round % 3);
      if (!victim) throw new Error('the Cluster has no such master');
      await trial.round(`Cluster, master killed, ${round} of 3`, () => victim.kill());
      await victim.start();
      await cluster.whole();
    },
    ROUND_MS,
  );

  test(
    'a master that hangs, is replaced and then goes on shows nobody what it held',
    async () => {
      const victim = (await cluster.masters())[0];
      if (!victim) throw new Error('there is no master');
      await trial.round(
        'Cluster, master paused, then going on',
        async () => victim.signal('SIGSTOP'),
        () => victim.signal('SIGCONT'),
      );
      await cluster.whole();
    },
    ROUND_MS,
  );

  test(
    'all nodes killed at once and started again are found again without a restart of ours',
    async () => {
      await trial.round('Cluster, all nodes killed and started', async () => {
        await Promise.all(cluster.nodes.map((node) => node.kill()));
        await Promise.all(cluster.nodes.map((node) => node.start()));
      });
      await cluster.whole();
    },
    ROUND_MS,
  );

  test(
    'a master that is told to give way, and lives on as a replica, costs as little',
    async () => {
      const masters = await cluster.masters();
      const replica = cluster.nodes.find((node) => !masters.includes(node));
      await trial.round('Cluster, master told to give way', async () => {
        await replica?.client.cluster('FAILOVER');
        await until('the replica to be master', TURN_DEADLINE_MS, async () =>
          (await replica?.client.info('replication'))?.includes('role:master'),
        );
      });
      expect(await cluster.masters()).toContain(replica);
    },
    ROUND_MS,
  );
});
