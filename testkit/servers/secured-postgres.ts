import { chmod, chown, copyFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import pg from 'pg';
import { makeCertificates } from './certificates.js';
import { startPostgres } from './postgres.js';

/** PostgreSQL refuses to run as root, and a key that others own or can read. */
const NOBODY = 65_534;
const USER = 'service';
/** Characters that a URL must escape are part of the proof. */
const PASSWORD = 'p@ss:w/rd#1';

export interface SecuredPostgres {
  readonly port: number;
  /** Of the database `postgres`, for the user who needs TLS and a password. */
  readonly userUrl: string;
  /** File of the authority that signed the server's certificate. */
  readonly authority: string;
  close(): Promise<void>;
}

/** A server whose own user needs TLS and a password; without TLS only the test's administrator gets in. */
export async function startSecuredPostgres(settings: readonly string[]): Promise<SecuredPostgres> {
  const certificates = await makeCertificates();
  const hba = join(certificates.folder, 'hba.conf');
  await writeFile(
    hba,
    `host all idempay 127.0.0.1/32 trust\nhostssl all ${USER} 127.0.0.1/32 scram-sha-256\nhost all all all reject\n`,
  );
  await chmod(certificates.folder, 0o755);
  const key = join(certificates.folder, 'postgres.key');
  await copyFile(certificates.key, key);
  await chmod(key, 0o600);
  if (process.getuid?.() === 0) await chown(key, NOBODY, NOBODY);
  const server = await startPostgres([
    'ssl=on',
    `ssl_cert_file=${certificates.certificate}`,
    `ssl_key_file=${key}`,
    `hba_file=${hba}`,
    ...settings,
  ]);
  const client = new pg.Client({ connectionString: server.url('postgres') });
  await client.connect();
  await client.query(`CREATE ROLE ${USER} LOGIN PASSWORD '${PASSWORD}'`);
  await client.query(`GRANT CREATE ON DATABASE postgres TO ${USER}`);
  await client.end();
  return {
    port: server.port,
    userUrl: `postgres://${USER}:${encodeURIComponent(PASSWORD)}@127.0.0.1:${server.port}/postgres?sslmode=verify-full`,
    authority: certificates.authority,
    async close() {
      await server.close();
      await certificates.remove();
    },
  };
}
