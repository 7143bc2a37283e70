import { dirname } from 'node:path';
import { certificatesIn } from './certificates.js';
import { freePort } from './free-port.js';
import { startRedis } from './redis.js';

/** Characters that a URL must escape are part of the proof. */
const PASSWORD = 'p@ss:w/rd#1';
/** What `docs/deployment.md` asks for, and no more: a right that is missing there would fail the suites. */
const RIGHTS =
  '~idempay:* resetchannels &idempay:* -@all +@hash +@keyspace +@scripting +info +time +ping +dbsize +subscribe +publish';

/** TLS on a second port. */
export interface SecuredRedis {
  readonly url: string;
  close(): Promise<void>;
}

/**
 * A server with the certificate beside `authority` and a user who may touch our keys only. The plain port stays, for the
 * test's own client; whoever does not say who they are gets nothing but an answer to a ping.
 */
export async function startSecuredRedis(authority: string): Promise<SecuredRedis> {
  const { certificate, key } = certificatesIn(dirname(authority));
  const port = await freePort();
  const redis = await startRedis([
    ...['--tls-port', String(port), '--tls-cert-file', certificate, '--tls-key-file', key],
    ...['--tls-ca-cert-file', authority, '--tls-auth-clients', 'no'],
  ]);
  await redis.client.call('ACL', 'SETUSER', 'idempay', 'on', `>${PASSWORD}`, ...RIGHTS.split(' '));
  await redis.client.call('ACL', 'SETUSER', 'default', '-@all', '+ping', '+info', '+@connection');
  return { url: `rediss://idempay:${encodeURIComponent(PASSWORD)}@127.0.0.1:${port}`, close: redis.close };
}
