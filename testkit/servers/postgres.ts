import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { chmod, chown, cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { until } from '../time/until.js';
import { findPostgres } from './binaries.js';
import { freePort } from './free-port.js';
import { runSql } from './run-sql.js';
import { endServer } from './server-process.js';

const run = promisify(execFile);
const START_DEADLINE_MS = 20_000;
/** PostgreSQL refuses to run as root; nobody is on every Debian. */
export const NOBODY = 65_534;
/** Whom its processes run as, and to whom its files belong. */
export const OWNER = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : undefined;

/** A real PostgreSQL server of the test's own, on a free port, its data in a temporary folder. */
export interface PostgresServer {
  readonly port: number;
  /** URL of a database of that name, which must exist. */
  url(database: string): string;
  createDatabase(name: string): Promise<string>;
  dropDatabase(name: string): Promise<void>;
  /** What `pg_ctl stop -m immediate` does: SIGQUIT, no clean-up; the next start recovers from the log. */
  stopImmediately(): Promise<void>;
  start(): Promise<void>;
  close(): Promise<void>;
}

/** `settings` are `name=value` of postgresql.conf; without them commits wait for the disk as they do in production. */
export async function startPostgres(
  settings: readonly string[] = [],
  folderOfBinaries?: string,
): Promise<PostgresServer> {
  const folder = await mkdtemp(join(tmpdir(), 'idempay-postgres-'));
  if (OWNER) await chown(folder, OWNER.uid, OWNER.gid);
  const binaries = await runnableBinaries(folderOfBinaries ?? (await findPostgres()), folder);
  const data = join(folder, 'data');
  await run(join(binaries, 'initdb'), ['-D', data, '-U', 'idempay', '-A', 'trust', '-E', 'UTF8', '--no-sync'], OWNER);
  const port = await freePort();
  const url = urlsAt(port);
  let child: ChildProcess | undefined;

  async function start(): Promise<void> {
    child = await spawnPostgres(binaries, folder, port, settings);
  }

  await start();
  return {
    port,
    url,
    async createDatabase(name) {
      await runSql(url('postgres'), `CREATE DATABASE "${name}"`);
      return url(name);
    },
    async dropDatabase(name) {
      await runSql(url('postgres'), `DROP DATABASE IF EXISTS "${name}" WITH (FORCE)`);
    },
    stopImmediately: () => endServer(child, 'SIGQUIT'),
    start,
    async close() {
      await endServer(child, 'SIGQUIT');
      await rm(folder, { recursive: true, force: true });
    },
  };
}

export function urlsAt(port: number): (database: string) => string {
  return (database) => `postgres://idempay@127.0.0.1:${port}/${database}`;
}

/** A server over `folder/data`; resolves when it answers. */
export async function spawnPostgres(
  binaries: string,
  folder: string,
  port: number,
  settings: readonly string[],
): Promise<ChildProcess> {
  const usual = ['listen_addresses=127.0.0.1', `unix_socket_directories=${folder}`, 'max_connections=200'];
  const options = [...usual, ...settings].flatMap((setting) => ['-c', setting]);
  const child = spawn(join(binaries, 'postgres'), ['-D', join(folder, 'data'), '-p', String(port), ...options], {
    ...OWNER,
    stdio: 'ignore',
  });
  await until('PostgreSQL to answer', START_DEADLINE_MS, () =>
    runSql(urlsAt(port)('postgres'), 'SELECT 1').catch(() => undefined),
  );
  return child;
}

/** Binaries below a home that only root may enter cannot be run by nobody; then a copy in the temporary folder can. */
async function runnableBinaries(binaries: string, folder: string): Promise<string> {
  if (!OWNER || binaries.startsWith('/usr/')) return binaries;
  const copy = join(folder, 'native');
  await cp(join(binaries, '..'), copy, { recursive: true, verbatimSymlinks: true });
  await chmod(folder, 0o755);
  return join(copy, 'bin');
}
