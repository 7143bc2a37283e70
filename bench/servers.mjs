// Real stores for the distributed deployment: Redis and PostgreSQL on free ports, their data in temporary folders. Nothing
// is installed for it: what is not there is named in a sentence.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync } from 'node:fs';
import { chown } from 'node:fs/promises';
import { createServer } from 'node:net';
import { delimiter, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Redis } from 'ioredis';
import pg from 'pg';
import { cpuTimeUs, familyCpuTimeUs, temporaryFolder, watch } from './processes.mjs';

const run = promisify(execFile);
/** A Redis that has many records to load says so until it is ready. */
const START_DEADLINE_MS = 120_000;
const POLL_MS = 50;
const SLOTS = 16_384;
/** PostgreSQL refuses to run as root; nobody is on every Debian. */
const NOBODY = 65_534;
const DEBIAN_POSTGRES = '/usr/lib/postgresql';
/** Where the tests unpack Debian's Redis on a machine that has none. */
const UNPACKED_REDIS = fileURLToPath(new URL('../node_modules/.cache/test-servers/redis/', import.meta.url));
/** As a payment service would set it: on disk every second, and no key evicted when memory is full. */
const REDIS_SETTINGS = ['--appendonly', 'yes', '--maxmemory-policy', 'noeviction', '--save', ''];
/** Settings that make an acknowledged payment durable. They are the defaults, but set explicitly: without them the results mean nothing. */
const DURABLE = { fsync: 'on', synchronous_commit: 'on', full_page_writes: 'on' };

/**
 * @typedef {object} Store
 * @property {string} url
 * @property {number} port
 * @property {number} pid
 * @property {string} [data]  PostgreSQL's folder
 * @property {() => number} cpuUs  of all its processes since it started
 * @property {() => Promise<void>} stop
 */

/**
 * @param {{ folder?: string, settings?: string[] }} place  where its data is, and was before; without it that is nowhere after the run
 * @returns {Promise<Store>}
 */
export async function startRedis({ folder: kept, settings = [] } = {}) {
  const { path, environment } = findRedis();
  const [folder, port] = [kept ?? (await temporaryFolder()), await freePort()];
  const place = ['--port', String(port), '--bind', '127.0.0.1', '--dir', folder];
  const child = spawn(path, [...place, ...REDIS_SETTINGS, ...settings], { env: environment, stdio: 'ignore' });
  const ended = watch(child);
  const client = new Redis({ host: '127.0.0.1', port, lazyConnect: true, maxRetriesPerRequest: 0 });
  client.on('error', () => {});
  await untilAnswers('Redis', ended, () => client.ping());
  client.disconnect();
  return {
    url: `redis://127.0.0.1:${port}`,
    port,
    pid: child.pid,
    cpuUs: () => cpuTimeUs(child.pid),
    stop: () => end(child, 'SIGKILL', ended),
  };
}

/** So many masters that share the slots of one Cluster, without replicas. */
export async function startRedisCluster(masters) {
  const nodes = [];
  for (let index = 0; index < masters; index += 1) {
    const settings = ['--cluster-enabled', 'yes', '--cluster-port', String(await freePort())];
    nodes.push(await startRedis({ settings }));
  }
  const clients = nodes.map(({ url }) => new Redis(url));
  for (const [index, client] of clients.entries()) {
    const [from, end] = [index, index + 1].map((part) => Math.floor((part * SLOTS) / masters));
    await client.call('CLUSTER', 'SET-CONFIG-EPOCH', index + 1);
    await client.call('CLUSTER', 'ADDSLOTSRANGE', from, end - 1);
    const [, busPort] = await client.config('GET', 'cluster-port');
    if (index > 0) await clients[0].call('CLUSTER', 'MEET', '127.0.0.1', nodes[index].port, busPort);
  }
  for (const client of clients) {
    while (!isWhole(await client.cluster('INFO'), masters)) await delay(POLL_MS);
    client.disconnect();
  }
  return { url: `redis+cluster://${nodes.map(({ port }) => `127.0.0.1:${port}`).join(',')}`, nodes };
}

