import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { chmod, chown, cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import pg from 'pg';
import { patience } from '../time/patience.js';
import { until } from '../time/until.js';
import { findPostgres } from './binaries.js';
import { endServer, freePort } from './server-process.js';

const run = promisify(execFile);
const START_DEADLINE_MS = 20_000;
const CONNECTION_LIMIT_MS = 10_000;
/** How many characters from the end of the server's log are kept for an error message. */
const LAST_WORDS = 2_000;
/** Whom its processes run as, and to whom its files belong: PostgreSQL refuses root; nobody is on every Debian. */
export const OWNER = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : undefined;

export type PostgresServer = Awaited<ReturnType<typeof startPostgres>>;

/**
 * A real PostgreSQL server of the test's own, on a free port, its data in a temporary folder. `settings` are `name=value` of
 * postgresql.conf; without them commits wait for the disk as they do in production.
 */
export async function startPostgres(settings: readonly string[] = [], folderOfBinaries?: string) {
  const folder = await mkdtemp(join(tmpdir(), 'idempay-postgres-'));
  if (OWNER) await chown(folder, OWNER.uid, OWNER.gid);
  const binaries = await runnableBinaries(folderOfBinaries ?? (await findPostgres()), folder);
  const data = join(folder, 'data');
  await run(join(binaries, 'initdb'), ['-D', data, '-U', 'idempay', '-A', 'trust', '-E', 'UTF8', '--no-sync'], OWNER);
  const server = await serveFolder(binaries, folder, settings);
  return {
    ...server,
    /** The folder of its files. */
    data,
    async createDatabase(name: string): Promise<string> {
      await runSql(server.url('postgres'), `CREATE DATABASE "${name}"`);
      return server.url(name);
    },
  };
}

export async function serveFolder(binaries: string, folder: string, settings: readonly string[]) {
  const port = await freePort();
  const usual = ['listen_addresses=127.0.0.1', `unix_socket_directories=${folder}`, 'max_connections=200'];
  const options = [...usual, ...settings].flatMap((setting) => ['-c', setting]);
  const url = (database: string) => `postgres://idempay@127.0.0.1:${port}/${database}`;
  let child: ChildProcess | undefined;
  let said = '';

  function launch(): void {
    const parameters = ['-D', join(folder, 'data'), '-p', `${port}`, ...options];
    child = spawn(join(binaries, 'postgres'), parameters, { ...OWNER, stdio: ['ignore', 'ignore', 'pipe'] });
    child.stderr?.on('data', (text) => {
      said = (said + text).slice(-LAST_WORDS);
    });
  }
  const isRunning = () => child?.exitCode === null && child.signalCode === null;
  /** Resolves when it serves; starts it if it does not run. */
  async function start(): Promise<void> {
    const answers = async () => {
      // It refuses to start while the last process of one that was killed still runs, and on a port that another program has for a moment.
      if (!isRunning()) launch();
      const [row] = await runSql<{ data_directory: string }>(url('postgres'), 'SHOW data_directory').catch(() => []);
      return row?.data_directory === join(folder, 'data');
    };
    await until('PostgreSQL to answer', START_DEADLINE_MS, answers).catch((late) => {
      throw new Error(`${late.message}; it said: ${said}`, { cause: late });
    });
  }
  /** As `pg_ctl stop -m immediate`: SIGQUIT, no clean-up; the next start recovers from the log. */
  const stopImmediately = () => endServer(child, 'SIGQUIT');

  await start();
  return {
    port,
    url,
    /** The id of the process that runs now; the processes of its connections are its children. */
    pid: () => child?.pid as number,
    start,
    stopImmediately,
    async close(): Promise<void> {
      await stopImmediately();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** Binaries below a home that only root may enter cannot be run by nobody; then a copy in the temporary folder can. */
async function runnableBinaries(binaries: string, folder: string): Promise<string> {
  if (!OWNER || binaries.startsWith('/usr/')) return binaries;
  const copy = join(folder, 'native');
  await cp(join(binaries, '..'), copy, { recursive: true, verbatimSymlinks: true });
  await chmod(folder, 0o755);
  return join(copy, 'bin');
}

/** One statement on a connection of its own, past every service. */
export async function runSql<Row extends pg.QueryResultRow>(
  url: string,
  text: string,
  values: readonly unknown[] = [],
) {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: patience(CONNECTION_LIMIT_MS) });
  client.on('error', () => {});
  try {
    await client.connect();
    return (await client.query<Row>(text, [...values])).rows;
  } finally {
    await client.end().catch(() => {});
  }
}
