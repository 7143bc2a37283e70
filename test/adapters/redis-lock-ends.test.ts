import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { FinalOutcome } from '#idempay/payments/values/payment.js';
import { LONG_MS, newKey, newOwner, SHORT_MS } from '../../testkit/protocol/payment-attempts.js';
import {
  givenLockedKey,
  givenWatch,
  type LockedKey,
  NAMES,
  openRedisProcess,
  type RedisProcess,
  untilTold,
  type Watching,
} from '../../testkit/protocol/redis-process.js';
import { type RedisServer, startRedis } from '../../testkit/servers/redis.js';
import { startTcpProxy, type TcpProxy } from '../../testkit/servers/tcp-proxy.js';
import { until } from '../../testkit/time/until.js';
import { untilPast } from '../../testkit/time/until-past.js';

const DEADLINE_MS = 15_000;
/** A command's own deadline, the wait for a subscription, and some grace for a busy machine. */
const WATCH_DEADLINE_MS = 900 + 300 + 600;
/** What `docs/deployment.md` asks for, less the channels. */
const RIGHTS = ['~idempay:*', '-@all', '+@hash', '+@keyspace', '+@scripting', '+info', '+time', '+ping'];
const EXIT_DEADLINE_MS = 10_000;
const run = promisify(execFile);

