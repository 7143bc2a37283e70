import { until } from '../time/until.js';
import { freePort } from './free-port.js';
import { type RedisServer, startRedis } from './redis.js';

const FORM_DEADLINE_MS = 30_000;
const SLOTS = 16_384;
const MASTERS = 3;
/** Short, so that a failover in a test takes seconds; Redis' own default is 15 s. */
export const NODE_TIMEOUT_MS = 1_500;

/** A real Redis Cluster of the test's own: three masters and a replica of each. */
export interface RedisCluster {
  readonly url: string;
  readonly nodes: readonly RedisServer[];
  /** The nodes that are masters at this moment, as one that lives sees them. */
  masters(): Promise<RedisServer[]>;
  /** Waits until all slots are served and every master that lives has a replica in step. */
  whole(): Promise<void>;
  close(): Promise<void>;
}

export async function startCluster(settings: readonly string[] = []): Promise<RedisCluster> {
  const nodes = await Promise.all(Array.from({ length: MASTERS * 2 }, () => startNode(settings)));
  const close = async () => void (await Promise.all(nodes.map(({ server }) => server.close())));
  try {
    await form(nodes);
  } catch (error) {
    await close();
    throw error;
  }
  const servers = nodes.map(({ server }) => server);

  async function living(): Promise<RedisServer> {
    for (const server of servers) if ((await server.client.ping().catch(() => '')) === 'PONG') return server;
    throw new Error('no node of the Cluster lives');
  }

  async function masters(): Promise<RedisServer[]> {
    const slots = await (await living()).client.cluster('SLOTS');
    const ports = new Set(slots.map(([, , master]) => master?.[1]));
    return servers.filter(({ port }) => ports.has(port));
  }

  async function whole(): Promise<void> {
    await until('the Cluster to be whole', FORM_DEADLINE_MS, async () => {
      const infos = await Promise.all(servers.map(({ client }) => client.cluster('INFO').catch(() => '')));
      if (!infos.every((info) => String(info).includes('cluster_state:ok'))) return false;
      const roles = await Promise.all(servers.map(({ client }) => client.info('replication')));
      const inStep = roles.filter((role) => role.includes('master_link_status:up')).length;
      return inStep === MASTERS && roles.filter((role) => role.includes('role:master')).length === MASTERS;
    });
  }

  await whole();
  return {
    url: `redis+cluster://${servers.map(({ port }) => `127.0.0.1:${port}`).join(',')}`,
    nodes: servers,
    masters,
    whole,
    close,
  };
}

interface Node {
  readonly server: RedisServer;
  readonly busPort: number;
}

async function startNode(settings: readonly string[]): Promise<Node> {
  const busPort = await freePort();
  const server = await startRedis([
    ...['--cluster-enabled', 'yes', '--cluster-port', String(busPort)],
    ...['--cluster-node-timeout', String(NODE_TIMEOUT_MS), '--cluster-replica-validity-factor', '0'],
    ...['--repl-diskless-sync-delay', '0', '--appendonly', 'yes'],
    ...settings,
  ]);
  return { server, busPort };
}

/** What `redis-cli --cluster create` does. */
async function form(nodes: readonly Node[]): Promise<void> {
  const ids = await Promise.all(nodes.map(({ server }) => server.client.cluster('MYID') as Promise<string>));
  const first = nodes[0] as Node;
  for (const [index, { server }] of nodes.entries()) {
    await server.client.cluster('SET-CONFIG-EPOCH', index + 1);
    if (index >= MASTERS) continue;
    const from = Math.floor((index * SLOTS) / MASTERS);
    const to = Math.floor(((index + 1) * SLOTS) / MASTERS) - 1;
    await server.client.call('CLUSTER', 'ADDSLOTSRANGE', from, to);
  }
  for (const { server, busPort } of nodes.slice(1)) {
    await first.server.client.call('CLUSTER', 'MEET', '127.0.0.1', server.port, busPort);
  }
  await until('the nodes to know each other', FORM_DEADLINE_MS, async () => {
    const known = await Promise.all(nodes.map(({ server }) => server.client.cluster('NODES') as Promise<string>));
    return known.every((text) => ids.every((id) => text.includes(id)) && !text.includes('handshake'));
  });
  for (const [index, { server }] of nodes.slice(MASTERS).entries()) {
    await server.client.cluster('REPLICATE', ids[index] as string);
  }
}
