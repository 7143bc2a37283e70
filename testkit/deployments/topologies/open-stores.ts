import { inject } from 'vitest';
import { startRedis } from '../../servers/redis.js';
import { startSecuredRedis } from '../../servers/secured-redis.js';
import { createSharedDatabase } from '../../servers/shared-database.js';
import { TOPOLOGY } from './topology.js';

/** Set by a run over TLS before its processes start, because Node reads it when it starts. */
const { NODE_EXTRA_CA_CERTS = '' } = process.env;

export type OpenStores = Awaited<ReturnType<typeof openStores>>;

/** An empty Redis, of whatever topology this run is about, and an empty database. */
export async function openStores() {
  const [redis, database] = await Promise.all([openRedis(), createSharedDatabase()]);
  /** What a service process needs beside the two URLs. */
  const environment: Record<string, string> = TOPOLOGY === 'tls' ? { NODE_EXTRA_CA_CERTS } : {};
  return {
    redisUrl: redis.url,
    databaseUrl: database.url,
    environment,
    async close(): Promise<void> {
      await Promise.all([redis.close(), database.drop()]);
    },
  };
}

async function openRedis(): Promise<{ url: string; close(): Promise<void> }> {
  if (TOPOLOGY === 'cluster' || TOPOLOGY === 'sentinel') return lease();
  if (TOPOLOGY === 'tls') return startSecuredRedis(NODE_EXTRA_CA_CERTS);
  return startRedis([], TOPOLOGY === 'valkey' ? 'valkey' : 'redis');
}

/** A Cluster takes seconds to form, so they are kept and emptied between uses (see `leases.ts`). */
async function lease(): Promise<{ url: string; close(): Promise<void> }> {
  const leases = inject('leasesUrl');
  const ask = async (method: string, path: string) => {
    const answer = await fetch(`${leases}/${path}`, { method });
    if (!answer.ok) throw new Error(`${method} of a ${TOPOLOGY}: ${await answer.text()}`);
    return (await answer.json()) as { id: number; url: string };
  };
  const { id, url } = await ask('POST', '');
  return { url, close: async () => void (await ask('DELETE', `${id}`)) };
}
