import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Turn } from '#idempay/payments/ports/ledger.js';
import type { Claim } from '#idempay/payments/values/payment.js';
import { createComputeKey } from '#idempay/payments/values/reference.js';
import { systemClock } from '#idempay/platform/clock.js';
import { AnnouncedLockEnds } from '#idempay/stores/redis/announced-lock-ends.js';
import { connected, connectRedis } from '#idempay/stores/redis/connection/client.js';
import type { RedisClient } from '#idempay/stores/redis/connection/masters.js';
import { type RedisLocation, readRedisUrl } from '#idempay/stores/redis/connection/url.js';
import { createRedisKeyStore } from '#idempay/stores/redis/key-store.js';
import { createRedisTransactionCache } from '#idempay/stores/redis/transaction-cache.js';
import { TRANSACTION_STATUSES } from '#idempay/transactions/transaction.js';
import { createModelledServers, NAMES, openModelledPorts } from '../../proof/simulator/models/distributed.js';
import { directLine } from '../../proof/simulator/models/line.js';
import { connectRedis as connectModel } from '../../proof/simulator/models/redis-client.js';
import { claimAttempt, LONG_MS, newKey, SHORT_MS } from '../../testkit/protocol/payment-attempts.js';
import { type ContractPorts, openDistributedPorts } from '../../testkit/protocol/ports.js';
import { locationsAt, nothingRemembered } from '../../testkit/protocol/redis-process.js';
import { refundsWith } from '../../testkit/protocol/refund-attempts.js';
import { type Random, seededRandom, seedFrom } from '../../testkit/random.js';
import { type RedisServer, startRedis } from '../../testkit/servers/redis.js';
import { patience } from '../../testkit/time/patience.js';
import { HOUR_MS } from '../../testkit/time/retention-time.js';
import { untilPast } from '../../testkit/time/until.js';

/** A few, the same in every run; with SIDE_BY_SIDE_OPERATIONS this number, of a fresh seed that is printed. */
const OPERATIONS = Number(process.env.SIDE_BY_SIDE_OPERATIONS ?? 120);
/** So many that payments are removed among them. */
const MANY = 1_000;
const SEED = process.env.SIDE_BY_SIDE_OPERATIONS ? seedFrom('SIDE_BY_SIDE_SEED') : 1;
const timeout = patience(60_000 + OPERATIONS * 100);
/** Times, and names that each side makes for itself: both sides must have one, but its value may differ. */
const OWN =
  /"(remainingMs|expiresAt|claimBy|createdAt|claimedAt|settledAt|writeBy|token|seenMs|keysFromMs|unseenMs)":("[^"]*"|[\d.e+-]+)/g;

/** Since the step before, in whole milliseconds: 0 on one side and 1 on the other says nothing. */
const SINCE = /"(heldMs|ageMs)":[\d.e+-]+/g;

/** `side`: 0 for the real server, 1 for the model. Both are given the same choices. */
type Operation<Ports> = (ports: Ports, random: Random, side: 0 | 1) => unknown;

/** Runs random operations on the real server and on the model; each must be answered alike. */
async function sideBySide<Ports>(sides: readonly [Ports, Ports], operations: Record<string, Operation<Ports>>) {
  const random = seededRandom(SEED);
  for (let number = 1; number <= OPERATIONS; number += 1) {
    const [[name, run], choices] = [random.pick(Object.entries(operations)), random.below(2 ** 31)];
    const real = await answerOf(async () => run(sides[0], seededRandom(choices), 0));
    const model = await answerOf(async () => run(sides[1], seededRandom(choices), 1));
    expect(model, `seed ${SEED}, operation ${number}: ${name}`).toBe(real);
  }
}

