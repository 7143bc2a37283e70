import { afterEach, beforeEach, expect, test } from 'vitest';
import { generateKey, pay } from '../../testkit/client/http-client.js';
import { masterLines } from '../../testkit/deployments/failover-trial.js';
import { type Service, startService } from '../../testkit/processes/service.js';
import { type SentinelTrio, startSentinelTrio } from '../../testkit/servers/sentinel.js';
import { createSharedDatabase } from '../../testkit/servers/shared-database.js';
import { pause, until } from '../../testkit/time/until.js';

/** The Sentinels need a second to call a master down, up to three to replace it, and a busy machine as long again. */
const REPLACED_LIMIT_MS = 20_000;
/** An idle process is told by the Sentinels, and if it missed that it asks them every five seconds. */
const LEFT_LIMIT_MS = 15_000;

let trio: SentinelTrio;
let database: Awaited<ReturnType<typeof createSharedDatabase>>;
let service: Service;

beforeEach(async () => {
  [trio, database] = await Promise.all([startSentinelTrio(), createSharedDatabase()]);
  service = await startService({ REDIS_URL: trio.url, DATABASE_URL: database.url });
  await untilPaid();
}, 90_000);
afterEach(async () => {
  await service?.kill();
  await Promise.all([trio?.close(), database?.drop()]);
});

async function untilPaid(): Promise<void> {
  await until('a first payment', REPLACED_LIMIT_MS, async () => {
    const key = await generateKey(service.url).catch(() => undefined);
    return key !== undefined && (await pay(service.url, key)).status === 200;
  }).catch((error: Error) => {
    throw new Error(`${error.message}\n${masterLines(service).join('\n')}`);
  });
}

/**
 * Bug: a process never connected to Redis again after a failover ("Connection is closed"), one of three runs on a busy
 * machine. Cause: ioredis' connection for `+switch-master` outlives the connection to the master; when it spoke while the
 * client was asking a Sentinel for a new one, the client ended for good. The longer the asking, the more likely: here the
 * Sentinel that is asked first hangs. Fix: a connector of our own, which asks all Sentinels at once and never ends by itself.
 */
test('a master that is replaced while a Sentinel hangs is found, and the log says which was held and which is', async () => {
  // Every connection to the Sentinels is there.
  await pause(500);
  const before = await trio.master();
  trio.pauseFirst();
  await before.kill();
  await untilPaid();
  const lines = masterLines(service).join('\n');
  expect(lines).toMatch(new RegExp(`The Redis master 127.0.0.1:${before.port}, held for [\\d.]+ s, is lost`));
  expect(lines).toMatch(/The Redis master is 127\.0\.0\.1:\d+, after [\d.]+ s without one\..* does not answer/);
});

test('a master that hangs and is replaced under an idle process is left without any request', async () => {
  const before = await trio.master();
  before.signal('SIGSTOP');
  try {
    await until('the old master to be left', LEFT_LIMIT_MS + REPLACED_LIMIT_MS, () =>
      masterLines(service).some((line) => /The Redis master is 127\.0\.0\.1:\d+, after/.test(line)),
    );
    await untilPaid();
  } finally {
    before.signal('SIGCONT');
  }
});

test('a process without any Sentinel says so in its log, and goes on when they are back', async () => {
  const master = await trio.master();
  trio.pauseAll();
  // Back before the Sentinels are: after a pause they replace nobody for half a minute.
  await master.kill();
  await master.start();
  await until('a line about the missing master', LEFT_LIMIT_MS + REPLACED_LIMIT_MS, () =>
    masterLines(service).some((line) => /No Redis master for [\d.]+ s .*does not answer/.test(line)),
  );
  trio.resumeAll();
  await untilPaid();
});
