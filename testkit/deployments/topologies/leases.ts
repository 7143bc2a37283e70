import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestProject } from 'vitest/node';
import { findValkey } from '../../servers/binaries.js';
import { startCluster } from '../../servers/cluster.js';
import type { RedisServer } from '../../servers/redis.js';
import { startSentinelTrio } from '../../servers/sentinel.js';
import { TOPOLOGY } from './topology.js';

declare module 'vitest' {
  interface ProvidedContext {
    /** Where a test file leases a Cluster or Sentinel trio; empty when the topology has none. */
    leasesUrl: string;
  }
}

interface Leased {
  readonly url: string;
  masters(): Promise<readonly RedisServer[]>;
  close(): Promise<void>;
}

/**
 * Keeps the Clusters or Sentinel trios of a run. Each is leased to one test at a time, for a Cluster has one database only;
 * what comes back is emptied, its scripts too. Another one is started when none is free.
 */
export default async function keepLeases(project: TestProject): Promise<() => Promise<void>> {
  project.provide('leasesUrl', '');
  if (TOPOLOGY === 'valkey') await findValkey();
  if (TOPOLOGY !== 'cluster' && TOPOLOGY !== 'sentinel') return async () => {};

  const all: Leased[] = [];
  const free: number[] = [];

  async function lease(): Promise<{ id: number; url: string }> {
    const id = free.pop() ?? all.push(await start()) - 1;
    return { id, url: (all[id] as Leased).url };
  }

  async function giveBack(id: number): Promise<void> {
    for (const { client } of await (all[id] as Leased).masters()) {
      await client.flushall();
      await client.script('FLUSH');
    }
    free.push(id);
  }

  const server = createServer((request, response) => {
    const id = Number(request.url?.slice(1));
    const done = request.method === 'POST' ? lease() : giveBack(id);
    done.then(
      (result) => answer(response, 200, result ?? {}),
      (error: unknown) => answer(response, 500, String(error)),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  project.provide('leasesUrl', `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  return async () => {
    server.close();
    await Promise.all(all.map((each) => each.close()));
  };
}

async function start(): Promise<Leased> {
  if (TOPOLOGY === 'cluster') return startCluster();
  const trio = await startSentinelTrio();
  return { url: trio.url, masters: async () => [await trio.master()], close: trio.close };
}

function answer(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'Content-Type': 'application/json', Connection: 'close' });
  response.end(JSON.stringify(body));
}
