import { setTimeout as delay } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { messageOf } from './fault.js';
import { infoOf, type RedisInfo } from './info.js';
import type { RedisLocation, RedisNode } from './url.js';
import { visit, wrongRedis } from './visit.js';

/** A failover makes a replica the master within this time; after it a replica is a wrong setting. */
const REPLICA_PATIENCE_MS = 3_000;
const TRY_AGAIN_MS = 500;
/** Changes nothing, and is refused to a user who may not run scripts or may not write our keys. */
const PROBE = "return redis.call('DEL', KEYS[1])";
const PROBED_KEY = 'idempay:{start}';

/**
 * Visits the servers of `REDIS_URL`. Throws CannotOpen when one is there and the setting cannot be right: its database,
 * user, password, TLS or topology. A server that is away may come later, so nothing is said of it. Takes some seconds at
 * most.
 */
export async function refuseWrongRedis(location: RedisLocation, warn: (sentence: string) => void): Promise<void> {
  switch (location.topology) {
    case 'standalone':
      return refuseWrongServer(location.node, location, warn);
    case 'sentinel': {
      const master = await firstAnswer(location.sentinels, (node) => masterFrom(node, location));
      if (master) await visit(master, location.tls, (server) => lookAt(server, master, location, warn));
      return;
    }
    case 'cluster':
      await firstAnswer(location.nodes, (node) =>
        visit(node, location.tls, (server) => lookAt(server, node, location, warn)),
      );
  }
}

async function refuseWrongServer(
  node: RedisNode,
  location: RedisLocation,
  warn: (sentence: string) => void,
): Promise<void> {
  const startedAt = performance.now();
  while ((await visit(node, location.tls, (server) => lookAt(server, node, location, warn))) === 'replica') {
    if (performance.now() - startedAt > REPLICA_PATIENCE_MS) {
      const advice = 'Name its master, or have Sentinels find it: redis+sentinel://host:26379/master';
      throw wrongRedis(node, 'it is a replica, which takes no writes', advice);
    }
    await delay(TRY_AGAIN_MS);
  }
}

/** What the nodes say, asked all at once: one that answers is enough. Without any, the first refusal is thrown. */
async function firstAnswer<T>(
  nodes: readonly RedisNode[],
  ask: (node: RedisNode) => Promise<T | undefined>,
): Promise<T | undefined> {
  const answers = await Promise.allSettled(nodes.map(ask));
  for (const answer of answers) if (answer.status === 'fulfilled' && answer.value !== undefined) return answer.value;
  for (const answer of answers) if (answer.status === 'rejected') throw answer.reason;
  return undefined;
}

/** Throws when the server cannot be the one that the URL describes. */
async function lookAt(
  server: Redis,
  node: RedisNode,
  location: RedisLocation,
  warn: (sentence: string) => void,
): Promise<'master' | 'replica'> {
  const info = await enter(server, node, location, warn);
  const refusal = await refusalOfWrites(server).catch(() => undefined);
  // Other refusals, such as a slot of another node, are not about rights.
  if (refusal && messageOf(refusal).startsWith('NOPERM')) throw refusal;
  return info.get('role') === 'slave' ? 'replica' : 'master';
}

/**
 * Logs in as the service will, and selects its database. Throws CannotOpen when the server is of another topology than the URL,
 * and the server's own refusals.
 */
export async function enter(
  server: Redis,
  node: RedisNode,
  location: RedisLocation,
  warn: (sentence: string) => void,
): Promise<RedisInfo> {
  await logIn(server, location, warn);
  const info = await infoOf(server);
  // Valkey has a name of its own for it.
  const mode = info.get('redis_mode') ?? info.get('server_mode');
  const isCluster = location.topology === 'cluster';
  if (mode === 'sentinel') {
    throw wrongRedis(node, 'it is a Sentinel', 'Write redis+sentinel://host:26379/master');
  }
  if (mode === 'cluster' && !isCluster) {
    throw wrongRedis(node, 'it is a node of a Cluster', 'Write redis+cluster://host:6379,host:6379');
  }
  if (mode === 'standalone' && isCluster) {
    throw wrongRedis(node, 'it is not a node of a Cluster', 'Write redis://host:6379, or turn cluster-enabled on');
  }
  if (!isCluster && location.database !== 0) await server.select(location.database);
  return info;
}

/** The error with which the server refuses our writes; undefined when it accepts them. Rejects when there is no answer. */
export async function refusalOfWrites(server: Redis): Promise<Error | undefined> {
  return server.eval(PROBE, 1, PROBED_KEY).then(
    () => undefined,
    (error: Error) => {
      if (error.name === 'ReplyError') return error;
      throw error;
    },
  );
}

async function logIn(
  server: Redis,
  { username, password }: RedisLocation,
  warn: (sentence: string) => void,
): Promise<void> {
  if (username === undefined && password === undefined) return;
  try {
    await (username === undefined ? server.auth(password ?? '') : server.auth(username, password ?? ''));
  } catch (error) {
    // A password is often set at the clients first, so that the server can require it without an outage.
    if (!/without any password configured|no password is set/.test(messageOf(error))) throw error;
    warn('Redis asks for no password, although REDIS_URL has one: set requirepass or an ACL user at the server');
  }
}

/** Where the Sentinel says that the master is. */
export async function masterFrom(
  node: RedisNode,
  location: RedisLocation & { readonly topology: 'sentinel' },
): Promise<RedisNode | undefined> {
  return visit(node, location.tls, async (sentinel) => {
    const address = await askForMaster(sentinel, node, location.master);
    if (address) return { host: String(address[0]), port: Number(address[1]) };
    const advice = `End REDIS_URL with the name that the Sentinels give to the master`;
    throw wrongRedis(node, `this Sentinel knows no master named ${location.master}`, advice);
  });
}

async function askForMaster(sentinel: Redis, node: RedisNode, name: string): Promise<unknown[] | null> {
  try {
    return (await sentinel.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', name)) as unknown[] | null;
  } catch (error) {
    const refusal = messageOf(error);
    if (/unknown command/i.test(refusal)) {
      throw wrongRedis(node, 'it is not a Sentinel', 'Write redis://host:6379, or redis+cluster:// for a Cluster');
    }
    if (/^NOAUTH|^NOPERM/.test(refusal)) {
      const advice = 'User and password of REDIS_URL are for the data servers: let the Sentinels answer without one';
      throw wrongRedis(node, `this Sentinel asks for a password (${refusal})`, advice);
    }
    throw error;
  }
}
