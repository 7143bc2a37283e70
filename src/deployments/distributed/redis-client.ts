import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { Cluster, Redis, type RedisOptions } from 'ioredis';
import { StoreUnavailable } from '../../errors.js';
import type { RedisLocation } from './redis-url.js';

/** A reply later than this is unknown. Far above any healthy reply, short enough that a request is answered within a second. */
const COMMAND_TIMEOUT_MS = 900;
const CONNECT_TIMEOUT_MS = 2_000;
const RECONNECT_MIN_MS = 50;
const RECONNECT_MAX_MS = 1_000;
/** How soon a Cluster's new masters are noticed when nobody is told about them. */
const SLOTS_REFRESH_INTERVAL_MS = 1_000;
const SCRIPTS = new URL('./scripts/', import.meta.url);

export type RedisClient = Redis | Cluster;

/**
 * Connects, and keeps reconnecting in the background. Nothing is queued while there is no connection and nothing is sent
 * again after one was lost: both could take a lock long after its owner gave up (decisions in `docs/deployment.md`).
 */
export function connectRedis(location: RedisLocation, onError: (error: Error) => void): RedisClient {
  const shared: RedisOptions = {
    username: location.username,
    password: location.password,
    ...(location.tls ? { tls: {} } : {}),
    commandTimeout: COMMAND_TIMEOUT_MS,
    connectTimeout: CONNECT_TIMEOUT_MS,
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    enableAutoPipelining: true,
    connectionName: 'idempay',
  };
  const client = createClient(location, shared);
  client.on('error', onError);
  return client;
}

function createClient(location: RedisLocation, shared: RedisOptions): RedisClient {
  const alone: RedisOptions = { ...shared, enableOfflineQueue: false, retryStrategy: reconnectDelayMs };
  switch (location.topology) {
    case 'standalone':
      return new Redis({ ...alone, ...location.node, db: location.database });
    case 'sentinel':
      return new Redis({
        ...alone,
        sentinels: [...location.sentinels],
        name: location.master,
        db: location.database,
        enableTLSForSentinelMode: location.tls,
        sentinelRetryStrategy: reconnectDelayMs,
        failoverDetector: true,
        // A master that was demoted while we stayed connected refuses writes: leave it and ask the Sentinels again.
        reconnectOnError: (error) => error.message.startsWith('READONLY'),
      });
    case 'cluster':
      return new Cluster([...location.nodes], {
        redisOptions: shared,
        enableOfflineQueue: false,
        enableAutoPipelining: true,
        slotsRefreshInterval: SLOTS_REFRESH_INTERVAL_MS,
        // Not sent again after a lost connection; a redirection (MOVED) was never executed and may be followed.
        retryDelayOnFailover: 0,
        retryDelayOnClusterDown: 0,
        clusterRetryStrategy: reconnectDelayMs,
      });
  }
}

function reconnectDelayMs(attempt: number): number {
  return Math.min(RECONNECT_MIN_MS * 2 ** Math.min(attempt - 1, 5), RECONNECT_MAX_MS);
}

/** The servers that hold data: one, or the masters of a Cluster. */
export function mastersOf(client: RedisClient): readonly Redis[] {
  return client instanceof Cluster ? client.nodes('master') : [client];
}

export type Script = (
  client: RedisClient,
  keys: readonly string[],
  parameters: readonly (string | number)[],
) => Promise<unknown>;

/**
 * A Lua script, run by its digest. A server that does not know it (after a restart, or another node of a Cluster) has not
 * executed anything, so it may be sent the text. Faults are StoreUnavailable.
 */
export function loadScript(name: string): Script {
  const text = readFileSync(new URL(`${name}.lua`, SCRIPTS), 'utf8');
  const digest = createHash('sha1').update(text).digest('hex');
  return async function run(client, keys, parameters) {
    const values = [...keys, ...parameters];
    try {
      return await client.evalsha(digest, keys.length, ...values);
    } catch (error) {
      if (!(error as Error).message.startsWith('NOSCRIPT')) throw redisFault(error);
    }
    return client.eval(text, keys.length, ...values).catch((error: unknown) => {
      throw redisFault(error);
    });
  };
}

/** Sent but unanswered is unknown; everything else was refused before it could do anything. */
export function redisFault(error: unknown): StoreUnavailable {
  const message = error instanceof Error ? error.message : String(error);
  const unanswered = /timed out|Connection is closed|ECONNRESET|EPIPE/i.test(message);
  return new StoreUnavailable(unanswered ? 'unknown' : 'unchanged', `Redis: ${message}`, error);
}
