import { until } from '../time/until.js';
import { type certificatesIn, tlsSettings } from './certificates.js';
import { type RedisServer, startRedis } from './redis.js';
import { freePort } from './server-process.js';

const FORM_DEADLINE_MS = 30_000;
const SLOTS = 16_384;
/** `nodeTimeoutMs` is short, so that a failover in a test takes seconds; Redis' own default is 15 s. */
const FOR_FAILOVERS = { masters: 3, hasReplicas: true, nodeTimeoutMs: 1_500 };

export type RedisCluster = Awaited<ReturnType<typeof startCluster>>;

/** With certificates a node speaks TLS on a port of its own, and its plain port stays, for the test's own client. */
type Node = RedisServer & { readonly tlsPort: number | undefined };
type Certificates = ReturnType<typeof certificatesIn>;

/** A real Redis Cluster of the test's own: if no shape is given, three masters and a replica of each. */
export async function startCluster(
  { masters: masterCount, hasReplicas, nodeTimeoutMs } = FOR_FAILOVERS,
  certificates?: Certificates,
) {
  const count = hasReplicas ? masterCount * 2 : masterCount;
  const nodes = await Promise.all(Array.from({ length: count }, () => startNode(nodeTimeoutMs, certificates)));
  await form(nodes, masterCount);

  async function living(): Promise<RedisServer> {
    for (const node of nodes) if ((await node.client.ping().catch(() => '')) === 'PONG') return node;
    throw new Error('no node of the Cluster lives');
  }

  async function masters(): Promise<RedisServer[]> {
    const slots = await (await living()).client.cluster('SLOTS');
    const ports = new Set(slots.map(([, , master]) => master?.[1]));
    return nodes.filter(({ port }) => ports.has(port));
  }

  /** Waits until all slots are served and every master that lives has a replica in step. */
  const whole = () =>
    until('the Cluster to be whole', FORM_DEADLINE_MS, async () => {
      const infos = await Promise.all(nodes.map(({ client }) => client.cluster('INFO').catch(() => '')));
      if (!infos.every((info) => String(info).includes('cluster_state:ok'))) return false;
      const roles = await Promise.all(nodes.map(({ client }) => client.info('replication')));
      const inStep = roles.filter((role) => role.includes('master_link_status:up')).length;
      const leading = roles.filter((role) => role.includes('role:master')).length;
      return inStep === count - masterCount && leading === masterCount;
    });

  await whole();
  return {
    url: `${certificates ? 'rediss' : 'redis'}+cluster://${nodes.map(({ port, tlsPort = port }) => `127.0.0.1:${tlsPort}`).join(',')}`,
    nodes,
    masters,
    async giveWay(): Promise<void> {
      const before = await masters();
      const replica = nodes.find((node) => !before.includes(node)) as RedisServer;
      await replica.client.cluster('FAILOVER');
      await until('the replica to be master', FORM_DEADLINE_MS, async () =>
        (await replica.client.info('replication')).includes('role:master'),
      );
    },
    whole,
    async close(): Promise<void> {
      await Promise.all(nodes.map((node) => node.close()));
    },
  };
}

async function startNode(nodeTimeoutMs: number, certificates?: Certificates): Promise<Node> {
  const tlsPort = certificates && (await freePort());
  const server = await startRedis([
    ...['--cluster-enabled', 'yes', '--cluster-port', `${await freePort()}`],
    ...['--cluster-node-timeout', `${nodeTimeoutMs}`, '--cluster-replica-validity-factor', '0'],
    ...['--repl-diskless-sync-delay', '0', '--appendonly', 'yes'],
    ...(certificates && tlsPort
      ? [...tlsSettings(tlsPort, certificates), '--tls-cluster', 'yes', '--tls-replication', 'yes']
      : []),
  ]);
  return { ...server, tlsPort };
}

async function form(nodes: readonly Node[], masters: number): Promise<void> {
  const ids = await Promise.all(nodes.map(({ client }) => client.cluster('MYID') as Promise<string>));
  const first = nodes[0] as Node;
  for (const [index, { client, port, tlsPort = port }] of nodes.entries()) {
    await setEpoch(client, index + 1);
    const [, busPort = ''] = (await client.config('GET', 'cluster-port')) as string[];
    if (index > 0) await first.client.call('CLUSTER', 'MEET', '127.0.0.1', tlsPort, busPort);
    if (index >= masters) continue;
    const [from = 0, end = 0] = [index, index + 1].map((part) => Math.floor((part * SLOTS) / masters));
    await client.call('CLUSTER', 'ADDSLOTSRANGE', from, end - 1);
  }
  await until('the nodes to know each other', FORM_DEADLINE_MS, async () => {
    const known = await Promise.all(nodes.map(({ client }) => client.cluster('NODES') as Promise<string>));
    return known.every((text) => ids.every((id) => text.includes(id)) && !text.includes('handshake'));
  });
  for (const [index, { client }] of nodes.slice(masters).entries()) {
    await client.cluster('REPLICATE', ids[index] as string);
  }
}

/**
 * Sent again after a lost connection, the command finds its own work, and refuses. Any value of a node is good: the nodes settle equal
 * ones.
 */
async function setEpoch(client: RedisServer['client'], epoch: number): Promise<void> {
  await client.cluster('SET-CONFIG-EPOCH', epoch).catch((error: Error) => {
    if (!error.message.includes('config epoch is already non-zero')) throw error;
  });
}
