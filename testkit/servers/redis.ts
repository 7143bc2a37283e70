import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { until } from '../time/until.js';
import { type Binary, findRedis } from './binaries.js';
import { freePort } from './free-port.js';

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
export async function startRedis(settings: readonly string[] = [], program?: Binary): Promise<RedisServer> {
  const binary = program ?? (await findRedis());
  const folder = await mkdtemp(join(tmpdir(), 'idempay-redis-'));
  const port = await freePort();
  const client = new Redis({ host: '127.0.0.1', port, lazyConnect: true, maxRetriesPerRequest: 1 });
  client.on('error', () => {});
  let child: ChildProcess | undefined;

  async function start(): Promise<void> {
    const base = ['--port', String(port), '--bind', '127.0.0.1', '--dir', folder, '--save', '', '--daemonize', 'no'];
    child = spawn(binary.path, [...base, ...settings], { env: binary.environment, stdio: 'ignore' });
    await until('Redis to answer', START_DEADLINE_MS, async () => (await client.ping().catch(() => '')) === 'PONG');
  }

  async function end(signal: NodeJS.Signals): Promise<void> {
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, 'exit');
    child.kill(signal);
    await exited;
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
    kill: () => end('SIGKILL'),
    stop: () => end('SIGTERM'),
    start,
    async close() {
      client.disconnect();
      await end('SIGKILL');
      await rm(folder, { recursive: true, force: true });
    },
  };
}