async function answerOf(ask: () => Promise<unknown>): Promise<string> {
  const answer = await ask().catch((fault: Error & { effect?: string }) => {
    // A mistake of both sides is no agreement.
    if (fault.effect === undefined) throw fault;
    return `${fault.name} ${fault.effect}`;
  });
  return (JSON.stringify(answer) ?? 'nothing')
    .replaceAll(SINCE, '"$1":true')
    .replaceAll(OWN, (_, name, value) => `"${name}":${Number(value) !== 0}`);
}

/** The answers that the two sides gave to one operation, for later ones. */
class Kept<T> {
  private readonly pairs: [T, T][] = [];

  keep(side: 0 | 1, value: T): T {
    if (side === 0) this.pairs.push([value, value]);
    else (this.pairs.at(-1) as [T, T])[1] = value;
    return value;
  }

  pick(side: 0 | 1, random: Random): T | undefined {
    return this.pairs.length > 0 ? random.pick(this.pairs)[side] : undefined;
  }
}

/** Longer than a retention of one, and the hours around it. */
const HOURS = 4;
const OWNERS = ['one', 'another'];
/** Ends that are expected of pending payments: one is too far away to come, and one was so long ago that an operator may decide. */
const [SOON, LONG_AGO] = [Date.now() + 10 * HOUR_MS, Date.now() - 10 * HOUR_MS];
const CLIENTS = [undefined, 'key:a', 'jwt:b'];
const computeKey = createComputeKey('side by side');
const attemptAtRefund = refundsWith('side by side');
/** Parts of a payment of 100.50, few of which are left next to each other. */
const REFUNDED_UNITS = [100, 3_000, 9_000, 10_050, 10_051];

/** One of the first attempts at one of a few orders, with its key. */
function attemptAt(random: Random, order: string) {
  const reference = { text: order, attempt: 1 + random.below(3), client: random.pick(CLIENTS) };
  const previousKey = reference.attempt > 1 ? computeKey({ ...reference, attempt: reference.attempt - 1 }) : undefined;
  const turn: Turn = { reference, previousKey, lateMs: random.pick([undefined, HOUR_MS]) };
  return { key: computeKey(reference), client: reference.client, turn };
}

