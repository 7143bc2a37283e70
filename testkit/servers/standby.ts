import { chown, cp, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { findPostgres } from './binaries.js';
import { freePort } from './free-port.js';
import { OWNER, type PostgresServer, spawnPostgres, urlsAt } from './postgres.js';
import { runSql } from './run-sql.js';
import { endServer } from './server-process.js';

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
  const folder = await mkdtemp(join(tmpdir(), 'idempay-standby-'));
  const data = join(folder, 'data');
  await copyWhileRunning(primary, data);
  await writeFile(join(data, 'standby.signal'), '');
  if (OWNER) {
    const names = await readdir(folder, { recursive: true });
    for (const name of ['', ...names]) await chown(join(folder, name), OWNER.uid, OWNER.gid);
  }
  const port = await freePort();
  const url = urlsAt(port);
  const follows = `primary_conninfo=host=127.0.0.1 port=${followedPort} user=idempay`;
  const child = await spawnPostgres(await findPostgres(), folder, port, [follows]);
  return {
    port,
    url,
    has: async (database, sql) => (await runSql(url(database), sql).catch(() => [])).length > 0,
    async promote() {
      await runSql(url('postgres'), 'SELECT pg_promote(true, 30)');
    },
    async close() {
      await endServer(child, 'SIGQUIT');
      await rm(folder, { recursive: true, force: true });
    },
  };
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
