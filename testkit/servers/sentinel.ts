import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { until } from '../time/until.js';
import { type RedisServer, startRedis, startRedisProgram } from './redis.js';

const FORM_DEADLINE_MS = 30_000;
const MASTER = 'idempay';
const SENTINELS = 3;
const REPLICAS = 2;
/** Short, so that a failover in a test takes seconds; the default is 30 s. */
const DOWN_AFTER_MS = 1_000;

/** Three real Sentinels that watch a master with two replicas, all of the test's own. */
export interface SentinelTrio {
  readonly url: string;
  /** The servers that hold data, whatever their roles are at this moment. */
  readonly servers: readonly RedisServer[];
  /** In the order of the URL. */
  readonly sentinels: readonly RedisServer[];
  master(): Promise<RedisServer>;
  /** Has the Sentinels replace a master that is well. */
  giveWay(): Promise<void>;
  /** Waits until the master has both its replicas in step and every Sentinel says so. */
  whole(): Promise<void>;
  close(): Promise<void>;
}

export async function startSentinelTrio(settings: readonly string[] = []): Promise<SentinelTrio> {
  const persistence = ['--appendonly', 'yes', '--repl-diskless-sync-delay', '0', ...settings];
  const first = await startRedis(persistence);
  const replicas = await Promise.all(
    Array.from({ length: REPLICAS }, () => startRedis([...persistence, '--replicaof', '127.0.0.1', `${first.port}`])),
  );
  const servers = [first, ...replicas];
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

  const trio: SentinelTrio = {
    url: `redis+sentinel://${sentinels.map(({ port }) => `127.0.0.1:${port}`).join(',')}/${MASTER}`,
    servers,
    sentinels,
    master,
    async giveWay() {
      const before = await master();
      await ask('FAILOVER');
      await until('another master', FORM_DEADLINE_MS, async () => (await master()) !== before);
    },
    whole: async () => void (await until('the Sentinels to see a whole set', FORM_DEADLINE_MS, isWhole)),
    async close() {
      await Promise.all([...sentinels, ...servers].map((each) => each.close()));
    },
  };
  await trio.whole();
  return trio;
}

/** A Sentinel rewrites its own file of settings, so each has one; `more` are lines of it. */
export function startSentinel(masterPort: number, more: readonly string[] = []): Promise<RedisServer> {
  return startRedisProgram(async (port, folder) => {
    const file = join(folder, 'sentinel.conf');
    const lines = [
      `port ${port}`,
      'bind 127.0.0.1',
      `dir ${folder}`,
      `sentinel monitor ${MASTER} 127.0.0.1 ${masterPort} 2`,
      `sentinel down-after-milliseconds ${MASTER} ${DOWN_AFTER_MS}`,
      `sentinel failover-timeout ${MASTER} 3000`,
      `sentinel parallel-syncs ${MASTER} ${REPLICAS}`,
      ...more,
      '',
    ];
    await writeFile(file, lines.join('\n'));
    return [file, '--sentinel'];
  });
}
