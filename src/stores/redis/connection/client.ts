import { Cluster, Redis, type RedisOptions } from 'ioredis';
import { teachScripts } from '../scripts/script.js';
import { withoutCommand } from './fault.js';
import { watchMaster } from './master-watch.js';
import { mastersOf, type RedisClient } from './masters.js';
import { answeredInTime } from './reply-limit.js';
import { Sentinels, sentinelConnector } from './sentinels.js';
import { type RedisLocation, tlsOf } from './url.js';

const CONNECT_TIMEOUT_MS = 2_000;
/** A connection that left commands unanswered this long is closed: a new one may reach the server, or its replacement. */
const SILENCE_TIMEOUT_MS = 3_000;
/** A connection that we end is destroyed after this time: a server that hangs would not close its side. */
const DISCONNECT_TIMEOUT_MS = 200;
const RECONNECT_MIN_MS = 50;
const RECONNECT_MAX_MS = 1_000;
/** How soon a Cluster's new masters are noticed without a redirection. */
const SLOTS_REFRESH_INTERVAL_MS = 1_000;

/**
 * Connects, and keeps reconnecting in the background. Nothing is queued while there is no connection and nothing is sent
 * again after one was lost: both could take a lock long after its owner gave up (decisions in `docs/operations/deployment.md`). Another
 * password or authority is written into `location`, then given to `renewAccess`.
 */
export function connectRedis(
  location: RedisLocation,
  onError: (error: Error) => void,
  warn: (sentence: string) => void = () => {},
): RedisClient {
  const shared: RedisOptions = {
    username: location.username,
    password: location.password,
    ...(location.tls ? { tls: { ...tlsOf(location) } } : {}),
    // For commands that no request waits for. All others have a shorter limit (`reply-limit.ts`).
    commandTimeout: SILENCE_TIMEOUT_MS,
    connectTimeout: CONNECT_TIMEOUT_MS,
    socketTimeout: SILENCE_TIMEOUT_MS,
    disconnectTimeout: DISCONNECT_TIMEOUT_MS,
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    connectionName: 'idempay',
  };
  const client = answeredInTime(createClient(location, shared, warn));
  client.on('error', (error: Error) => {
    // The client would go on with database 0, which belongs to another program.
    if (/DB index|SELECT is not allowed/.test(error.message)) client.disconnect(true);
    onError(withoutCommand(error));
  });
  return client;
}

function createClient(location: RedisLocation, shared: RedisOptions, warn: (sentence: string) => void): RedisClient {
  const alone: RedisOptions = { ...shared, retryStrategy: reconnectDelayMs };
  switch (location.topology) {
    case 'standalone':
      return withScripts(new Redis({ ...alone, ...location.node, db: location.database }));
    case 'sentinel': {
      const sentinels = new Sentinels(location);
      const client = withScripts(
        new Redis({
          ...alone,
          db: location.database,
          // Not the connector of ioredis, which stops for good when a failover is announced while it asks a Sentinel.
          Connector: sentinelConnector(sentinels, location),
          // A master that was demoted while we stayed connected refuses writes: leave it and ask the Sentinels again.
          reconnectOnError: (error) => error.message.startsWith('READONLY'),
        }),
      );
      watchMaster(client, sentinels, warn);
      return client;
    }
    case 'cluster':
      return connectMasters(
        location,
        new Cluster([...location.nodes], {
          redisOptions: shared,
          enableOfflineQueue: false,
          // A Cluster that is down refuses each command itself; waiting for it to be up would queue what came meanwhile.
          enableReadyCheck: false,
          slotsRefreshInterval: SLOTS_REFRESH_INTERVAL_MS,
          // Not sent again after a lost connection; a redirection (MOVED) was never executed and may be followed.
          retryDelayOnFailover: 0,
          retryDelayOnClusterDown: 0,
          clusterRetryStrategy: reconnectDelayMs,
        }),
      );
  }
}

/**
 * Nodes connect on first use, and commands are not queued before that. So masters are connected as soon as they are known. Each node gets
 * the present access, because the Cluster makes it with the options that it copied when it was made itself.
 */
function connectMasters(location: RedisLocation, cluster: Cluster): Cluster {
  return cluster.on('+node', (node: Redis) => {
    giveAccess(node, location);
    if (!node.options.readOnly)
      withScripts(node)
        .connect()
        .catch(() => {});
  });
}

/**
 * Loads the scripts at each connection. Otherwise a server that hung may answer NOSCRIPT after the caller gave up; a release would
 * then not be repeated, and the lock would stay for its whole lease.
 */
function withScripts(server: Redis): Redis {
  return server.on('ready', () => teachScripts(server));
}

/** Takes the access of the client's location as it is now: the next connections use it, and present ones stay. */
export function renewAccess(client: RedisClient, location: RedisLocation): void {
  for (const server of client instanceof Cluster ? client.nodes('all') : [client]) giveAccess(server, location);
}

function giveAccess({ options }: Redis, location: RedisLocation): void {
  Object.assign(options, { password: location.password, ...(location.tls && { tls: { ...tlsOf(location) } }) });
}

export function reconnectDelayMs(attempt: number): number {
  return Math.min(RECONNECT_MIN_MS * 2 ** Math.min(attempt - 1, 5), RECONNECT_MAX_MS);
}

/**
 * A connection that listens, and is not connected yet: to the same server, or to any master of a Cluster, which tells its
 * subscribers what was published on any other. It does not reconnect: the next one may have to go to another server.
 */
export function listenerBeside(client: RedisClient): Redis | undefined {
  const servers = mastersOf(client);
  return servers[Math.floor(Math.random() * servers.length)]?.duplicate({
    lazyConnect: true,
    retryStrategy: () => null,
    enableOfflineQueue: false,
    connectionName: 'idempay-listener',
  });
}

/** Resolves when every server that holds data is connected, which may never happen. */
export async function connected(client: RedisClient): Promise<void> {
  if (client.status !== 'ready') await new Promise<void>((resolve) => client.once('ready', resolve));
  const connecting = mastersOf(client).filter((server) => server.status !== 'ready');
  await Promise.all(connecting.map((server) => new Promise<void>((resolve) => server.once('ready', resolve))));
}
