import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { until } from '../time/until.js';
import { type Binary, findRedis } from './binaries.js';
import { freePort } from './free-port.js';
import { endServer } from './server-process.js';

const START_DEADLINE_MS = 10_000;

/** A real Redis server of the test's own, on a free port, its data in a temporary folder. */
export interface RedisServer {
  readonly port: number;
  readonly url: string;
  readonly pid: number;
  /** A client for looking at what the service left there. */
  readonly client: Redis;
  signal(name: NodeJS.Signals): void;
  /** SIGKILL; the folder stays, so that `start` brings back what was on the disk. */
  kill(): Promise<void>;
  /** SIGTERM, with a last save when it persists. */
  stop(): Promise<void>;
  start(): Promise<void>;
  close(): Promise<void>;
}

/** `settings` are lines of redis.conf as arguments, such as `['--appendonly', 'yes']`. */
export function startRedis(settings: readonly string[] = [], program?: Binary): Promise<RedisServer> {
  return startRedisProgram(
    (port, folder) => [
      ...['--port', String(port), '--bind', '127.0.0.1', '--dir', folder, '--save', '', '--daemonize', 'no'],
      ...settings,
    ],
    program,
  );
}

/** Redis or a Sentinel, with the arguments for a free port and a temporary folder. */
export async function startRedisProgram(
  argumentsFor: (port: number, folder: string) => Promise<readonly string[]> | readonly string[],
  program?: Binary,
): Promise<RedisServer> {
  const { path, environment } = program ?? (await findRedis());
  const folder = await mkdtemp(join(tmpdir(), 'idempay-redis-'));
  const port = await freePort();
  const parameters = await argumentsFor(port, folder);
  const client = new Redis({ host: '127.0.0.1', port, lazyConnect: true, maxRetriesPerRequest: 1 });
  client.on('error', () => {});
  let child: ChildProcess | undefined;

  async function start(): Promise<void> {
    child = spawn(path, parameters, { env: environment, stdio: 'ignore' });
    await until('Redis to answer', START_DEADLINE_MS, async () => (await client.ping().catch(() => '')) === 'PONG');
  }

  await start();
  return {
    port,
    url: `redis://127.0.0.1:${port}`,
    get pid() {
      return child?.pid ?? 0;
    },
    client,
    signal: (name) => child?.kill(name),
    kill: () => endServer(child, 'SIGKILL'),
    stop: () => endServer(child, 'SIGTERM'),
    start,
    async close() {
      client.disconnect();
      await endServer(child, 'SIGKILL');
      await rm(folder, { recursive: true, force: true });
    },
  };
}
