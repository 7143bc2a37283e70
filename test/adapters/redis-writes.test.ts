import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { infoOfMasters, numberIn } from '#idempay/deployments/distributed/redis/redis-info.js';
import { openRedis } from '../../testkit/deployments/topologies/open-stores.js';
import { LONG_MS, newKey } from '../../testkit/protocol/payment-attempts.js';
import { NAMES, openRedisProcess, type RedisProcess } from '../../testkit/protocol/redis-process.js';
import { startRedis } from '../../testkit/servers/redis.js';
import { startTcpProxy } from '../../testkit/servers/tcp-proxy.js';
import { until } from '../../testkit/time/until.js';

const DEADLINE_MS = 15_000;
/** Together less than what a server takes in one read (16 KiB). */
const COMMANDS = 60;
/** Of the question itself, and of replicas and Sentinels, which speak to the server as well. */
const OTHER_READS = 12;

let redis: Awaited<ReturnType<typeof openRedis>>;
let one: RedisProcess;

beforeAll(async () => {
  redis = await openRedis();
  one = await openRedisProcess(redis.url);
});
afterAll(async () => {
  one?.close();
  await redis?.close();
});

async function readsOf({ client }: RedisProcess): Promise<number[]> {
  return (await infoOfMasters(client, 'stats')).map((info) => numberIn(info, 'total_reads_processed'));
}

/** Of the server that reads most, while one turn sends many commands. */
async function readsOfOneTurn(process: RedisProcess): Promise<number> {
  const before = await readsOf(process);
  await Promise.all(Array.from({ length: COMMANDS }, () => process.keys.issue(newKey(), LONG_MS)));
  const after = await readsOf(process);
  return Math.max(...after.map((reads, index) => reads - (before[index] ?? 0)));
}

async function openThroughProxy() {
  const server = await startRedis();
  const proxy = await startTcpProxy(server.port);
  const process = await openRedisProcess(proxy.through(server.url));
  onTestFinished(async () => {
    process.close();
    await proxy.close();
    await server.close();
  });
  const isIssued = async (key: string) => (await server.client.exists(NAMES.payment(key).record)) === 1;
  return { proxy, process, isIssued };
}

test('the commands of one turn arrive in one read at each server', async () => {
  // The first read of a script that a server does not know is followed by another one.
  await one.keys.issue(newKey(), LONG_MS);
  expect(await readsOfOneTurn(one)).toBeLessThanOrEqual(OTHER_READS);
});

test('the commands of a turn are sent while the replies of the turn before are on their way', async () => {
  const { proxy, process, isIssued } = await openThroughProxy();
  const [first, second] = [newKey(), newKey()];
  const held = proxy.hold(first, 'reply');
  const answered: string[] = [];
  const issue = (key: string) => process.keys.issue(key, LONG_MS).then(() => answered.push(key));
  const asked = [issue(first)];
  await held.reached;
  asked.push(issue(second));
  await until('the second command to be done', DEADLINE_MS, () => isIssued(second));
  expect(answered).toEqual([]);
  held.release();
  await Promise.all(asked);
  expect(answered).toEqual([first, second]);
});

test('a connection that follows a lost one sends the commands of one turn together too', async () => {
  const { proxy, process } = await openThroughProxy();
  proxy.cut();
  await until('a new connection', DEADLINE_MS, () =>
    process.keys.issue(newKey(), LONG_MS).then(
      () => true,
      () => false,
    ),
  );
  expect(await readsOfOneTurn(process)).toBeLessThanOrEqual(OTHER_READS);
});
