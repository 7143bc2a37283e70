import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { until } from '../time/until.js';
import { findServer } from './binaries.js';
import { endServer, freePort } from './server-process.js';

const START_DEADLINE_MS = 10_000;

export type RedisServer = Awaited<ReturnType<typeof startRedis>>;

/**
 * A real Redis server of the test's own, on a free port, its data in a temporary folder. `settings` are lines of redis.conf
 * as arguments, such as `['--appendonly', 'yes']`; with `--sentinel` it is a Sentinel.
 */
export async function startRedis(
  settings: readonly string[] = [],
  program: 'redis' | 'valkey' = 'redis',
  startDeadlineMs = START_DEADLINE_MS,
) {
  const { path, environment } = await findServer(program);
  const folder = await mkdtemp(join(tmpdir(), 'idempay-redis-'));
  const port = await freePort();
  const usual = ['--port', `${port}`, '--bind', '127.0.0.1', '--dir', folder, '--save', '', '--daemonize', 'no'];
  const parameters = [...usual, ...settings];
  if (settings.includes('--sentinel')) {
    // Sentinels write what they learn into their file of settings.
    const file = join(folder, 'sentinel.conf');
    await writeFile(file, '');
    parameters.unshift(file);
  }
  const client = new Redis({ host: '127.0.0.1', port, lazyConnect: true, maxRetriesPerRequest: 1 });
  client.on('error', () => {});
  let child: ChildProcess | undefined;

  async function start(): Promise<void> {
    child = spawn(path, parameters, { env: environment, stdio: 'ignore' });
    await until('Redis to answer', startDeadlineMs, async () => (await client.ping().catch(() => '')) === 'PONG');
  }

  await start();
  return {
    port,
    url: `redis://127.0.0.1:${port}`,
    client,
    /** The id of the process that runs now. */
    pid: () => child?.pid as number,
    /** How often the command was run so far, also within scripts. */
    async timesRun(command: string): Promise<number> {
      const stats = await client.info('commandstats');
      return Number(new RegExp(`^cmdstat_${command}:calls=(\\d+)`, 'm').exec(stats)?.[1] ?? 0);
    },
    signal: (name: NodeJS.Signals): void => void child?.kill(name),
    /** SIGKILL; the folder stays, so that `start` brings back what was on the disk. */
    kill: () => endServer(child, 'SIGKILL'),
    start,
    async close(): Promise<void> {
      client.disconnect();
      await endServer(child, 'SIGKILL');
      // After the server is killed, its child that writes a snapshot may still write for a moment.
      await rm(folder, { recursive: true, force: true, maxRetries: 10 });
    },
  };
}