describe('the ends of locks in Redis', () => {
  let redis: RedisServer;
  let proxy: TcpProxy;
  let processes: RedisProcess[];
  let one: RedisProcess;
  let other: RedisProcess;

  beforeAll(async () => {
    redis = await startRedis();
  });
  beforeEach(async () => {
    processes = [];
    proxy = await startTcpProxy(redis.port);
    [one, other] = await Promise.all([openProcess(), openProcess()]);
  });
  afterEach(async () => {
    for (const process of processes) process.close();
    await proxy.close();
    await until('no process to listen', DEADLINE_MS, async () => (await listeners()) === 0);
  });
  afterAll(() => redis.close());

  async function openProcess(url = redis.url): Promise<RedisProcess> {
    const process = await openRedisProcess(url);
    processes.push(process);
    return process;
  }

  /** A user who may do what is said besides what every deployment needs. */
  async function urlOfUser(...rights: string[]): Promise<string> {
    await redis.client.call(
      'ACL',
      'SETUSER',
      'limited',
      'reset',
      'on',
      '>secret',
      'resetchannels',
      ...RIGHTS,
      ...rights,
    );
    return redis.url.replace('://', '://limited:secret@');
  }

  async function watching(process: RedisProcess, locked?: LockedKey): Promise<Watching> {
    return givenWatch(process, locked ?? (await givenLockedKey(other)));
  }

  async function listeners(): Promise<number> {
    const list = String(await redis.client.call('CLIENT', 'LIST', 'TYPE', 'pubsub'));
    return list.split('\n').filter((line) => line.includes('idempay-listener')).length;
  }

  /** Of a watch that begins now, whatever was lost before. */
  async function expectLaterEndIsTold(process: RedisProcess): Promise<void> {
    const later = await watching(process);
    await other.keys.release(later.key, later.owner);
    await untilTold(later);
  }

  test('are told in another process, by finish and by release', async () => {
    const [finished, released] = [await watching(one), await watching(one)];
    await other.keys.finish(finished.key, finished.owner, final());
    await other.keys.release(released.key, released.owner);
    await Promise.all([untilTold(finished), untilTold(released)]);
    expect(await one.keys.look(finished.key)).toMatchObject({ state: 'final' });
    expect(await one.keys.look(released.key)).toEqual({ state: 'generated' });
  });

  test('take one connection, from the first watch on', async () => {
    expect(await listeners()).toBe(0);
    const watches = await Promise.all(Array.from({ length: 500 }, () => watching(one)));
    expect(await listeners()).toBe(1);
    for (const { key, owner } of watches) await other.keys.release(key, owner);
    await Promise.all(watches.map(untilTold));
  });

  test('cost a payment that nobody watches no command, and one that is watched a PUBLISH inside its script', async () => {
    const unwatched = await givenLockedKey(other);
    const watched = await watching(one);
    const monitor = await redis.client.duplicate().monitor();
    const seen: string[] = [];
    monitor.on('monitor', (_time: string, [name = '']: string[], source: string) => {
      seen.push(source === 'lua' ? `script ${name.toLowerCase()}` : name.toLowerCase());
    });
    const commandsOf = async ({ key, owner }: LockedKey) => {
      seen.length = 0;
      await other.keys.finish(key, owner, final());
      await redis.client.echo('done');
      await until('the monitor to catch up', DEADLINE_MS, () => seen.includes('echo'));
      return seen.filter((name) => name !== 'echo');
    };

    const lock = ['evalsha', 'script hmget', 'script del'];
    const record = ['script hset', 'script pexpireat'];
    expect(await commandsOf(unwatched)).toEqual([...lock, ...record]);
    expect(await commandsOf(watched)).toEqual([...lock, 'script publish', ...record]);
    monitor.disconnect();
  });

  test('leave nothing behind: no watch outlives the lock that it found', async () => {
    const generated = newKey();
    await one.keys.issue(generated, LONG_MS);
    const absent = newKey();
    const before = await redis.client.dbsize();
    await Promise.all([one.keys.watch(generated, () => {}), one.keys.watch(absent, () => {})]);
    expect(await redis.client.dbsize()).toBe(before);

    const { key } = await watching(one, await givenLockedKey(other, 10 * SHORT_MS));
    expect(await redis.client.hget(NAMES.payment(key).lock, 'watched')).toBe('1');
    await untilPast(10 * SHORT_MS);
    await other.keys.begin({ key, owner: newOwner(), leaseMs: LONG_MS, fingerprint: '100.50 USD' });
    expect(await redis.client.hget(NAMES.payment(key).lock, 'watched')).toBe(null);
  });

  test('may have been missed while the connection was lost: everybody is told once, and later ends are heard', async () => {
    const watches = [await watching(one), await watching(one)];
    await redis.client.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
    await Promise.all(watches.map(untilTold));
    expect(await listeners()).toBe(1);
    expect(watches.map(({ told }) => told())).toEqual([1, 1]);

    await expectLaterEndIsTold(one);
    for (const { key, owner } of watches) await other.keys.release(key, owner);
    await until('both to be told again', DEADLINE_MS, () => watches.every(({ told }) => told() === 2));
  });

  test('are heard again after a restart of the server, with no call of ours in between', async () => {
    const watch = await watching(one);
    await redis.kill();
    await redis.start();
    await untilTold(watch);
    await untilDone('the other process to be connected', () => watching(one));
    await expectLaterEndIsTold(one);
  });

  test('are looked for by hand as long as the subscription is on its way, and told as soon as it is in force', async () => {
    const slow = await openProcess(proxy.through(redis.url));
    const subscription = proxy.hold('subscribe', 'reply');
    const watch = await watching(slow);
    expect(watch.looked).toMatchObject({ state: 'locked' });
    await subscription.reached;
    expect(watch.told()).toBe(0);
    subscription.release();
    await untilTold(watch);
  });

  test('are listened for anew when the connection has died without a word', async () => {
    const far = await openProcess(proxy.through(redis.url));
    const watch = await watching(far);
    proxy.strand();
    await until('to be told', DEADLINE_MS, async () => {
      await far.keys.watch(watch.key, () => {}).catch(() => {});
      return watch.told() > 0;
    });
    await expectLaterEndIsTold(far);
  });

  test('cannot be heard by a user without the channel: everything else works, and that is reported once', async () => {
    const limited = await openProcess(await urlOfUser('+subscribe', '+publish'));
    const watches = [await watching(limited, await givenLockedKey(limited)), await watching(one)];
    expect(watches.map(({ looked }) => looked.state)).toEqual(['locked', 'locked']);
    for (const { key, owner } of watches) await limited.keys.finish(key, owner, final());
    for (const { key } of watches) expect((await watching(limited, { key, owner: '' })).looked.state).toBe('final');

    const released = await watching(limited, await givenLockedKey(limited));
    await limited.keys.release(released.key, released.owner);
    expect(await limited.keys.look(released.key)).toEqual({ state: 'generated' });
    expect(limited.refusals).toHaveLength(1);
    expect(limited.refusals[0]?.message).toMatch(/NOPERM/);
    expect(limited.refusals[0]).not.toHaveProperty('command');
  });

  test('are heard by a user who may use our channels only', async () => {
    const limited = await openProcess(await urlOfUser('&idempay:*', '+subscribe', '+publish'));
    const watch = await watching(limited, await givenLockedKey(limited));
    await limited.keys.release(watch.key, watch.owner);
    await untilTold(watch);
    expect(limited.refusals).toEqual([]);
  });

  test('are not told where there is no room to note who watches, but what a look finds is', async () => {
    const locked = await givenLockedKey(other);
    await redis.client.config('SET', 'maxmemory', '1');
    expect((await watching(one, locked)).looked).toMatchObject({ state: 'locked', fingerprint: '100.50 USD' });
    await redis.client.config('SET', 'maxmemory', '0');
  });

  test('are not believed from garbage on the channel', async () => {
    const watch = await watching(one);
    const text = ['', '{}', watch.key, 'idempay:{', '\0\r\n$-1\r\n', 'x'.repeat(1_000_000), 'constructor', '__proto__'];
    for (const each of [...text, Buffer.from([0xff, 0xfe, 0x00, 0xc3])])
      await redis.client.publish(NAMES.lockEnds, each);
    await redis.client.publish('lock-ends', NAMES.payment(watch.key).lock);
    await expectLaterEndIsTold(one);
    expect(watch.told()).toBe(0);
    expect(await listeners()).toBe(1);
  });

  test.each(['first', 'later'])(
    'are not watched by a server that hangs: the %s watch fails within its deadline and is forgotten',
    async (which) => {
      const locked = await givenLockedKey(other);
      if (which === 'later') await watching(one, locked);
      redis.signal('SIGSTOP');
      const askedAt = performance.now();
      let told = 0;
      const watch = one.keys.watch(locked.key, () => {
        told += 1;
      });
      await expect(watch).rejects.toMatchObject({ name: 'StoreUnavailable' });
      expect(performance.now() - askedAt).toBeLessThan(WATCH_DEADLINE_MS);
      redis.signal('SIGCONT');

      const again = await untilDone('the server to answer', () => watching(one, locked));
      await untilDone('the lock to be released', () => other.keys.release(locked.key, locked.owner).then(() => true));
      await untilTold(again);
      expect(told).toBe(0);
    },
  );

  test('are not watched by a server that is gone: a watch fails at once', async () => {
    const watch = await watching(one);
    await redis.kill();
    for (let time = 0; time < 2; time += 1) {
      const askedAt = performance.now();
      await expect(one.keys.watch(watch.key, () => {})).rejects.toMatchObject({ name: 'StoreUnavailable' });
      expect(performance.now() - askedAt).toBeLessThan(WATCH_DEADLINE_MS);
    }
    await redis.start();
  });

  test('keep no process alive: closing ends the connection too', async () => {
    const watch = await watching(one);
    one.close();
    await until('the connection to be closed', DEADLINE_MS, async () => (await listeners()) === 0);
    await other.keys.release(watch.key, watch.owner);
    expect(watch.told()).toBe(0);
  });

  test.each(['up', 'hanging', 'gone'])('let a process end that was closed while its server is %s', async (state) => {
    const child = run(process.execPath, ['--input-type=module', '--eval', SCRIPT, redis.url], {
      cwd: process.cwd(),
      timeout: EXIT_DEADLINE_MS,
    });
    child.child.stdout?.once('data', async () => {
      if (state === 'hanging') redis.signal('SIGSTOP');
      if (state === 'gone') await redis.kill();
      child.child.stdin?.end('close\n');
    });
    expect((await child).stdout).toBe('watching\nclosed\n');
    if (state === 'gone') await redis.start();
    redis.signal('SIGCONT');
  });
});

