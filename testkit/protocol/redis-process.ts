import type { Redis } from 'ioredis';
import { systemClock } from '#idempay/platform/clock.js';
import { AnnouncedLockEnds } from '#idempay/stores/redis/announced-lock-ends.js';
import type { CacheLocation, CacheLocations } from '#idempay/stores/redis/connection/cache-masters.js';
import { connected, connectRedis } from '#idempay/stores/redis/connection/client.js';
import type { RedisClient } from '#idempay/stores/redis/connection/masters.js';
import { readRedisUrl } from '#idempay/stores/redis/connection/url.js';
import { createKeyNames } from '#idempay/stores/redis/key-names.js';
import { createRedisKeyStore } from '#idempay/stores/redis/key-store.js';
import { RememberedOutcomes } from '#idempay/stores/redis/remembered-outcomes.js';
import { keySteps } from './payment-steps.js';

export const NAMES = createKeyNames('0123456789abcdef');

export type RedisProcess = Awaited<ReturnType<typeof openRedisProcess>>;
export type LockedKey = Awaited<ReturnType<RedisProcess['lockedKey']>>;

export async function openRedisClient(url: string): Promise<RedisClient> {
  const location = readRedisUrl(url);
  if (!location) throw new Error(`${url} is no Redis URL`);
  const client = connectRedis(location, () => {});
  await connected(client);
  return client;
}

/** The place of the cache for a process to which the server of this connection is in the epoch, whatever it is. */
export async function locationsAt(client: RedisClient, epoch = 1): Promise<CacheLocations> {
  async function look(): Promise<CacheLocation> {
    const info = String(await (client as Redis).info('replication'));
    return { epoch, masters: /master_replid:(\w+)/.exec(info)?.[1] ?? '' };
  }
  let current = await look();
  return {
    get current() {
      return current;
    },
    async look() {
      current = await look();
      return current;
    },
    forget() {},
  };
}

/** Beside a database that is not heard of: Redis is asked each time. */
export const nothingRemembered = () =>
  new RememberedOutcomes(() => ({ server: 'none', latestMs: undefined }), systemClock);

/** The Redis part of one process of the distributed deployment, without PostgreSQL: connections of its own. */
export async function openRedisProcess(url: string) {
  const client = await openRedisClient(url);
  /** Messages to the operator about subscriptions that the server refused. */
  const refusals: Error[] = [];
  const ends = new AnnouncedLockEnds(client, NAMES.lockEnds, systemClock, (error) => refusals.push(error));
  const keys = createRedisKeyStore(client, NAMES, ends, { clock: systemClock, remembered: nothingRemembered() });
  return {
    client,
    keys,
    ...keySteps(keys),
    refusals,
    close() {
      ends.close();
      client.disconnect();
    },
  };
}
