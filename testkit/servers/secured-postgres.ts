import { chmod, chown, copyFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { makeCertificates } from './certificates.js';
import { OWNER, startPostgres } from './postgres.js';
import { runSql } from './run-sql.js';

const USER = 'service';
/** Characters that a URL must escape are part of the proof. */
const PASSWORD = 'p@ss:w/rd#1';

export interface SecuredPostgres {
  readonly port: number;
  /** Of the database `postgres`, for the user who needs TLS and a password. */
  readonly userUrl: string;
  /** Of the same database, for the test's administrator. */
  readonly adminUrl: string;
  /** File of the authority that signed the server's certificate. */
  readonly authority: string;
  close(): Promise<void>;
}

/** A server whose own user needs TLS and a password; without TLS only the test's administrator gets in. */
export async function startSecuredPostgres(settings: readonly string[]): Promise<SecuredPostgres> {
  const certificates = await makeCertificates();
  const { folder, certificate, authority } = certificates;
  const hba = join(folder, 'hba.conf');
  const rules = ['host all idempay 127.0.0.1/32 trust', `hostssl all ${USER} 127.0.0.1/32 scram-sha-256`];
  await writeFile(hba, `${rules.join('\n')}\nhost all all all reject\n`);
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
  return {
    port: server.port,
    userUrl: `postgres://${USER}:${encodeURIComponent(PASSWORD)}@127.0.0.1:${server.port}/postgres?sslmode=verify-full`,
    adminUrl,
    authority,
    async close() {
      await server.close();
      await certificates.remove();
    },
  };
}