function final(random: Random) {
  const outcomes = [
    { state: 'COMPLETED', transactionId: 'TXN1' } as const,
    { state: 'DECLINED', reason: 'no' } as const,
  ];
  return {
    outcome: random.pick(outcomes),
    fingerprint: '1.00 EUR',
    client: random.pick(CLIENTS),
    expiresAt: Date.now() + LONG_MS,
  };
}

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

  test('to random begins, ends, fills and marks, evictions, failovers and lives that end', { timeout }, async () => {
    const { redis: model } = createModelledServers(() => performance.timeOrigin + performance.now());
    const open = async (connection: RedisClient) => {
      const locations = await locationsAt(connection);
      const lockEnds = new AnnouncedLockEnds(connection, NAMES.lockEnds, systemClock, () => {});
      const settings = { transactionCacheTtlMs: LONG_MS, clock: systemClock, roomForFills: () => true };
      return {
        keys: createRedisKeyStore(connection, NAMES, lockEnds, { clock: systemClock, remembered: nothingRemembered() }),
        cache: createRedisTransactionCache(connection, NAMES, locations, {
          databaseServer: () => 'database',
          ...settings,
        }),
        locations,
      };
    };
    const keys = Array.from({ length: 4 }, newKey);
    const ids = [100_000_000_000_001, 100_000_000_000_002];
    const tokens = new Kept<string | undefined>();
    const marks = new Kept<{ id: number; token: string }>();
    const row = (random: Random, id: number) => ({
      ...{ id, fromAccount: 'A', toAccount: 'B', amount: '1', status: random.pick(TRANSACTION_STATUSES) },
      ...{ version: 1 + random.below(5), createdAt: 1_700_000 },
    });
    const asked = (random: Random) => ({ key: random.pick(keys), client: random.pick(CLIENTS) });
    const attempt = (random: Random, leaseMs: number) => {
      const { turn, ...named } = attemptAt(random, 'order-1');
      const makes = random.below(2) === 0 ? { makes: { reference: turn.reference, lifeMs: LONG_MS } } : {};
      const subject = random.below(3) === 0 ? { ...named, ...makes } : asked(random);
      return { ...subject, owner: random.pick(OWNERS), leaseMs, fingerprint: 'print' };
    };
    const anyKey = (random: Random) => random.pick([...keys, attemptAt(random, 'order-1').key]);

    await sideBySide([await open(client), await open(connectModel(model, directLine))], {
      issue: ({ keys: store }, random) => store.issue(random.pick(keys), LONG_MS, { client: random.pick(CLIENTS) }),
      'issue the key of a reference': ({ keys: store }, random) => {
        const { key, client, turn } = attemptAt(random, 'order-1');
        return store.issue(key, LONG_MS, { client, reference: turn.reference });
      },
      'issue, and let the key expire': ({ keys: store }, random) =>
        store.issue(random.pick(keys), SHORT_MS).then(() => untilPast(SHORT_MS)),
      begin: ({ keys: store }, random) => store.begin(attempt(random, LONG_MS)),
      'begin, and let the lease end': async ({ keys: store }, random) => [
        await store.begin(attempt(random, SHORT_MS)),
        await untilPast(SHORT_MS),
      ],
      look: ({ keys: store }, random) => store.look(anyKey(random), random.pick(CLIENTS)),
      finish: ({ keys: store }, random) => store.finish(anyKey(random), random.pick(OWNERS), final(random)),
      release: ({ keys: store }, random) => store.release(anyKey(random), random.pick(OWNERS)),
      forget: ({ keys: store }, random) => store.forget(anyKey(random), random.pick(OWNERS)),
      'look up': async ({ cache }, random, side) => {
        const found = await cache.lookUp(random.pick(ids));
        tokens.keep(side, found.state === 'miss' ? found.token : undefined);
        return found;
      },
      fill: ({ cache }, random, side) => {
        const [token, id] = [tokens.pick(side, random), random.pick(ids)];
        return cache.fill(id, token ?? 'no token', row(random, id));
      },
      'give a token back': ({ cache }, random, side) =>
        cache.forgo(random.pick(ids), tokens.pick(side, random) ?? 'no token'),
      mark: async ({ cache }, random, side) => marks.keep(side, await cache.mark(random.pick(ids))),
      refresh: ({ cache }, random, side) => {
        const mark = marks.pick(side, random);
        return mark && cache.refresh(mark, row(random, mark.id));
      },
      evict: ({ cache }, random, side) => {
        const mark = marks.pick(side, random);
        return mark && cache.evict(mark);
      },
      'lose everything': async (_ports, random, side) => {
        if (random.below(4) === 0) await [() => redis.client.flushall(), () => model.forget()][side]?.();
      },
      'forget the scripts': async (_ports, _random, side) => {
        await [() => redis.client.script('FLUSH'), () => model.forgetScripts()][side]?.();
      },
      'fail over': async ({ locations }, _random, side) => {
        await [() => redis.client.call('DEBUG', 'CHANGE-REPL-ID'), () => model.copy()()][side]?.();
        await locations.look();
      },
    });
  });
});

