import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { systemClock } from '#idempay/clock.js';
import { createRedisKeyStore } from '#idempay/deployments/distributed/redis/key-store.js';
import { LockEnds } from '#idempay/deployments/distributed/redis/lock-ends.js';
import { connected, connectRedis, type RedisClient } from '#idempay/deployments/distributed/redis/redis-client.js';
import { type RedisLocation, readRedisUrl } from '#idempay/deployments/distributed/redis/redis-url.js';
import { createRedisTransactionCache } from '#idempay/deployments/distributed/redis/transaction-cache.js';
import type { Claim } from '#idempay/payments/values/payment.js';
import { TRANSACTION_STATUSES } from '#idempay/transactions/transaction.js';
import { createModelledServers, NAMES, openModelledPorts } from '../../proof/simulator/models/distributed.js';
import { directLine } from '../../proof/simulator/models/line.js';
import { connectRedis as connectModel } from '../../proof/simulator/models/redis-client.js';
import { claimAttempt, LONG_MS, newKey, SHORT_MS } from '../../testkit/protocol/payment-attempts.js';
import { openDistributedPorts, type Ports } from '../../testkit/protocol/ports.js';
import { type Random, seededRandom, seedFrom } from '../../testkit/random.js';
import { type RedisServer, startRedis } from '../../testkit/servers/redis.js';
import { HOUR_MS } from '../../testkit/time/retention-time.js';
import { untilPast } from '../../testkit/time/until-past.js';

/** A few, the same in every run; with SIDE_BY_SIDE_OPERATIONS so many, of a fresh seed that is printed. */
const OPERATIONS = Number(process.env.SIDE_BY_SIDE_OPERATIONS ?? 120);
const SEED = process.env.SIDE_BY_SIDE_OPERATIONS ? seedFrom('SIDE_BY_SIDE_SEED') : 1;
const LIMIT_MS = 60_000 + OPERATIONS * 100;
/** Of time, and of names that the two sides make for themselves: that there is one must agree, not which. */
const OWN =
  /"(remainingMs|heldMs|ageMs|expiresAt|claimBy|createdAt|claimedAt|settledAt|writeBy|token|seenMs|keysFromMs|unseenMs)":("[^"]*"|[\d.e+-]+)/g;

type Pair<T> = readonly [real: T, model: T];
type Operation<Side> = (random: Random) => (side: Side, index: 0 | 1) => Promise<unknown>;

/** Runs random operations on the real server and on the model; each must be answered alike. */
async function sideBySide<Side>(sides: Pair<Side>, operations: Readonly<Record<string, Operation<Side>>>) {
  const random = seededRandom(SEED);
  const names = Object.keys(operations);
  for (let number = 1; number <= OPERATIONS; number += 1) {
    const name = random.pick(names);
    const run = (operations[name] as Operation<Side>)(random);
    const [real, model] = [await answerOf(run(sides[0], 0)), await answerOf(run(sides[1], 1))];
    expect(model, `seed ${SEED}, operation ${number}: ${name}`).toBe(real);
  }
}

async function answerOf(asked: Promise<unknown>): Promise<string> {
  const answer = await asked.catch((fault: { name: string; effect?: string }) => `${fault.name} ${fault.effect}`);
  return (JSON.stringify(answer) ?? 'nothing').replaceAll(OWN, (_, name, value) => `"${name}":${Number(value) !== 0}`);
}

/** What the two sides were answered to one operation, for later ones. */
function kept<T>(): { keep(index: 0 | 1, value: T): T; pick(random: Random): Pair<T> | undefined } {
  const pairs: [T, T][] = [];
  return {
    keep(index, value) {
      if (index === 0) pairs.push([value, value]);
      else (pairs.at(-1) as [T, T])[1] = value;
      return value;
    },
    pick: (random) => (pairs.length > 0 ? random.pick(pairs) : undefined),
  };
}

const ALL = { state: undefined, createdFrom: undefined, createdTo: undefined, before: undefined, limit: 50 };
const OWNERS = ['one', 'another'];
const final = (random: Random) => ({
  outcome: random.below(2)
    ? ({ state: 'COMPLETED', transactionId: 'TXN1' } as const)
    : ({ state: 'DECLINED', reason: 'no funds' } as const),
  fingerprint: '1.00 EUR',
  expiresAt: Date.now() + LONG_MS,
});

