import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { Cluster, Command, Redis, type RedisOptions } from 'ioredis';
import { StoreUnavailable } from '../../errors.js';
import type { RedisLocation } from './redis-url.js';

/** A reply later than this is unknown. Far above any healthy reply, short enough that a request is answered within a second. */
const COMMAND_TIMEOUT_MS = 900;
const CONNECT_TIMEOUT_MS = 2_000;
/** A server that has left commands unanswered this long is reached by a new connection, or was replaced by another one. */
const SILENCE_TIMEOUT_MS = 3_000;
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
    socketTimeout: SILENCE_TIMEOUT_MS,
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    enableAutoPipelining: true,
    connectionName: 'idempay',
  };
  const client = createClient(location, shared);
  client.on('error', (error: Error) => onError(withoutCommand(error)));
  return client;
}

function createClient(location: RedisLocation, shared: RedisOptions): RedisClient {
  const alone: RedisOptions = { ...shared, retryStrategy: reconnectDelayMs };
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
        ...(location.tls ? { sentinelTLS: {} } : {}),
        sentinelRetryStrategy: reconnectDelayMs,
        // A Sentinel that hangs must not keep us from asking the next one.
        sentinelCommandTimeout: COMMAND_TIMEOUT_MS,
        sentinelReconnectStrategy: reconnectDelayMs,
        failoverDetector: true,
        // A master that was demoted while we stayed connected refuses writes: leave it and ask the Sentinels again.
        reconnectOnError: (error) => error.message.startsWith('READONLY'),
      });
    case 'cluster':
      return connectMasters(
        new Cluster([...location.nodes], {
          // The ASKING before a redirected command must not wait in a pipeline while the command goes ahead.
          redisOptions: { ...shared, enableAutoPipelining: false },
          enableOfflineQueue: false,
          // A Cluster that is down refuses each command itself; waiting for it to be up would queue what came meanwhile.
          enableReadyCheck: false,
          enableAutoPipelining: true,
          slotsRefreshInterval: SLOTS_REFRESH_INTERVAL_MS,
          // Not sent again after a lost connection; a redirection (MOVED) was never executed and may be followed.
          retryDelayOnFailover: 0,
          retryDelayOnClusterDown: 0,
          clusterRetryStrategy: reconnectDelayMs,
        }),
      );
  }
}

/** Nodes connect when they are first used, and nothing is queued until they have: so they are used at once. */
function connectMasters(cluster: Cluster): Cluster {
  return cluster.on('+node', (node: Redis) => {
    if (!node.options.readOnly) node.connect().catch(() => {});
  });
}

function reconnectDelayMs(attempt: number): number {
  return Math.min(RECONNECT_MIN_MS * 2 ** Math.min(attempt - 1, 5), RECONNECT_MAX_MS);
}

/** The servers that hold data: one, or the masters of a Cluster. */
export function mastersOf(client: RedisClient): readonly Redis[] {
  return client instanceof Cluster ? client.nodes('master') : [client];
}

/** Resolves when every server that holds data can be asked. It may take for ever. */
export async function connected(client: RedisClient): Promise<void> {
  if (client.status !== 'ready') await new Promise<void>((resolve) => client.once('ready', resolve));
  const connecting = mastersOf(client).filter((server) => server.status !== 'ready');
  await Promise.all(connecting.map((server) => new Promise<void>((resolve) => server.once('ready', resolve))));
}

export type Script = (
  client: RedisClient,
  keys: readonly string[],
  parameters: readonly (string | number)[],
) => Promise<unknown>;

/** Answers of a Cluster that has not executed a command: it belongs to another node, or not to the pipeline it was sent in. */
const MISROUTED = /^(MOVED|ASK|TRYAGAIN) |slots allocation group/;

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
      if (MISROUTED.test(messageOf(error))) return sendAlone(client, text, keys.length, values);
      if (!messageOf(error).startsWith('NOSCRIPT')) throw redisFault(error);
    }
    try {
      return await client.eval(text, keys.length, ...values);
    } catch (error) {
      if (MISROUTED.test(messageOf(error))) return sendAlone(client, text, keys.length, values);
      throw redisFault(error);
    }
  };
}

/** Outside the automatic pipelines, which follow a redirection only when all that is in them is redirected to one node. */
function sendAlone(
  client: RedisClient,
  text: string,
  keyCount: number,
  values: readonly (string | number)[],
): Promise<unknown> {
  const command = new Command('eval', [text, keyCount, ...values], { replyEncoding: 'utf8' });
  return Promise.resolve(client.sendCommand(command)).catch((error: unknown) => {
    throw redisFault(error);
  });
}

/** What was never sent: ioredis found no connection, or no node that has the slot. */
const NEVER_SENT =
  /enableOfflineQueue options is false|redirections|slots allocation group|slots cache|None of startup nodes/;

/**
 * Refused by the server or never sent: nothing was done. Everything else, above all a connection that was lost while the
 * answer was awaited, is unknown; ioredis words that in many ways.
 */
export function redisFault(error: unknown): StoreUnavailable {
  const message = messageOf(error);
  const refused = (error as Error).name === 'ReplyError' || NEVER_SENT.test(message) || error instanceof TypeError;
  return new StoreUnavailable(refused ? 'unchanged' : 'unknown', `Redis: ${message}`, withoutCommand(error));
}

/** ioredis hangs the refused command onto the error, and that of a refused log-in holds the password: it is not for logs. */
function withoutCommand<E>(error: E): E {
  const { lastNodeError } = error as { lastNodeError?: unknown };
  for (const each of [error, lastNodeError]) if (each instanceof Error) delete (each as { command?: unknown }).command;
  return error;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