describe('the model of PostgreSQL answers as PostgreSQL', () => {
  let sides: readonly [ContractPorts, ContractPorts];
  beforeAll(async () => {
    sides = [await openDistributedPorts(), await openModelledPorts()];
  });
  afterAll(() => Promise.all(sides.map((ports) => ports.close())));

  test('to random claims, settlements, changes, removals and lists', { timeout }, async () => {
    const keys = Array.from({ length: 5 }, newKey);
    let orders = ['order-1', 'order-2'];
    const passed = { seenMs: [0, 0] as [number, number], lowestKeyMs: 0, removed: 0 };
    const named = (random: Random) =>
      random.below(2) === 0
        ? { key: random.pick(keys), client: random.pick(CLIENTS) }
        : attemptAt(random, random.pick(orders));
    const claims = new Kept<Claim | undefined>();
    const someId = (random: Random) => 100_000_000_000_001 + random.below(12);
    const statuses = (random: Random) => (random.below(3) === 0 ? [random.pick(TRANSACTION_STATUSES)] : undefined);
    const ownIds = (random: Random) => {
      return { owner: `owner ${random.below(1e9)}`, transactionId: `TXN${random.below(1e9)}` };
    };
    const claim =
      (leaseMs: number, lateMs: number): Operation<ContractPorts> =>
      async ({ ledger }, random, side) => {
        const attempt = { ...named(random), ...ownIds(random), leaseMs };
        const claimBy = performance.now() + LONG_MS - lateMs;
        const answer = await ledger.claim(claimAttempt({ ...attempt, claimBy }));
        claims.keep(side, 'claim' in answer ? answer.claim : undefined);
        if (leaseMs === SHORT_MS) await untilPast(SHORT_MS);
        return answer;
      };
    const ofClaim =
      (run: (ledger: ContractPorts['ledger'], claim: Claim, random: Random) => unknown): Operation<ContractPorts> =>
      ({ ledger }, random, side) => {
        const held = claims.pick(side, random);
        return held && run(ledger, held, random);
      };

    /** A few names of refunds, most of them of payments that are not COMPLETED. */
    const refundOf = (random: Random, leaseMs: number) =>
      attemptAtRefund(
        {
          key: named(random).key,
          amount: '100.50',
          currency: random.pick(['USD', 'USD', 'USD', 'EUR']),
          processor: 'test',
        },
        {
          ...{ name: random.pick(['part', 'rest']), units: random.pick(REFUNDED_UNITS), reason: 'asked', leaseMs },
          ...{
            lateMs: random.pick([undefined, HOUR_MS]),
            chargeId: random.pick([undefined, 'ch_1']),
            ...ownIds(random),
          },
          claimBy: performance.now() + LONG_MS - random.pick([0, 0, 0, 2 * LONG_MS]),
        },
      );
    const refund =
      (leaseMs: number): Operation<ContractPorts> =>
      async ({ refunds }, random, side) => {
        const answer = await refunds.claimRefund(refundOf(random, leaseMs));
        claims.keep(side, 'claim' in answer ? answer.claim : undefined);
        if (leaseMs === SHORT_MS) await untilPast(SHORT_MS);
        return answer;
      };

    await sideBySide(sides, {
      refund: refund(LONG_MS),
      'refund, and let the lease end': refund(SHORT_MS),
      'find refunds, take one over, resolve one': async ({ ledger, refunds, paymentHistory }, random, side) => {
        const {
          key,
          refund: { payment },
        } = refundOf(random, LONG_MS);
        const takeover = { key, owner: random.pick(OWNERS), leaseMs: LONG_MS, processor: 'test' };
        const verdict = { state: random.pick(['COMPLETED', 'DECLINED'] as const), reason: 'asked' };
        const times = { dedupMs: random.pick([0, LONG_MS]), idempotencyTtlMs: LONG_MS };
        return [
          ...[
            await refunds.findRefund(key),
            await refunds.findRefund(key, random.pick(CLIENTS)),
            await ledger.find(key),
          ],
          ...[await paymentHistory.refundsOf(payment), await paymentHistory.find(payment)],
          await (random.below(2) === 0
            ? ledger.resolve({ key, owner: 'operator', ...verdict, ...times })
            : ledger.takeOver(takeover).then((taken) => claims.keep(side, taken))),
          await paymentHistory.find(payment),
        ];
      },
      claim: claim(LONG_MS, 0),
      'claim, and let the lease end': claim(SHORT_MS, 0),
      'claim too late': claim(LONG_MS, 2 * LONG_MS),
      cancel: async ({ ledger }, random) => {
        const cancellation = {
          ...named(random),
          ...ownIds(random),
          processor: 'test',
          isLookedUp: random.below(2) === 0,
          waitAfterLossMs: 0,
        };
        const claimBy = performance.now() + LONG_MS - random.pick([0, 0, 2 * LONG_MS]);
        const idempotencyTtlMs = random.pick([SHORT_MS, LONG_MS]);
        const answer = await ledger.cancel({ ...cancellation, claimBy, idempotencyTtlMs });
        if (idempotencyTtlMs === SHORT_MS) await untilPast(SHORT_MS);
        return answer;
      },
      renew: ofClaim((ledger, held) => ledger.renew(held, LONG_MS)),
      settle: ofClaim(async (ledger, held, random) => {
        const [{ outcome }, ttlMs] = [final(random), random.pick([SHORT_MS, LONG_MS])];
        const processorId = random.pick([held.processorId, 'ch_3']);
        const answer = await ledger.settle({ ...held, processorId }, outcome, ttlMs);
        if (ttlMs === SHORT_MS) await untilPast(SHORT_MS);
        return answer;
      }),
      abandon: ofClaim((ledger, held, random) => ledger.abandon(held, 0, random.below(2) ? 'unsent' : undefined)),
      'take over': async ({ ledger }, random, side) => {
        const takeover = { key: named(random).key, owner: random.pick(OWNERS), leaseMs: LONG_MS, processor: 'test' };
        return claims.keep(side, await ledger.takeOver({ ...takeover, isPending: random.below(2) === 0 }));
      },
      'begin an ending': async ({ ledger }, random, side) => {
        const takeover = { key: named(random).key, owner: random.pick(OWNERS), leaseMs: LONG_MS, processor: 'test' };
        const scope = random.pick(['order', 'attempt'] as const);
        return claims.keep(side, await ledger.beginEnding({ ...takeover, scope, onlyUnsent: random.below(2) === 0 }));
      },
      leave: ofClaim((ledger, held, random) => {
        const left = {
          pendingUntilMs: random.pick([undefined, SOON, LONG_AGO]),
          clearsEnding: random.below(2) === 0,
          processorId: random.pick([undefined, 'ch_1', 'ch_2']),
        };
        const note = { sent: true, pendingUntil: left.pendingUntilMs };
        return ledger.leave(held, { recoverAfterMs: random.pick([0, LONG_MS]), ...left }, note);
      }),
      'ask about what is pending': async ({ ledger }, random) => {
        const limit = random.pick([1, 10]);
        const due = await ledger.duePending({ processor: random.pick(['test', 'test', 'other']), limit });
        // Microseconds decide which of several due payments are returned, so their number is compared if the limit is 1.
        const { payments, pastUntil } = await ledger.pendingBacklog();
        return [limit === 1 ? due.length : due.toSorted((a, b) => (a.key < b.key ? -1 : 1)), payments, pastUntil];
      },
      'move an end': ({ ledger }, random) => ledger.movePending(named(random).key, random.pick([SOON, LONG_AGO])),
      resolve: ({ ledger }, random) =>
        ledger.resolve({
          ...{ key: named(random).key, owner: 'operator', state: random.pick(['COMPLETED', 'DECLINED'] as const) },
          ...{ reason: 'asked', dedupMs: random.pick([0, LONG_MS]), idempotencyTtlMs: LONG_MS },
        }),
      find: async ({ ledger, paymentHistory }, random) => {
        const { key } = named(random);
        return [
          ...[await ledger.find(key), await ledger.find(key, random.pick(CLIENTS)), await paymentHistory.find(key)],
          await paymentHistory.newestAttempt(random.pick(orders), random.pick(CLIENTS)),
        ];
      },
      'a new key': (_ports, random, side) => {
        if (side === 0) keys[random.below(keys.length)] = newKey();
      },
      'a new order': (_ports, random, side) => {
        if (side === 0) orders = [random.pick(orders), `order-${random.below(1e9)}`];
      },
      'count abandoned, list': async ({ ledger, paymentHistory }, random) => {
        const all = { state: undefined, claimedFrom: undefined, claimedTo: undefined, before: undefined, limit: 50 };
        const key = named(random).key.replaceAll('-', '');
        const find = random.pick([
          { keyDigits: key.slice(0, 14) },
          { transactionId: 'TXN1' },
          { transactionId: 'TXN2' },
        ]);
        const readLimit = random.pick([1, 3, 50]);
        return [
          await ledger.countAbandoned(0, LONG_MS),
          await paymentHistory.newest(all, readLimit),
          await paymentHistory.newest({ ...all, client: 'key:a' }, readLimit),
          await paymentHistory.newest({ ...all, client: 'key:a', state: 'PROCESSING' }, readLimit),
          await paymentHistory.newest({ ...all, state: 'PROCESSING' }, readLimit),
          await paymentHistory.newest({ ...all, isPending: true }, readLimit),
          await paymentHistory.newest({ ...all, isPending: true, client: 'key:a', processor: 'test' }, readLimit),
          await paymentHistory.newest({ ...all, reference: random.pick(orders) }, readLimit),
          await paymentHistory.newest({ ...all, reference: random.pick(orders), client: 'key:a' }, readLimit),
          await paymentHistory.newest({ ...all, find, processor: random.pick(['test', 'other']) }, readLimit),
          await paymentHistory.newest({ ...all, find, client: random.pick(['key:a', undefined]) }, readLimit),
          await paymentHistory.newest({ ...all, kind: 'refund' }, readLimit),
          await paymentHistory.newest({ ...all, kind: 'all', state: random.pick([undefined, 'DECLINED']) }, readLimit),
        ];
      },
      'let hours pass, and remove': async ({ ledger, endClaims }, random, side) => {
        if (random.below(2) > 0) return undefined;
        // Payments that were settled until now may go, and keys of before are refused.
        if (side === 0) passed.lowestKeyMs = Date.now();
        const { lowestKeyMs } = passed;
        const answers: unknown[] = [];
        for (let hour = 0; hour < HOURS; hour += 1) {
          const noted = await ledger.noteElapsed({ sinceMs: passed.seenMs[side], elapsedMs: HOUR_MS, lowestKeyMs });
          passed.seenMs[side] = noted.seenMs;
          await endClaims();
          const removal = await ledger.removeSettled(HOUR_MS, random.pick([1, 3, 10]));
          passed.removed += removal.removed;
          answers.push(noted, removal);
        }
        if (side === 1) keys.splice(0, keys.length, ...keys.map(() => newKey()));
        return answers;
      },
      create: ({ transactions }, random) => {
        const [fromAccount, toAccount] = random.pick([['A', 'B'] as const, ['B', 'C'] as const]);
        return transactions.create({ fromAccount, toAccount, amount: '10.5', status: 'PENDING' });
      },
      change: ({ transactions }, random) => {
        const writeBy = performance.now() + LONG_MS - random.pick([0, 0, 2 * LONG_MS]);
        return transactions.changeStatus(someId(random), random.pick(TRANSACTION_STATUSES), statuses(random), {
          writeBy,
        });
      },
      remove: ({ transactions }, random) => transactions.remove(someId(random), statuses(random)),
      list: async ({ transactions }, random) => {
        const filter = { from: random.pick(['', 'A', 'B']), to: random.pick(['', 'C']) };
        const snapshot = await transactions.openSnapshot(filter);
        const seen = [snapshot.version, await snapshot.firstRemovedSince(random.below(20))];
        const rows = [await snapshot.rows(0, 5), await snapshot.ids(someId(random), 5)];
        snapshot.close();
        return [...seen, ...rows, (await transactions.listVersion()) === snapshot.version];
      },
    });
    if (OPERATIONS >= MANY) expect(passed.removed, 'payments removed').toBeGreaterThan(0);
  });
});
