import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Clock, systemClock } from '#idempay/clock.js';
import type { Deployment } from '#idempay/deployments/deployment.js';
import { openDistributed } from '#idempay/deployments/distributed/open.js';
import { readRedisUrl } from '#idempay/deployments/distributed/redis/redis-url.js';
import { openEmbedded } from '#idempay/deployments/embedded/open.js';
import { type OpenStores, openStores } from '../deployments/topologies/open-stores.js';
import { until } from '../time/until.js';

/** The adapters of one deployment on fresh, empty stores; `close` removes the stores too. */
export type Ports = Omit<Deployment, 'broken'>;

export interface PortSettings {
  readonly transactionCacheTtlMs?: number;
  readonly clock?: Clock;
}

export type OpenPorts = (settings?: PortSettings) => Promise<Ports>;

/** Longer than any test, so that only a test that asks for a short one sees an entry expire. */
const LONG_CACHE_TTL_MS = 600_000;
const CONNECT_DEADLINE_MS = 10_000;

export const openEmbeddedPorts: OpenPorts = async ({
  transactionCacheTtlMs = LONG_CACHE_TTL_MS,
  clock = systemClock,
} = {}) => {
  const dataDir = await mkdtemp(join(tmpdir(), 'idempay-ports-'));
  const deployment = await openEmbedded({ dataDir, transactionCacheTtlMs, clock });
  return {
    ...deployment,
    async close() {
      await deployment.close();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
};

export const openDistributedPorts: OpenPorts = async (settings) => {
  const stores = await openStores();
  const ports = await openDistributedPortsOn(stores, settings);
  return {
    ...ports,
    async close() {
      await ports.close();
      await stores.close();
    },
  };
};

/** The adapters of one process; any number may share the stores, which `close` leaves there. */
export async function openDistributedPortsOn(
  stores: Pick<OpenStores, 'redisUrl' | 'databaseUrl'>,
  { transactionCacheTtlMs = LONG_CACHE_TTL_MS, clock = systemClock }: PortSettings = {},
): Promise<Ports> {
  const location = readRedisUrl(stores.redisUrl);
  if (!location) throw new Error(`${stores.redisUrl} is no Redis URL`);
  const deployment = await openDistributed({
    redis: location,
    databaseUrl: stores.databaseUrl,
    databasePoolSize: 10,
    transactionCacheTtlMs,
    clock,
    notices: { warn: () => {} },
  });
  await until('Redis to be connected', CONNECT_DEADLINE_MS, () =>
    deployment.keyValueStore.ping().then(
      () => true,
      () => false,
    ),
  );
  return deployment;
}
