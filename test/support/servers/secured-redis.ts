import { dirname } from 'node:path';
import { certificatesIn } from './certificates.js';
import { freePort } from './free-port.js';
import { type RedisServer, startRedis } from './redis.js';

/** Characters that a URL must escape are part of the proof. */
const PASSWORD = 'p@ss:w/rd#1';
/** What `docs/deployment.md` asks for, and no more: a right that is missing there would fail the suites. */
const RIGHTS = [
  '~idempay:*',
  'resetchannels',
  '-@all',
  '+@hash',
  '+@keyspace',
  '+@scripting',
  '+info',
  '+time',
  '+ping',
  '+dbsize',
];

/** TLS on a second port, and a user who may touch our keys only. The plain port stays, for the test's own client. */
export async function startSecuredRedis(): Promise<RedisServer & { readonly plainUrl: string }> {
  const authority = process.env.NODE_EXTRA_CA_CERTS;
  if (!authority) throw new Error('NODE_EXTRA_CA_CERTS must name the authority of the test before this process starts');
  const { certificate, key } = certificatesIn(dirname(authority));
  const port = await freePort();
  const redis = await startRedis([
    ...['--tls-port', String(port), '--tls-cert-file', certificate, '--tls-key-file', key],
    ...['--tls-ca-cert-file', authority, '--tls-auth-clients', 'no'],
  ]);
  await redis.client.call('ACL', 'SETUSER', 'idempay', 'on', `>${PASSWORD}`, ...RIGHTS);
  // Whoever does not say who they are gets nothing but an answer to a ping.
  await redis.client.call('ACL', 'SETUSER', 'default', '-@all', '+ping', '+info', '+@connection');
  const secured = `rediss://idempay:${encodeURIComponent(PASSWORD)}@127.0.0.1:${port}`;
  return Object.assign(Object.create(redis) as RedisServer, { url: secured, plainUrl: redis.url });
}
