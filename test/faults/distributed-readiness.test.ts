import { afterAll, expect, onTestFinished, test } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { ask, pay } from '../../testkit/client/http-client.js';
import { expectReplay, givenPaid } from '../../testkit/client/payment-answers.js';
import { openStoppableStores } from '../../testkit/deployments/distributed-stores.js';
import { startStandby } from '../../testkit/servers/standby.js';
import { startTcpProxy } from '../../testkit/servers/tcp-proxy.js';
import { pause, until } from '../../testkit/time/until.js';

/** As long as rule O1 says. */
const REACHED_FOR_MS = 10_000;
const LOOK_EVERY_MS = 250;
/** The last words of a process that ended, a time-out of every kind, and a busy machine. */
const DEADLINE_MS = 40_000;

const stores = await openStoppableStores();
afterAll(() => stores.close());

/** What the process says of PostgreSQL; undefined if it is not ready. */
async function recordOf(url: string): Promise<string | undefined> {
  const answer = await ask(`${url}/readyz`);
  if (answer.status !== 200) expectError(answer, 503, /store of record cannot be reached/);
  const { status, storeOfRecord } = answer.json<{ status: string; storeOfRecord?: string }>();
  if (storeOfRecord === 'away') expect(status).toBe('degraded');
  return answer.status === 200 ? storeOfRecord : undefined;
}

const untilAll = (what: string, urls: readonly string[], record: 'up' | 'away' | undefined) =>
  until(what, DEADLINE_MS, async () => (await Promise.all(urls.map(recordOf))).every((found) => found === record));

test('a process that lost PostgreSQL is not ready while another one reaches it, and degraded when none does', async () => {
  const standby = await startStandby(stores.postgres);
  const wires = await Promise.all(['refused', 'silent', 'read-only'].map(() => startTcpProxy(stores.postgres.port)));
  onTestFinished(async () => {
    await Promise.all([standby.close(), ...wires.map((wire) => wire.close())]);
  });
  const reaching = await stores.serve();
  const lost = await Promise.all(wires.map((wire) => stores.serve({ DATABASE_URL: wire.through(stores.databaseUrl) })));
  const urls = lost.map(({ url }) => url);
  const { key, transactionId } = await givenPaid(reaching.url);
  await untilAll('all to be ready', [reaching.url, ...urls], 'up');

  const [refused, silent, readOnly] = wires;
  refused?.cutOff();
  silent?.blackhole('to client');
  readOnly?.leadTo(standby.port);
  await untilAll('them not to be ready', urls, undefined);
  // Longer than one write of the other process counts.
  const begunAt = performance.now();
  while (performance.now() - begunAt < REACHED_FOR_MS + 1_000) {
    for (const url of urls) expect(await recordOf(url)).toBeUndefined();
    await pause(LOOK_EVERY_MS);
  }
  expect(await recordOf(reaching.url)).toBe('up');

  await reaching.stop();
  await untilAll('them to be degraded', urls, 'away');
  for (const url of urls) expectReplay(await pay(url, key), transactionId);

  readOnly?.leadTo(stores.postgres.port);
  for (const wire of wires) wire.heal();
  await untilAll('them to be ready again', urls, 'up');
  await Promise.all(lost.map(({ stop }) => stop()));
});

/** Bug: a process that drained still counted as one that reaches PostgreSQL, so the others left although it took no requests. */
test('a process that drains does not count as one that reaches PostgreSQL', async () => {
  const wire = await startTcpProxy(stores.postgres.port);
  onTestFinished(() => wire.close());
  const draining = await stores.start({ DRAIN_DELAY_SECONDS: '3600' });
  const lost = await stores.serve({ DATABASE_URL: wire.through(stores.databaseUrl) });
  await untilAll('both to be ready', [draining.url, lost.url], 'up');
  wire.cutOff();
  await untilAll('the one to leave', [lost.url], undefined);
  draining.signal('SIGTERM');
  await untilAll('the one to be degraded', [lost.url], 'away');
  await draining.kill();
  await lost.stop();
});

test('all processes are degraded without PostgreSQL, because it helps nobody if all of them leave, and leave without Redis', async () => {
  const services = await Promise.all([stores.serve(), stores.serve()]);
  const urls = services.map(({ url }) => url);
  await untilAll('both to be ready', urls, 'up');
  await stores.postgres.stopImmediately();
  await untilAll('both to be degraded', urls, 'away');
  await stores.redis.kill();
  await untilAll('both to leave', urls, undefined);
  await stores.redis.start();
  await untilAll('both to be degraded again', urls, 'away');
  await stores.postgres.start();
  await untilAll('both to be ready again', urls, 'up');
  await Promise.all(services.map(({ stop }) => stop()));
});
