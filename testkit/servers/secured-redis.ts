import { dirname } from 'node:path';
import { certificatesIn, PASSWORD, tlsSettings } from './certificates.js';
import { startRedis } from './redis.js';
import { freePort } from './server-process.js';

/** The rights that `docs/operations/deployment.md` asks for, and no more: a right that is missing there would fail the suites. */
const RIGHTS =
  '~idempay:* resetchannels &idempay:* -@all +@hash +@keyspace +@scripting +info +time +ping +dbsize +subscribe +publish +xadd +xtrim +xread';

export type SecuredRedis = Awaited<ReturnType<typeof startSecuredRedis>>;

/**
 * A server with the certificate next to `authority` and a user who may touch our keys only. The plain port stays, for the
 * test's own client; without a log-in only PING, INFO and connection commands are allowed.
 */
export async function startSecuredRedis(authority: string) {
  const port = await freePort();
  const { client, close } = await startRedis(tlsSettings(port, certificatesIn(dirname(authority))));
  await client.call('ACL', 'SETUSER', 'idempay', 'on', `>${PASSWORD}`, ...RIGHTS.split(' '));
  await client.call('ACL', 'SETUSER', 'admin', 'on', `>${PASSWORD}`, '+@all');
  await client.auth('admin', PASSWORD);
  await client.call('ACL', 'SETUSER', 'default', '-@all', '+ping', '+info', '+@connection');
  return {
    url: `rediss://idempay:${encodeURIComponent(PASSWORD)}@127.0.0.1:${port}`,
    close,
    /** Present connections stay, as with any change of a password. */
    changePassword: (password: string) => client.call('ACL', 'SETUSER', 'idempay', 'resetpass', `>${password}`),
    /** Closes the connections of the service's user. */
    closeConnections: () => client.call('CLIENT', 'KILL', 'USER', 'idempay'),
  };
}