function untilDone<T>(what: string, work: () => Promise<T>): Promise<T> {
  return until<T>(what, DEADLINE_MS, () => work().catch(() => undefined));
}

/** Watches, and closes when it is told to; then nothing must be left that keeps it from ending. */
const SCRIPT = `
import { once } from 'node:events';
import { systemClock } from '#idempay/clock.js';
import { createKeyNames } from '#idempay/deployments/distributed/redis/key-names.js';
import { createRedisKeyStore } from '#idempay/deployments/distributed/redis/key-store.js';
import { LockEnds } from '#idempay/deployments/distributed/redis/lock-ends.js';
import { connected, connectRedis } from '#idempay/deployments/distributed/redis/redis-client.js';
import { readRedisUrl } from '#idempay/deployments/distributed/redis/redis-url.js';
const client = connectRedis(readRedisUrl(process.argv[1]), () => {});
await connected(client);
const names = createKeyNames('0123456789abcdef');
const ends = new LockEnds(client, names.lockEnds, systemClock, () => {});
const keys = createRedisKeyStore(client, names, ends, systemClock);
await keys.watch('key', () => {});
console.log('watching');
await once(process.stdin, 'data');
await keys.watch('key', () => {}).catch(() => {});
ends.close();
client.disconnect();
process.stdin.destroy();
console.log('closed');
`;

function final(): FinalOutcome {
  return {
    outcome: { state: 'COMPLETED', transactionId: 'TXN1' },
    fingerprint: '100.50 USD',
    expiresAt: Date.now() + LONG_MS,
  };
}
