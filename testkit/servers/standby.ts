import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chown, cp, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { until } from '../time/until.js';
import { findPostgres } from './binaries.js';
import { freePort } from './free-port.js';
import type { PostgresServer } from './postgres.js';

const START_DEADLINE_MS = 20_000;
const NOBODY = 65_534;
/** Of one running server, never of its copy. */
const NOT_COPIED = ['postmaster.pid', 'postmaster.opts'];

/** A server that follows another one, byte by byte and hot: it answers reads only. */
export interface Standby {
  readonly port: number;
  url(database: string): string;
  /** Whether the query finds a row there. */
  has(database: string, sql: string): Promise<boolean>;
  promote(): Promise<void>;
  close(): Promise<void>;
}

/**
 * A real streaming standby, made by the documented low-level steps of a base backup: they need no program but the
 * server, where `pg_basebackup` is missing from some distributions of it. `followedPort`: of a proxy before the primary.
 */
export async function startStandby(primary: PostgresServer, followedPort = primary.port): Promise<Standby> {
  const owner = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {};
  const folder = await mkdtemp(join(tmpdir(), 'idempay-standby-'));
  const data = join(folder, 'data');
  await copyWhileRunning(primary, data);
  await writeFile(join(data, 'standby.signal'), '');
  if (owner.uid !== undefined) {
    await chown(folder, owner.uid, owner.gid);
    for (const name of await readdir(data, { recursive: true })) await chown(join(data, name), owner.uid, owner.gid);
    await chown(data, owner.uid, owner.gid);
  }
  const port = await freePort();
  const settings = [
    'listen_addresses=127.0.0.1',
    `unix_socket_directories=${folder}`,
    'max_connections=200',
    `primary_conninfo=host=127.0.0.1 port=${followedPort} user=idempay`,
  ];
  const child = spawn(
    join(await findPostgres(), 'postgres'),
    ['-D', data, '-p', String(port), ...settings.flatMap((setting) => ['-c', setting])],
    { ...owner, stdio: 'ignore' },
  );
  const url = (database: string) => `postgres://idempay@127.0.0.1:${port}/${database}`;
  const standby: Standby = {
    port,
    url,
    has: async (database, sql) => (await query(url(database), sql).catch(() => [])).length > 0,
    async promote() {
      await query(url('postgres'), 'SELECT pg_promote(true, 30)');
    },
    async close() {
      await end(child);
      await rm(folder, { recursive: true, force: true });
    },
  };
  await until('the standby to answer', START_DEADLINE_MS, () =>
    standby.has('postgres', 'SELECT 1 WHERE pg_is_in_recovery()'),
  );
  return standby;
}

async function copyWhileRunning(primary: PostgresServer, data: string): Promise<void> {
  const client = new pg.Client({ connectionString: primary.url('postgres') });
  await client.connect();
  try {
    const { rows: found } = await client.query<{ data_directory: string }>('SHOW data_directory');
    await client.query("SELECT pg_backup_start('standby', true)");
    await cp(found[0]?.data_directory as string, data, {
      recursive: true,
      filter: (source) => !NOT_COPIED.some((name) => source.endsWith(name)),
    });
    const { rows } = await client.query<{ labelfile: string }>('SELECT labelfile FROM pg_backup_stop(false)');
    await writeFile(join(data, 'backup_label'), rows[0]?.labelfile as string);
  } finally {
    await client.end();
  }
}

async function query(url: string, sql: string): Promise<unknown[]> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 2_000 });
  client.on('error', () => {});
  try {
    await client.connect();
    return (await client.query(sql)).rows;
  } finally {
    await client.end().catch(() => {});
  }
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGQUIT');
  await exited;
}