describe('the model of Redis answers as Redis', () => {
  let redis: RedisServer;
  let client: RedisClient;
  beforeAll(async () => {
    redis = await startRedis(['--enable-debug-command', 'yes']);
    client = connectRedis(readRedisUrl(redis.url) as RedisLocation, () => {});
    await connected(client);
  });
  afterAll(async () => {
    client.disconnect();
    await redis.close();
  });

  test('to random begins, ends, fills and marks, evictions, failovers and lives that end', {
    timeout: LIMIT_MS,
  }, async () => {
    const now = () => performance.timeOrigin + performance.now();
    const { redis: model } = createModelledServers(now);
    const open = (connection: RedisClient) => {
      const lockEnds = new LockEnds(connection, NAMES.lockEnds, systemClock, () => {});
      const settings = { transactionCacheTtlMs: LONG_MS, clock: systemClock, roomForFills: () => true };
      return {
        keys: createRedisKeyStore(connection, NAMES, lockEnds, systemClock),
        cache: createRedisTransactionCache(connection, NAMES, () => 'database', settings),
      };
    };
    const keys = Array.from({ length: 4 }, newKey);
    const ids = [100_000_000_000_001, 100_000_000_000_002];
    const tokens = kept<string | undefined>();
    const marks = kept<{ id: number; token: string }>();
    const row = (random: Random, id: number) => ({
      ...{ id, fromAccount: 'A', toAccount: 'B', amount: '1', status: random.pick(TRANSACTION_STATUSES) },
      ...{ version: 1 + random.below(5), createdAt: 1_700_000 },
    });
    const ofServer = (real: () => Promise<unknown>, modelled: () => void) => () => (_side: unknown, index: 0 | 1) =>
      index === 0 ? real().then(() => undefined) : Promise.resolve(modelled());
    const promote = () => model.copy()();

    await sideBySide([open(client), open(connectModel(model, directLine))], {
      issue: (random) => {
        const key = random.pick(keys);
        return ({ keys: store }) => store.issue(key, LONG_MS);
      },
      'issue, and let the key expire': (random) => {
        const key = random.pick(keys);
        return ({ keys: store }) => store.issue(key, SHORT_MS).then(() => untilPast(SHORT_MS));
      },
      begin: (random) => {
        const attempt = { key: random.pick(keys), owner: random.pick(OWNERS), leaseMs: LONG_MS, fingerprint: 'print' };
        return ({ keys: store }) => store.begin(attempt);
      },
      'begin, and let the lease end': (random) => {
        const attempt = { key: random.pick(keys), owner: random.pick(OWNERS), leaseMs: SHORT_MS, fingerprint: 'print' };
        return async ({ keys: store }) => [await store.begin(attempt), await untilPast(SHORT_MS)];
      },
      look: (random) => {
        const key = random.pick(keys);
        return ({ keys: store }) => store.look(key);
      },
      finish: (random) => {
        const [key, owner, end] = [random.pick(keys), random.pick(OWNERS), final(random)];
        return ({ keys: store }) => store.finish(key, owner, end);
      },
      release: (random) => {
        const [key, owner] = [random.pick(keys), random.pick(OWNERS)];
        return ({ keys: store }) => store.release(key, owner);
      },
      'look up': (random) => {
        const id = random.pick(ids);
        return async ({ cache }, index) => {
          const found = await cache.lookUp(id);
          tokens.keep(index, found.state === 'miss' ? found.token : undefined);
          return found;
        };
      },
      fill: (random) => {
        const [pair, id] = [tokens.pick(random), random.pick(ids)];
        const transaction = row(random, id);
        return ({ cache }, index) => cache.fill(id, pair?.[index] ?? 'no token', transaction);
      },
      'give a token back': (random) => {
        const [pair, id] = [tokens.pick(random), random.pick(ids)];
        return ({ cache }, index) => cache.forgo(id, pair?.[index] ?? 'no token');
      },
      mark: (random) => {
        const id = random.pick(ids);
        return async ({ cache }, index) => marks.keep(index, await cache.mark(id));
      },
      refresh: (random) => {
        const pair = marks.pick(random);
        const transaction = row(random, pair?.[0].id ?? 0);
        return async ({ cache }, index) => pair && cache.refresh(pair[index], transaction);
      },
      evict: (random) => {
        const pair = marks.pick(random);
        return async ({ cache }, index) => pair && cache.evict(pair[index]);
      },
      'lose everything': (random) =>
        random.below(4) === 0
          ? ofServer(
              () => redis.client.flushall(),
              () => model.forget(),
            )()
          : async () => undefined,
      'forget the scripts': ofServer(
        () => redis.client.script('FLUSH'),
        () => model.forgetScripts(),
      ),
      'fail over': ofServer(() => redis.client.call('DEBUG', 'CHANGE-REPL-ID'), promote),
    });
  });
});

