import { chmod, chown, copyFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { makeCertificates, PASSWORD } from './certificates.js';
import { OWNER, runSql, startPostgres } from './postgres.js';

const USER = 'service';
const RULES = `host all idempay 127.0.0.1/32 trust
hostssl all ${USER} 127.0.0.1/32 scram-sha-256
host all all all reject
`;

export type SecuredPostgres = Awaited<ReturnType<typeof startSecuredPostgres>>;

/** A server whose own user needs TLS and a password; without TLS only the test's administrator gets in. */
export async function startSecuredPostgres(settings: readonly string[]) {
  const { folder, certificate, authority, ...certificates } = await makeCertificates();
  const hba = join(folder, 'hba.conf');
  await writeFile(hba, RULES);
  await chmod(folder, 0o755);
  // PostgreSQL refuses a key that others own or can read.
  const key = join(folder, 'postgres.key');
  await copyFile(certificates.key, key);
  await chmod(key, 0o600);
  if (OWNER) await chown(key, OWNER.uid, OWNER.gid);
  const tls = ['ssl=on', `ssl_cert_file=${certificate}`, `ssl_key_file=${key}`, `hba_file=${hba}`];
  const server = await startPostgres([...tls, ...settings]);
  const adminUrl = server.url('postgres');
  await runSql(adminUrl, `CREATE ROLE ${USER} LOGIN PASSWORD '${PASSWORD}'`);
  await runSql(adminUrl, `GRANT CREATE ON DATABASE postgres TO ${USER}`);
  const login = `${USER}:${encodeURIComponent(PASSWORD)}`;
  return {
    port: server.port,
    adminUrl,
    userUrl: `postgres://${login}@127.0.0.1:${server.port}/postgres?sslmode=verify-full`,
    authority,
    async close(): Promise<void> {
      await server.close();
      await certificates.remove();
    },
  };
}
