import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, chown, cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import pg from 'pg';
import { until } from '../time/until.js';
import { findPostgres } from './binaries.js';
import { freePort } from './free-port.js';

const run = promisify(execFile);
const START_DEADLINE_MS = 20_000;
/** PostgreSQL refuses to run as root; nobody is on every Debian. */
const NOBODY = 65_534;

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
  const owner = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {};
  const folder = await mkdtemp(join(tmpdir(), 'idempay-postgres-'));
  if (owner.uid !== undefined) await chown(folder, owner.uid, owner.gid);
  const binaries = await runnableBinaries(folderOfBinaries ?? (await findPostgres()), folder, owner.uid !== undefined);
  const data = join(folder, 'data');
  await run(join(binaries, 'initdb'), ['-D', data, '-U', 'idempay', '-A', 'trust', '-E', 'UTF8', '--no-sync'], owner);
  const port = await freePort();
  let child: ChildProcess | undefined;

  async function start(): Promise<void> {
    const options = [
      'listen_addresses=127.0.0.1',
      `unix_socket_directories=${folder}`,
      'max_connections=200',
      ...settings,
    ];
    child = spawn(
      join(binaries, 'postgres'),
      ['-D', data, '-p', String(port), ...options.flatMap((option) => ['-c', option])],
      { ...owner, stdio: 'ignore' },
    );
    await until('PostgreSQL to answer', START_DEADLINE_MS, () =>
      administer('SELECT 1').then(
        () => true,
        () => false,
      ),
    );
  }

  async function administer(sql: string): Promise<void> {
    const client = new pg.Client({ connectionString: url('postgres'), connectionTimeoutMillis: 2_000 });
    client.on('error', () => {});
    try {
      await client.connect();
      await client.query(sql);
    } finally {
      await client.end().catch(() => {});
    }
  }

  async function end(signal: NodeJS.Signals): Promise<void> {
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, 'exit');
    child.kill(signal);
    await exited;
  }

  function url(database: string): string {
    return `postgres://idempay@127.0.0.1:${port}/${database}`;
  }

  await start();
  return {
    port,
    url,
    async createDatabase(name) {
      await administer(`CREATE DATABASE "${name}"`);
      return url(name);
    },
    dropDatabase: (name) => administer(`DROP DATABASE IF EXISTS "${name}" WITH (FORCE)`),
    stopImmediately: () => end('SIGQUIT'),
    start,
    async close() {
      await end('SIGQUIT');
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** Binaries below a home that only root may enter cannot be run by nobody; then a copy in the temporary folder can. */
async function runnableBinaries(binaries: string, folder: string, asNobody: boolean): Promise<string> {
  if (!asNobody || binaries.startsWith('/usr/')) return binaries;
  const copy = join(folder, 'native');
  await cp(join(binaries, '..'), copy, { recursive: true, verbatimSymlinks: true });
  await chmod(folder, 0o755);
  return join(copy, 'bin');
}
