import { afterAll, beforeAll, expect, test } from 'vitest';
import { generateKey, pay } from '../../testkit/client/http-client.js';
import { startService } from '../../testkit/processes/service.js';
import { makeCertificates } from '../../testkit/servers/certificates.js';
import { freePort } from '../../testkit/servers/free-port.js';
import { startRedis } from '../../testkit/servers/redis.js';
import { type SentinelTrio, startSentinel, startSentinelTrio } from '../../testkit/servers/sentinel.js';
import { createSharedDatabase } from '../../testkit/servers/shared-database.js';
import { until } from '../../testkit/time/until.js';

const CONNECT_DEADLINE_MS = 20_000;

let trio: SentinelTrio;
beforeAll(async () => {
  trio = await startSentinelTrio();
});
afterAll(() => trio?.close());

/**
 * Bug: a Sentinel that took the connection and never answered kept the service from asking the next one, for ever.
 * Cause: ioredis has no deadline for what it asks Sentinels unless `sentinelCommandTimeout` is set.
 * Fix: the deadline of every other command.
 */
test('a Sentinel that hangs keeps nobody from finding the master', async () => {
  const database = await createSharedDatabase();
  trio.pauseFirst();
  const service = await startService({ REDIS_URL: trio.url, DATABASE_URL: database.url });
  try {
    const key = await until('a key', CONNECT_DEADLINE_MS, () => generateKey(service.url).catch(() => undefined));
    expect((await pay(service.url, key)).status).toBe(200);
  } finally {
    await service.kill();
    await database.drop();
  }
});

/**
 * Bug: with `rediss+sentinel` the Sentinels were asked without TLS.
 * Cause: ioredis takes their TLS from `sentinelTLS`, not from `tls`.
 * Fix: both are set.
 */
test('a master is found through a Sentinel that speaks TLS on the port that the URL names', async () => {
  const database = await createSharedDatabase();
  const certificates = await makeCertificates();
  const { authority, certificate, key } = certificates;
  const files = { 'tls-cert-file': certificate, 'tls-key-file': key, 'tls-ca-cert-file': authority };
  const tls = { ...files, 'tls-auth-clients': 'no' };
  const [masterPort, sentinelPort] = [await freePort(), await freePort()];
  const settings = Object.entries({ 'tls-port': String(masterPort), ...tls });
  const master = await startRedis(settings.flatMap(([name, value]) => [`--${name}`, value]));
  const secured = Object.entries({ 'tls-port': String(sentinelPort), 'tls-replication': 'yes', ...tls });
  const sentinel = await startSentinel(
    masterPort,
    secured.map(([name, value]) => `${name} ${value}`),
  );
  const service = await startService({
    REDIS_URL: `rediss+sentinel://127.0.0.1:${sentinelPort}/idempay`,
    DATABASE_URL: database.url,
    NODE_EXTRA_CA_CERTS: authority,
  });
  try {
    const issued = await until('a key', CONNECT_DEADLINE_MS, () => generateKey(service.url).catch(() => undefined));
    expect((await pay(service.url, issued)).status).toBe(200);
  } finally {
    await service.kill();
    await Promise.all([sentinel.close(), master.close(), certificates.remove(), database.drop()]);
  }
});
