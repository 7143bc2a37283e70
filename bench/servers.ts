// The measured servers, as the test kit starts them, with their CPU time. Everything is closed with `opened`.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Opened } from '../testkit/opened.js';
import { type Environment, startProgram } from '../testkit/processes/service.js';
import { REFERENCE_PROCESSOR, ROOT, SERVICE } from '../testkit/programs.js';
import { startCluster } from '../testkit/servers/cluster.js';
import { startPostgres } from '../testkit/servers/postgres.js';
import { startRedis } from '../testkit/servers/redis.js';
import { cpuTimeUs, familyCpuTimeUs } from './cpu-time.js';
import type { Deployment } from './options.js';

/** As a payment service would set it: on disk every second, and no key evicted when memory is full. */
const REDIS_SETTINGS = ['--appendonly', 'yes', '--maxmemory-policy', 'noeviction'];
/** Ten million keys take 40 s to load. */
const LOAD_DEADLINE_MS = 300_000;
/** They make an acknowledged payment durable. They are the defaults, but set explicitly, because without them the results mean nothing. */
const DURABLE = ['fsync=on', 'synchronous_commit=on', 'full_page_writes=on'];
/** The default of Redis itself: nodes that are busy with the load must not take each other for failed. */
const NODE_TIMEOUT_MS = 15_000;

export type Server = Awaited<ReturnType<typeof openProgram>>;
export type RedisStore = Awaited<ReturnType<typeof openRedis>>;
export type PostgresStore = Awaited<ReturnType<typeof openPostgres>>;

/** A folder that is gone when the benchmark is. */
export async function temporaryFolder(opened: Opened): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'idempay-bench-'));
  await opened.keep({ close: () => rm(folder, { recursive: true, force: true, maxRetries: 5 }) });
  return folder;
}

/** A service, a bare Fastify, or another program that logs "listening" with its port. */
export function openProgram(opened: Opened, program: string, environment: Environment = {}, node?: string) {
  return opened.keep(startMeasured(program, environment, node));
}

async function startMeasured(program: string, environment: Environment, node?: string) {
  const settings = { HOST: '127.0.0.1', PORT: '0', ...environment };
  // The shell becomes the other Node.js, in place of the one that runs the benchmark.
  const launcher = node === undefined ? [] : ['sh', '-c', 'shift; exec "$0" "$@"', node];
  const { url, port, pid, logs, stop, kill } = await startProgram(program, settings, launcher);
  const close = async () => {
    const { code } = await stop();
    // The other servers must still be closed, so nothing is thrown.
    if (code) console.error(`${program} ended with ${code}`);
    if (code) process.exitCode = 1;
  };
  return { url, port, pid, logs, cpuUs: () => cpuTimeUs(pid), close, kill };
}

/** A server of this folder, compiled. */
export const benchProgram = (name: string) => join(ROOT, 'build', 'bench', `${name}.js`);

/** The processor that users have at first: it answers at once, and its log is on the disk before. */
export async function openProcessor(opened: Opened, chargeLog: string, settings: Environment = {}) {
  const environment = { PROCESSOR_HOST: '127.0.0.1', PROCESSOR_PORT: '0', CHARGE_LOG: chargeLog, ...settings };
  return openProgram(opened, REFERENCE_PROCESSOR, environment);
}

export async function openRedis(opened: Opened) {
  const server = await opened.keep(startRedis(REDIS_SETTINGS, 'redis', LOAD_DEADLINE_MS));
  return { ...server, cpuUs: () => cpuTimeUs(server.pid()) };
}

/** So many masters that share the slots of one Cluster, without replicas. */
export async function openCluster(opened: Opened, masters: number) {
  const { url, nodes } = await opened.keep(
    startCluster({ masters, hasReplicas: false, nodeTimeoutMs: NODE_TIMEOUT_MS }),
  );
  return { url, nodes: nodes.map((node) => ({ ...node, cpuUs: () => cpuTimeUs(node.pid()) })) };
}

export async function openPostgres(opened: Opened) {
  const server = await opened.keep(startPostgres(DURABLE));
  return { ...server, url: server.url('postgres'), cpuUs: () => familyCpuTimeUs(server.pid()) };
}

/** A service with stores of its own. */
export async function openService(
  opened: Opened,
  deployment: Deployment,
  { program = SERVICE, settings = {} }: { program?: string; settings?: Environment } = {},
) {
  if (deployment === 'embedded') {
    const where = { DATA_DIR: join(await temporaryFolder(opened), 'data') };
    const environment = { ...where, ...settings };
    return { ...(await openProgram(opened, program, environment)), environment, postgres: undefined };
  }
  const [redis, postgres] = [await openRedis(opened), await openPostgres(opened)];
  const environment = { REDIS_URL: redis.url, DATABASE_URL: postgres.url, ...settings };
  return { ...(await openProgram(opened, program, environment)), environment, postgres };
}
