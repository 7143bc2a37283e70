import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { until } from '../time/until.js';
import { findRedis } from './binaries.js';
import { freePort } from './free-port.js';
import { type RedisServer, startRedis } from './redis.js';

const FORM_DEADLINE_MS = 30_000;
const MASTER = 'idempay';
const SENTINELS = 3;
const REPLICAS = 2;
/** Short, so that a failover in a test takes seconds; the default is 30 s. */
export const DOWN_AFTER_MS = 1_000;

/** Three real Sentinels that watch a master with two replicas, all of the test's own. */
export interface SentinelTrio {
  readonly url: string;
  /** The servers that hold data, whatever their roles are at this moment. */
  readonly servers: readonly RedisServer[];
  master(): Promise<RedisServer>;
  /** Has the Sentinels replace a master that is well. */
  giveWay(): Promise<void>;
  /** SIGSTOP for the Sentinel that the URL names first: it takes connections and says nothing. */
  pauseFirst(): void;
  /** SIGSTOP and SIGCONT for all of them. */
  pauseAll(): void;
  resumeAll(): void;
  /** Waits until the master has both its replicas in step and every Sentinel says so. */
  whole(): Promise<void>;
  close(): Promise<void>;
}

export async function startSentinelTrio(settings: readonly string[] = []): Promise<SentinelTrio> {
  const persistence = ['--appendonly', 'yes', '--repl-diskless-sync-delay', '0', ...settings];
  const master = await startRedis(persistence);
  const replicas = await Promise.all(
    Array.from({ length: REPLICAS }, () => startRedis([...persistence, '--replicaof', '127.0.0.1', `${master.port}`])),
  );
  const servers = [master, ...replicas];
  const sentinels = await Promise.all(Array.from({ length: SENTINELS }, () => startSentinel(master.port)));

  async function find(): Promise<RedisServer> {
    const asked = (sentinels[0] as Sentinel).client;
    const [, port] = (await asked.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', MASTER)) as string[];
    const found = servers.find((server) => server.port === Number(port));
    if (!found) throw new Error(`the Sentinels name a master on port ${port}, which is none of ours`);
    return found;
  }

  async function whole(): Promise<void> {
    await until('the Sentinels to see a whole set', FORM_DEADLINE_MS, async () => {
      const seen = await Promise.all(
        sentinels.map(async ({ client }) => (await client.call('SENTINEL', 'MASTER', MASTER)) as string[]),
      );
      const agreed = seen.every((master) => {
        const field = (name: string) => master[master.indexOf(name) + 1];
        return (
          field('flags') === 'master' &&
          field('num-slaves') === String(REPLICAS) &&
          field('num-other-sentinels') === String(SENTINELS - 1)
        );
      });
      const role = await (await find()).client.info('replication').catch(() => '');
      return agreed && role.includes('role:master') && (role.match(/state=online/g) ?? []).length === REPLICAS;
    });
  }

  const trio: SentinelTrio = {
    url: `redis+sentinel://${sentinels.map(({ port }) => `127.0.0.1:${port}`).join(',')}/${MASTER}`,
    servers,
    master: find,
    async giveWay() {
      const before = await find();
      await (sentinels[0] as Sentinel).client.call('SENTINEL', 'FAILOVER', MASTER);
      await until('another master', FORM_DEADLINE_MS, async () => (await find()) !== before);
    },
    pauseFirst: () => (sentinels[0] as Sentinel).pause(),
    pauseAll() {
      for (const sentinel of sentinels) sentinel.pause();
    },
    resumeAll() {
      for (const sentinel of sentinels) sentinel.resume();
    },
    whole,
    async close() {
      await Promise.all([...sentinels, ...servers].map((each) => each.close()));
    },
  };
  await whole();
  return trio;
}

export interface Sentinel {
  readonly port: number;

  readonly client: Redis;
  pause(): void;
  resume(): void;
  close(): Promise<void>;
}

/** A Sentinel rewrites its own file of settings, so each has one; `more` are lines of it. */
export async function startSentinel(masterPort: number, more: readonly string[] = []): Promise<Sentinel> {
  const binary = await findRedis();
  const folder = await mkdtemp(join(tmpdir(), 'idempay-sentinel-'));
  const port = await freePort();
  const file = join(folder, 'sentinel.conf');
  await writeFile(
    file,
    [
      `port ${port}`,
      'bind 127.0.0.1',
      `dir ${folder}`,
      `sentinel monitor ${MASTER} 127.0.0.1 ${masterPort} 2`,
      `sentinel down-after-milliseconds ${MASTER} ${DOWN_AFTER_MS}`,
      `sentinel failover-timeout ${MASTER} 3000`,
      `sentinel parallel-syncs ${MASTER} ${REPLICAS}`,
      ...more,
      '',
    ].join('\n'),
  );
  const child: ChildProcess = spawn(binary.path, [file, '--sentinel'], { env: binary.environment, stdio: 'ignore' });
  const client = new Redis({ host: '127.0.0.1', port, maxRetriesPerRequest: 1 });
  client.on('error', () => {});
  await until('a Sentinel to answer', FORM_DEADLINE_MS, async () => (await client.ping().catch(() => '')) === 'PONG');
  return {
    port,
    client,
    pause: () => void child.kill('SIGSTOP'),
    resume: () => void child.kill('SIGCONT'),
    async close() {
      client.disconnect();
      if (child.exitCode === null && child.signalCode === null) {
        const exited = once(child, 'exit');
        child.kill('SIGKILL');
        await exited;
      }
      await rm(folder, { recursive: true, force: true });
    },
  };
}
