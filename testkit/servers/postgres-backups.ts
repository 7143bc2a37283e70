import { execFile } from 'node:child_process';
import { rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { findPostgres } from './binaries.js';
import { OWNER, type PostgresServer, runSql } from './postgres.js';

const run = promisify(execFile);
/** More of the log than anything that a test writes. */
const BULK_ROWS = 200_000;

/** Sets the database back to the moment of the backup. */
export type Restore = () => Promise<void>;

/** One way to back up and to restore, as `docs/operations/deployment.md` names them. */
export type BackUp = (server: PostgresServer, database: string) => Promise<Restore>;

/** Into the same database, while connections to it may be open. */
export const DUMPS = {
  async 'a dump, restored with pg_restore --clean'(server, database) {
    const file = join(await folderOf(server), 'dump');
    await program('pg_dump', ['-Fc', '-f', file, server.url(database)]);
    return () => program('pg_restore', ['--clean', '--if-exists', '-d', server.url(database), file]);
  },
  async 'a dump, restored in parallel after DROP SCHEMA'(server, database) {
    const folder = join(await folderOf(server), 'dump-folder');
    await program('pg_dump', ['-Fd', '-f', folder, server.url(database)]);
    return async () => {
      await runSql(server.url(database), 'DROP SCHEMA idempay CASCADE');
      await program('pg_restore', ['-j', '2', '-d', server.url(database), folder]);
    };
  },
} satisfies Readonly<Record<string, BackUp>>;

/** After which the log is longer than it was before, so that its length shows nothing. */
export const COPIES = {
  async 'a base backup, started without recovery'(server, database) {
    const copy = join(await folderOf(server), 'base-backup');
    await rm(copy, { recursive: true, force: true });
    await program('pg_basebackup', ['-D', copy, '-X', 'stream', '-c', 'fast', '-d', server.url('postgres')]);
    return () => replaceData(server, database, copy);
  },
  async 'a snapshot of the data folder'(server, database) {
    const folder = await folderOf(server);
    const copy = join(folder, 'snapshot');
    await server.stopImmediately();
    await run('cp', ['-a', join(folder, 'data'), copy]);
    await server.start();
    return () => replaceData(server, database, copy);
  },
} satisfies Readonly<Record<string, BackUp>>;

/** The data of all tables, put back into the tables that are there. */
export const backUpRows: BackUp = async (server, database) => {
  const file = join(await folderOf(server), 'rows');
  await program('pg_dump', ['-Fc', '--data-only', '-f', file, server.url(database)]);
  return async () => {
    const [row] = await runSql<{ names: string }>(
      server.url(database),
      "SELECT string_agg(oid::regclass::text, ', ') AS names FROM pg_class WHERE relnamespace = 'idempay'::regnamespace AND relkind = 'r'",
    );
    await runSql(server.url(database), `TRUNCATE ${row?.names}`);
    await program('pg_restore', ['--data-only', '-d', server.url(database), file]);
  };
};

async function replaceData(server: PostgresServer, database: string, copy: string): Promise<void> {
  const data = join(await folderOf(server), 'data');
  await server.stopImmediately();
  await rm(data, { recursive: true });
  await run('cp', ['-a', copy, data]);
  await server.start();
  const url = server.url(database);
  await runSql(url, `CREATE TABLE bulk AS SELECT md5(n::text) FROM generate_series(1, ${BULK_ROWS}) AS n`);
  await runSql(url, 'DROP TABLE bulk');
  await runSql(url, 'VACUUM FULL idempay.payments, idempay.transactions, idempay.transaction_list, idempay.deployment');
}

async function folderOf(server: PostgresServer): Promise<string> {
  const [row] = await runSql<{ data_directory: string }>(server.url('postgres'), 'SHOW data_directory');
  return dirname(row?.data_directory ?? '');
}

async function program(name: string, parameters: readonly string[]): Promise<void> {
  await run(join(await findPostgres(), name), parameters, OWNER);
}
