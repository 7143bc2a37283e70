import { until } from '../time/until.js';
import { type RedisServer, startRedis } from './redis.js';

const FORM_DEADLINE_MS = 30_000;
const MASTER = 'idempay';
const SENTINELS = 3;
const REPLICAS = 2;
/** Short, so that a failover in a test takes seconds; the default is 30 s. */
const DOWN_AFTER_MS = 1_000;
const PERSISTENCE = ['--appendonly', 'yes', '--repl-diskless-sync-delay', '0'];

export type SentinelTrio = Awaited<ReturnType<typeof startSentinelTrio>>;

/** Three real Sentinels that watch a master with two replicas, all of the test's own. */
export async function startSentinelTrio() {
  const first = await startRedis(PERSISTENCE);
  const replicated = [...PERSISTENCE, '--replicaof', '127.0.0.1', `${first.port}`];
  const servers = [first, ...(await Promise.all(Array.from({ length: REPLICAS }, () => startRedis(replicated))))];
  const sentinels = await Promise.all(Array.from({ length: SENTINELS }, () => startSentinel(first.port)));
  const ask = (...words: string[]) => (sentinels[0] as RedisServer).client.call('SENTINEL', ...words, MASTER);

  async function master(): Promise<RedisServer> {
    const [, port] = (await ask('GET-MASTER-ADDR-BY-NAME')) as string[];
    const found = servers.find((server) => server.port === Number(port));
    if (!found) throw new Error(`the Sentinels name a master on port ${port}, which is none of ours`);
    return found;
  }

  async function isWhole(): Promise<boolean> {
    for (const { client } of sentinels) {
      const seen = (await client.call('SENTINEL', 'MASTER', MASTER)) as string[];
      const field = (name: string) => seen[seen.indexOf(name) + 1];
      const inStep = field('num-slaves') === `${REPLICAS}` && field('num-other-sentinels') === `${SENTINELS - 1}`;
      if (field('flags') !== 'master' || !inStep) return false;
    }
    const role = await (await master()).client.info('replication').catch(() => '');
    return role.includes('role:master') && (role.match(/state=online/g) ?? []).length === REPLICAS;
  }

  const whole = () => until('the Sentinels to see a whole set', FORM_DEADLINE_MS, isWhole);
  await whole();
  return {
    url: `redis+sentinel://${sentinels.map(({ port }) => `127.0.0.1:${port}`).join(',')}/${MASTER}`,
    sentinels,
    servers,
    master,
    masters: async () => [await master()],
    async giveWay(): Promise<void> {
      const before = await master();
      await ask('FAILOVER');
      await until('another master', FORM_DEADLINE_MS, async () => (await master()) !== before);
    },
    whole,
    async close(): Promise<void> {
      await Promise.all([...sentinels, ...servers].map((each) => each.close()));
    },
  };
}

/** One that watches the master on that port. It must not be started again: its file would name the master twice. */
export function startSentinel(masterPort: number, settings: readonly string[] = []): Promise<RedisServer> {
  const sentinel = (name: string, ...values: string[]) => ['--sentinel', name, MASTER, ...values];
  return startRedis([
    '--sentinel',
    ...settings,
    ...sentinel('monitor', '127.0.0.1', `${masterPort}`, '2'),
    ...sentinel('down-after-milliseconds', `${DOWN_AFTER_MS}`),
    ...sentinel('failover-timeout', '3000'),
    ...sentinel('parallel-syncs', `${REPLICAS}`),
  ]);
}
