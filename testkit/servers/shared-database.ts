import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { inject } from 'vitest';

/** A fresh database in the PostgreSQL server that all test files share. */
export async function createSharedDatabase(): Promise<{ url: string; drop(): Promise<void> }> {
  const server = `postgres://idempay@127.0.0.1:${inject('postgresPort')}`;
  const name = `test_${randomUUID().replaceAll('-', '')}`;
  await administer(server, `CREATE DATABASE ${name}`);
  const user = inject('postgresUserUrl');
  if (user) await administer(server, `ALTER DATABASE ${name} OWNER TO "${new URL(user).username}"`);
  return {
    url: user ? user.replace('/postgres?', `/${name}?`) : `${server}/${name}`,
    drop: () => administer(server, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`),
  };
}

async function administer(server: string, sql: string): Promise<void> {
  const client = new pg.Client({ connectionString: `${server}/postgres` });
  await client.connect();
  try {
    await client.query(sql);
  } finally {
    await client.end();
  }
}
