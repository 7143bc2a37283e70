import { chown, cp, mkdtemp, readdir, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { findPostgres } from './binaries.js';
import { OWNER, type PostgresServer, runSql, serveFolder } from './postgres.js';

/** Files that belong to one running server, so that a copy must not have them. */
const NOT_COPIED = ['postmaster.pid', 'postmaster.opts'];

/**
 * A server that follows another one, byte by byte and hot: it answers reads only. It is made by the documented low-level
 * steps of a base backup: they need no program but the server, because `pg_basebackup` is missing from some distributions of it.
 * `followedPort`: the port of a proxy in front of the primary.
 */
export async function startStandby(primary: PostgresServer, followedPort = primary.port) {
  const folder = await mkdtemp(join(tmpdir(), 'idempay-standby-'));
  const data = join(folder, 'data');
  await copyWhileRunning(primary, data);
  await writeFile(join(data, 'standby.signal'), '');
  if (OWNER) {
    const names = await readdir(folder, { recursive: true });
    for (const name of ['', ...names]) await chown(join(folder, name), OWNER.uid, OWNER.gid);
  }
  const follows = `primary_conninfo=host=127.0.0.1 port=${followedPort} user=idempay`;
  const server = await serveFolder(await findPostgres(), folder, [follows]);
  return {
    ...server,
    has: async (database: string, sql: string) => (await runSql(server.url(database), sql).catch(() => [])).length > 0,
    promote: () => runSql(server.url('postgres'), 'SELECT pg_promote(true, 30)'),
  };
}

async function copyWhileRunning(primary: PostgresServer, data: string): Promise<void> {
  const client = new pg.Client({ connectionString: primary.url('postgres') });
  await client.connect();
  const { rows: found } = await client.query<{ data_directory: string }>('SHOW data_directory');
  await client.query("SELECT pg_backup_start('standby', true)");
  await cp(found[0]?.data_directory as string, data, {
    recursive: true,
    filter: (source) => !NOT_COPIED.some((name) => source.endsWith(name)),
  });
  const { rows } = await client.query<{ labelfile: string }>('SELECT labelfile FROM pg_backup_stop(false)');
  await writeFile(join(data, 'backup_label'), rows[0]?.labelfile as string);
  await client.end();
}
