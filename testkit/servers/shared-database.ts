import { randomUUID } from 'node:crypto';
import { inject } from 'vitest';
import { runSql } from './postgres.js';

/** Copying the files costs a third of writing every page into the log, which is the default. */
const QUICKLY = 'STRATEGY = FILE_COPY';

/** A fresh database in the PostgreSQL server that all test files share. `clauses`: of its creation. */
export async function createSharedDatabase(clauses = QUICKLY): Promise<{ url: string; drop(): Promise<void> }> {
  const server = `postgres://idempay@127.0.0.1:${inject('postgresPort')}`;
  const administer = (sql: string) => runSql(`${server}/postgres`, sql);
  const name = `test_${randomUUID().replaceAll('-', '')}`;
  await administer(`CREATE DATABASE ${name} ${clauses}`);
  const user = inject('postgresUserUrl');
  if (user) await administer(`ALTER DATABASE ${name} OWNER TO "${new URL(user).username}"`);
  return {
    url: user ? user.replace('/postgres?', `/${name}?`) : `${server}/${name}`,
    drop: async () => void (await administer(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`)),
  };
}
