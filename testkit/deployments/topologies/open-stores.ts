import { startCluster } from '../../servers/cluster.js';
import { startRedis } from '../../servers/redis.js';
import { startSecuredRedis } from '../../servers/secured-redis.js';
import { startSentinelTrio } from '../../servers/sentinel.js';
import { createSharedDatabase } from '../../servers/shared-database.js';
import { TOPOLOGY } from './topology.js';

/** Set by a run over TLS before its processes start, because Node reads it when it starts. */
const { NODE_EXTRA_CA_CERTS = '' } = process.env;

export type OpenStores = Awaited<ReturnType<typeof openStores>>;

/** An empty Redis, of whatever topology this run is about, and an empty database. */
export async function openStores() {
  const [redis, database] = await Promise.all([openRedis(), createSharedDatabase()]);
  /** The settings that a service process needs besides the two URLs. */
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

/** Starts Redis in the topology that this run is about. */
export function openRedis(): Promise<{ url: string; close(): Promise<void> }> {
  switch (TOPOLOGY) {
    case 'cluster':
      // Nothing fails over here, and a disk that is slow for seconds must not replace a master in the middle of a test.
      return startCluster({ masters: 3, hasReplicas: true, nodeTimeoutMs: 15_000 });
    case 'sentinel':
      return startSentinelTrio();
    case 'tls':
      return startSecuredRedis(NODE_EXTRA_CA_CERTS);
    default:
      return startRedis([], TOPOLOGY === 'valkey' ? 'valkey' : 'redis');
  }
}