describe('the model of PostgreSQL answers as PostgreSQL', () => {
  let sides: Pair<Ports>;
  beforeAll(async () => {
    sides = [await openDistributedPorts(), await openModelledPorts()];
  });
  afterAll(() => Promise.all(sides.map((ports) => ports.close())));

  test('to random claims, settlements, changes, removals and lists', { timeout: LIMIT_MS }, async () => {
    const keys = Array.from({ length: 5 }, newKey);
    const claims = kept<Claim | undefined>();
    const firstId = 100_000_000_000_001;
    const someId = (random: Random) => firstId + random.below(12);
    const statuses = (random: Random) => (random.below(3) === 0 ? [random.pick(TRANSACTION_STATUSES)] : undefined);
    const attempt = (random: Random, leaseMs: number, lateMs: number) =>
      claimAttempt({ key: random.pick(keys), leaseMs, claimBy: performance.now() + LONG_MS - lateMs });
    const claim =
      (leaseMs: number, lateMs: number): Operation<Ports> =>
      (random) => {
        const claimed = attempt(random, leaseMs, lateMs);
        return async ({ ledger }, index) => {
          const answer = await ledger.claim(claimed);
          claims.keep(index, 'claim' in answer ? answer.claim : undefined);
          if (leaseMs === SHORT_MS) await untilPast(SHORT_MS);
          return answer;
        };
      };
    const ofClaim =
      (run: (ports: Ports, claim: Claim, random: Random) => Promise<unknown>): Operation<Ports> =>
      (random) => {
        const [pair, same] = [claims.pick(random), random.below(2 ** 31)];
        return async (ports, index) => pair?.[index] && run(ports, pair[index], seededRandom(same));
      };

    await sideBySide(sides, {
      claim: claim(LONG_MS, 0),
      'claim, and let the lease end': claim(SHORT_MS, 0),
      'claim too late': claim(LONG_MS, 2 * LONG_MS),
      renew: ofClaim(({ ledger }, held) => ledger.renew(held, LONG_MS)),
      settle: ofClaim(({ ledger }, held, random) => ledger.settle(held, final(random).outcome, LONG_MS)),
      abandon: ofClaim(({ ledger }, held, random) => ledger.abandon(held, 0, random.below(2) ? 'unsent' : undefined)),
      'take over': (random) => {
        const takeover = { key: random.pick(keys), owner: random.pick(OWNERS), leaseMs: LONG_MS, processor: 'test' };
        return async ({ ledger }, index) => claims.keep(index, await ledger.takeOver(takeover));
      },
      resolve: (random) => {
        const of = {
          key: random.pick(keys),
          owner: 'operator',
          state: random.pick(['COMPLETED', 'DECLINED'] as const),
        };
        const resolution = { ...of, reason: 'asked', dedupMs: random.pick([0, LONG_MS]), idempotencyTtlMs: LONG_MS };
        return ({ ledger }) => ledger.resolve(resolution);
      },
      find: (random) => {
        const key = random.pick(keys);
        return async ({ ledger, paymentHistory }) => [await ledger.find(key), await paymentHistory.find(key)];
      },
      'a new key': (random) => {
        keys[random.below(keys.length)] = newKey();
        return async () => undefined;
      },
      'count abandoned, list, note time':
        () =>
        async ({ ledger, paymentHistory }) => [
          await ledger.countAbandoned(0, LONG_MS),
          await paymentHistory.newest(ALL),
          await ledger.noteElapsed({ sinceMs: 0, elapsedMs: HOUR_MS, lowestKeyMs: Date.now() - HOUR_MS }),
          await ledger.removeSettled(HOUR_MS, 10),
        ],
      create: (random) => {
        const accounts = random.pick([['A', 'B'] as const, ['B', 'C'] as const]);
        const created = {
          fromAccount: accounts[0],
          toAccount: accounts[1],
          amount: '10.5',
          status: 'PENDING',
        } as const;
        return ({ transactions }) => transactions.create(created);
      },
      change: (random) => {
        const [id, status, onlyFrom] = [someId(random), random.pick(TRANSACTION_STATUSES), statuses(random)];
        const lateMs = random.pick([0, 0, 2 * LONG_MS]);
        return ({ transactions }) =>
          transactions.changeStatus(id, status, onlyFrom, performance.now() + LONG_MS - lateMs);
      },
      remove: (random) => {
        const [id, onlyFrom] = [someId(random), statuses(random)];
        return ({ transactions }) => transactions.remove(id, onlyFrom);
      },
      list: (random) => {
        const filter = { from: random.pick(['', 'A', 'B']), to: random.pick(['', 'C']) };
        const [since, afterId] = [random.below(20), someId(random)];
        return async ({ transactions }) => {
          const snapshot = await transactions.openSnapshot(filter);
          const { version } = snapshot;
          const seen = [
            version,
            await snapshot.firstRemovedSince(since),
            await snapshot.rows(0, 5),
            await snapshot.ids(afterId, 5),
          ];
          snapshot.close();
          return [...seen, (await transactions.listVersion()) === version];
        };
      },
    });
  });
});
