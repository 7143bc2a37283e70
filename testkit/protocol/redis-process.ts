import { systemClock } from '#idempay/clock.js';
import { createKeyNames } from '#idempay/deployments/distributed/redis/key-names.js';
import { createRedisKeyStore } from '#idempay/deployments/distributed/redis/key-store.js';
import { LockEnds } from '#idempay/deployments/distributed/redis/lock-ends.js';
import { connected, connectRedis } from '#idempay/deployments/distributed/redis/redis-client.js';
import { readRedisUrl } from '#idempay/deployments/distributed/redis/redis-url.js';
import type { KeyStore, Watch } from '#idempay/payments/ports/key-store.js';
import { until } from '../time/until.js';
import { LONG_MS, newKey, newOwner } from './payment-attempts.js';

const DEADLINE_MS = 15_000;

/** What the processes' keys and channel are called: those of one deployment. */
export const NAMES = createKeyNames('0123456789abcdef');

/** What one process of the distributed deployment has of Redis, without PostgreSQL: connections of its own. */
export interface RedisProcess {
  readonly keys: KeyStore;
  /** What an operator is told about subscriptions that the server refused. */
  readonly refusals: readonly Error[];
  close(): void;
}

export interface LockedKey {
  readonly key: string;
  readonly owner: string;
}

export interface Watching extends Watch, LockedKey {
  told(): number;
}

export async function openRedisProcess(url: string): Promise<RedisProcess> {
  const location = readRedisUrl(url);
  if (!location) throw new Error(`${url} is no Redis URL`);
  const client = connectRedis(location, () => {});
  const refusals: Error[] = [];
  const ends = new LockEnds(client, NAMES.lockEnds, systemClock, (error) => refusals.push(error));
  await connected(client);
  return {
    keys: createRedisKeyStore(client, NAMES, ends, systemClock),
    refusals,
    close() {
      ends.close();
      client.disconnect();
    },
  };
}

/** A key whose lock is held when this resolves. */
export async function givenLockedKey({ keys }: RedisProcess, leaseMs = LONG_MS): Promise<LockedKey> {
  const [key, owner] = [newKey(), newOwner()];
  await keys.issue(key, LONG_MS);
  const begun = await keys.begin({ key, owner, leaseMs, fingerprint: '100.50 USD' });
  if (begun.state !== 'taken') throw new Error(`the begin was answered '${begun.state}'`);
  return { key, owner };
}

/** A watch that counts how often it is told. */
export async function givenWatch({ keys }: RedisProcess, { key, owner }: LockedKey): Promise<Watching> {
  let told = 0;
  const watch = await keys.watch(key, () => {
    told += 1;
  });
  return { key, owner, ...watch, told: () => told };
}

export function untilTold({ told }: Watching): Promise<unknown> {
  return until('the end of the lock to be told', DEADLINE_MS, () => told() > 0);
}
