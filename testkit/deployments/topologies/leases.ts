import { fastify } from 'fastify';
import type { TestProject } from 'vitest/node';
import { findServer } from '../../servers/binaries.js';
import { type RedisCluster, startCluster } from '../../servers/cluster.js';
import { type SentinelTrio, startSentinelTrio } from '../../servers/sentinel.js';
import { TOPOLOGY } from './topology.js';

declare module 'vitest' {
  interface ProvidedContext {
    /** Where a test file leases a Cluster or Sentinel trio; empty when the topology has none. */
    leasesUrl: string;
  }
}

/**
 * Keeps the Clusters or Sentinel trios of a run. Each is leased to one test at a time, for a Cluster has one database only;
 * what comes back is emptied, its scripts too. Another one is started when none is free.
 */
export default async function keepLeases(project: TestProject): Promise<() => Promise<unknown>> {
  project.provide('leasesUrl', '');
  if (TOPOLOGY === 'valkey') await findServer('valkey');
  if (TOPOLOGY !== 'cluster' && TOPOLOGY !== 'sentinel') return async () => {};

  const all: (RedisCluster | SentinelTrio)[] = [];
  const free: number[] = [];
  const server = fastify();
  server.post('/', async () => {
    const id = free.pop() ?? all.push(await (TOPOLOGY === 'cluster' ? startCluster() : startSentinelTrio())) - 1;
    return { id, url: all[id]?.url };
  });
  server.delete<{ Params: { id: string } }>('/:id', async ({ params }) => {
    const id = Number(params.id);
    for (const { client } of (await all[id]?.masters()) ?? []) {
      await client.flushall();
      await client.script('FLUSH');
    }
    free.push(id);
    return {};
  });
  project.provide('leasesUrl', await server.listen({ host: '127.0.0.1', port: 0 }));
  return async () => {
    await server.close();
    await Promise.all(all.map((each) => each.close()));
  };
}
