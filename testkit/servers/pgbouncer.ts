import { type ChildProcess, spawn } from 'node:child_process';
import { chown, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { until } from '../time/until.js';
import { findPgbouncer } from './binaries.js';
import { OWNER, runSql } from './postgres.js';
import { endServer, freePort } from './server-process.js';

const START_DEADLINE_MS = 10_000;

/** A real pgbouncer in session mode, on a free port, for the database of that URL. It refuses start-up messages with a time limit. */
export async function startPgbouncer(databaseUrl: string) {
  const { path, environment } = await findPgbouncer();
  const folder = await mkdtemp(join(tmpdir(), 'idempay-pgbouncer-'));
  if (OWNER) await chown(folder, OWNER.uid, OWNER.gid);
  const port = await freePort();
  const file = join(folder, 'pgbouncer.ini');
  const settings = [
    ...['[databases]', `* = host=127.0.0.1 port=${new URL(databaseUrl).port} user=idempay`],
    ...['[pgbouncer]', 'listen_addr = 127.0.0.1', `listen_port = ${port}`, 'unix_socket_dir ='],
    ...['auth_type = any', 'pool_mode = session', 'default_pool_size = 50', 'server_reset_query = DISCARD ALL'],
  ];
  await writeFile(file, `${settings.join('\n')}\n`);
  const child: ChildProcess = spawn(path, [file], { ...OWNER, env: environment, stdio: 'ignore' });
  const url = databaseUrl.replace(/127\.0\.0\.1:\d+/, `127.0.0.1:${port}`);
  await until('pgbouncer to answer', START_DEADLINE_MS, () =>
    runSql(url, 'SELECT 1').then(
      () => true,
      () => false,
    ),
  );
  return {
    url,
    async close(): Promise<void> {
      await endServer(child, 'SIGINT');
      await rm(folder, { recursive: true, force: true });
    },
  };
}