function isWhole(info, masters) {
  return info.includes('cluster_state:ok') && info.includes(`cluster_known_nodes:${masters}\r`);
}

/** The same for PostgreSQL. @returns {Promise<Store>} */
export async function startPostgres({ folder: kept } = {}) {
  const binaries = findPostgres();
  const [folder, port] = [kept ?? (await temporaryFolder()), await freePort()];
  const owner = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {};
  if (owner.uid !== undefined) await chown(folder, owner.uid, owner.gid);
  const data = join(folder, 'data');
  if (!existsSync(data)) {
    await run(join(binaries, 'initdb'), ['-D', data, '-U', 'idempay', '-A', 'trust', '-E', 'UTF8', '--no-sync'], owner);
  }
  const settings = { listen_addresses: '127.0.0.1', unix_socket_directories: folder, ...DURABLE };
  const options = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const child = spawn(join(binaries, 'postgres'), ['-D', data, '-p', String(port), ...options], {
    ...owner,
    stdio: 'ignore',
  });
  // SIGQUIT also reaches the processes of its connections; SIGKILL would not.
  const ended = watch(child, 'SIGQUIT');
  const url = `postgres://idempay@127.0.0.1:${port}/postgres`;
  await untilAnswers('PostgreSQL', ended, () => connectOnce(url));
  return {
    url,
    port,
    pid: child.pid,
    data,
    cpuUs: () => familyCpuTimeUs(child.pid),
    stop: () => end(child, 'SIGQUIT', ended),
  };
}

/** Another database of the same PostgreSQL. @returns {Promise<Store>} */
export async function createDatabase(postgres, name) {
  const client = new pg.Client({ connectionString: postgres.url });
  await client.connect();
  await client.query(`CREATE DATABASE ${name}`);
  await client.end();
  return { ...postgres, url: postgres.url.replace(/[^/]*$/, name) };
}

async function connectOnce(url) {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => {});
  try {
    await client.connect();
  } finally {
    await client.end().catch(() => {});
  }
}

function findRedis() {
  const installed = (process.env.PATH ?? '')
    .split(delimiter)
    .map((folder) => join(folder, 'redis-server'))
    .find((path) => existsSync(path));
  if (installed) return { path: installed, environment: process.env };
  const path = join(UNPACKED_REDIS, 'usr/bin/redis-server');
  if (!existsSync(path)) throw new Error('it needs redis-server on the PATH: apt-get install redis-server');
  const triplet = { x64: 'x86_64-linux-gnu', arm64: 'aarch64-linux-gnu' }[process.arch] ?? '';
  return { path, environment: { ...process.env, LD_LIBRARY_PATH: join(UNPACKED_REDIS, 'usr/lib', triplet) } };
}

/** The folder of the newest PostgreSQL's programs. */
function findPostgres() {
  const versions = existsSync(DEBIAN_POSTGRES) ? readdirSync(DEBIAN_POSTGRES) : [];
  const newestFirst = versions.toSorted((a, b) => Number(b) - Number(a));
  const folder = newestFirst
    .map((version) => join(DEBIAN_POSTGRES, version, 'bin'))
    .find((bin) => existsSync(join(bin, 'initdb')));
  if (!folder) throw new Error(`it needs PostgreSQL in ${DEBIAN_POSTGRES}: apt-get install postgresql`);
  return folder;
}

async function untilAnswers(name, ended, ask) {
  const giveUpAt = performance.now() + START_DEADLINE_MS;
  let hasEnded = false;
  ended.then(() => {
    hasEnded = true;
  });
  for (;;) {
    try {
      await ask();
      return;
    } catch (cause) {
      if (hasEnded) throw new Error(`${name} ended before it answered`, { cause });
      if (performance.now() > giveUpAt) throw new Error(`${name} did not answer in time`, { cause });
      await delay(POLL_MS);
    }
  }
}

async function end(child, signal, ended) {
  child.kill(signal);
  await ended;
}

/** A port of 127.0.0.1 that nobody listens on at this moment. */
export async function freePort() {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}
