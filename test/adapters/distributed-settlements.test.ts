import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { SettlementBound } from '#idempay/payments/ports/settlements.js';
import type { Claim } from '#idempay/payments/values/payment.js';
import { DatabaseClock } from '#idempay/stores/postgres/connection/database-clock.js';
import type { Postgres } from '#idempay/stores/postgres/connection/postgres.js';
import {
  cancellation,
  claimAttempt,
  completed,
  DECLINED,
  givenClaim,
  givenSettled,
  inState,
  LONG_MS,
} from '../../testkit/protocol/payment-attempts.js';
import { openDistributedPortsOn, type Ports } from '../../testkit/protocol/ports.js';
import { givenRefund, refundsWith } from '../../testkit/protocol/refund-attempts.js';
import { runSql, startPostgres } from '../../testkit/servers/postgres.js';
import { startRedis } from '../../testkit/servers/redis.js';
import { HandClock } from '../../testkit/time/hand-clock.js';
import { until } from '../../testkit/time/until.js';

const DEADLINE_MS = 15_000;
const MANY = 1_000;
const LOOKS = 5;
/** Longer than the bound stays behind the clock. */
const PAST_BOUND_US = 300_000;
/** What the service writes, by a session of somebody who does not commit. */
const SETTLE = `
  UPDATE idempay.payments SET state = 'COMPLETED', settled_at = clock_timestamp(), settled_hour = 1, expires_at = clock_timestamp()
  WHERE key = $1`;

/** A server with prepared transactions, which most have not. */
let postgres: Awaited<ReturnType<typeof startPostgres>>;
let redis: Awaited<ReturnType<typeof startRedis>>;
let databaseUrl: string;
let ports: Ports;
let other: Ports;

beforeAll(async () => {
  [postgres, redis] = await Promise.all([startPostgres(['max_prepared_transactions=5']), startRedis([])]);
  databaseUrl = await postgres.createDatabase('idempay');
  const stores = { redisUrl: redis.url, databaseUrl };
  await (await openDistributedPortsOn(stores)).close();
  // Its tables have the same numbers.
  await runSql(postgres.url('postgres'), 'CREATE DATABASE copied TEMPLATE idempay');
  [ports, other] = [await openDistributedPortsOn(stores), await openDistributedPortsOn(stores)];
});
afterAll(async () => {
  await Promise.all([ports?.close(), other?.close()]);
  await Promise.all([postgres?.close(), redis?.close()]);
});

const sql = <Row extends pg.QueryResultRow>(text: string, values?: readonly unknown[]) =>
  runSql<Row>(databaseUrl, text, values);

/** A session of somebody else, until the test has ended. */
async function withSession<T>(work: (client: pg.Client) => Promise<T>, url = databaseUrl): Promise<T> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

async function nowUs(): Promise<number> {
  const [row] = await sql<{ us: number }>('SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::float8 AS us');
  return row?.us as number;
}

/** A bound that is past this moment. */
async function boundPast(us: number): Promise<SettlementBound> {
  return until('the bound to pass', DEADLINE_MS, async () => {
    const bound = await ports.settlements.look();
    return bound && bound.atUs > us && bound;
  });
}

async function keysBetween(after: SettlementBound, bound: SettlementBound): Promise<string[]> {
  const question = { after, bound, client: undefined, kind: undefined, limit: MANY, readLimit: MANY };
  const page = inState(await ports.settlements.page(question), 'page');
  return page.settlements.map(({ key }) => key);
}

/** Meanwhile commits wait for a standby that does not exist, unless their session does not want to. */
async function withoutStandby(work: () => Promise<void>): Promise<void> {
  const reload = async (change: string, standbys: string) => {
    await sql(`ALTER SYSTEM ${change}`);
    await sql('SELECT pg_reload_conf()');
    await until('the setting to be read', DEADLINE_MS, async () => {
      const [row] = await sql<{ synchronous_standby_names: string }>('SHOW synchronous_standby_names');
      return row?.synchronous_standby_names === standbys;
    });
    // The process that makes checkpoints tells the others if there are standbys to wait for, and reads its settings before it makes one.
    await sql('CHECKPOINT');
  };
  await reload("SET synchronous_standby_names = 'nobody'", 'nobody');
  try {
    await work();
  } finally {
    await reload('RESET synchronous_standby_names', '');
  }
}

const untilWaitsForStandby = (statement: string) =>
  until('the commit to wait for its standby', DEADLINE_MS, async () => {
    const waiting = "SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND strpos(query, $1) > 0";
    return (await sql(waiting, [statement])).length > 0;
  });

/**
 * The bound after several looks, each of which could have moved it past everything that has happened until now. Bug: a bound that no
 * transaction delayed was not noticed. Cause: the looks came so soon that a bound behind the clock did not reach the settlement either way.
 * Fix: the first look comes later.
 */
async function boundAfterLooks(): Promise<SettlementBound | undefined> {
  const us = await nowUs();
  await until('the clock to go on', DEADLINE_MS, async () => (await nowUs()) > us + PAST_BOUND_US);
  let bound: SettlementBound | undefined;
  for (let looks = 0; looks < LOOKS; looks += 1) bound = await ports.settlements.look();
  return bound;
}

describe('the lock of a change', () => {
  const settleSteps: [string, (claim: Claim) => Promise<unknown>][] = [
    ['a settlement', (claim) => ports.ledger.settle(claim, completed(claim), LONG_MS)],
    [
      'a settlement with an event',
      (claim) => ports.ledger.settle(claim, completed(claim), LONG_MS, { sent: true, cause: 'no answer' }),
    ],
  ];

  /**
   * The order on which the bound relies: parsing, or the check of a plan that is kept, takes the lock, and only the execution reads the clock.
   * So a time that is earlier than the lock cannot be.
   */
  async function expectLockBeforeClock(key: string, write: () => Promise<unknown>): Promise<void> {
    const [writing, releasedUs] = await withSession(async (client) => {
      await client.query('BEGIN; LOCK TABLE idempay.payments IN SHARE MODE');
      const underWay = write();
      await until('the statement to wait for the lock of the table', DEADLINE_MS, async () => {
        const waiting = `SELECT FROM pg_locks WHERE relation = 'idempay.payments'::regclass AND NOT granted`;
        return (await sql(waiting)).length > 0;
      });
      const us = await nowUs();
      await client.query('COMMIT');
      return [underWay, us] as const;
    });
    await writing;
    const [row] = await sql<{ us: number }>(
      'SELECT (extract(epoch FROM settled_at) * 1000000)::float8 AS us FROM idempay.payments WHERE key = $1',
      [key],
    );
    expect(row?.us).toBeGreaterThan(releasedUs);
  }

  test.each(settleSteps)(
    'is held by %s before it reads the clock, the first time and with a kept plan',
    async (_, settle) => {
      for (let times = 0; times < 3; times += 1) {
        const claim = await givenClaim(ports.ledger);
        await expectLockBeforeClock(claim.key, () => settle(claim));
      }
    },
  );

  test('is held by a cancellation, a claim that settles and the end of a refund before they read the clock', async () => {
    const refundOf = refundsWith(ports.id);
    for (let times = 0; times < 2; times += 1) {
      const closed = cancellation();
      await expectLockBeforeClock(closed.key, () => ports.ledger.cancel(closed));
      const attempt = claimAttempt({ processor: 'test' });
      const settleAs = { outcome: completed(attempt), idempotencyTtlMs: LONG_MS };
      await expectLockBeforeClock(attempt.key, () => ports.ledger.claim({ ...attempt, settleAs }));
      const paid = await givenClaim(ports.ledger);
      await givenSettled(ports.ledger, paid);
      for (const end of [completed, () => DECLINED]) {
        const refund = await givenRefund(ports.refunds, refundOf(paid, { units: 100 }));
        await expectLockBeforeClock(refund.key, () => ports.ledger.settle(refund, end(refund), LONG_MS));
      }
    }
  });
});

describe('the bound', () => {
  test('stays below a settlement that is not committed, and passes it with its commit; later ones wait for it', async () => {
    const [first, second] = [await givenClaim(ports.ledger), await givenClaim(other.ledger)];
    const begin = await boundPast(await nowUs());
    const held = await withSession(async (client) => {
      await client.query('BEGIN');
      await client.query(SETTLE, [first.key]);
      await givenSettled(other.ledger, second);
      const bound = (await boundAfterLooks()) as SettlementBound;
      expect(await keysBetween(begin, bound)).toEqual([]);
      await client.query('COMMIT');
      return bound;
    });
    const bound = await boundPast(await nowUs());
    expect(await keysBetween(held, bound)).toEqual([first.key, second.key]);
  });

  test('passes a settlement that is rolled back', async () => {
    const first = await givenClaim(ports.ledger);
    const begin = await boundPast(await nowUs());
    await withSession(async (client) => {
      await client.query('BEGIN');
      await client.query(SETTLE, [first.key]);
      await boundAfterLooks();
      await client.query('ROLLBACK');
    });
    expect(await keysBetween(begin, await boundPast(await nowUs()))).toEqual([]);
  });

  test('stays below a prepared transaction, also if it was prepared after the bound waited for it', async () => {
    const first = await givenClaim(ports.ledger);
    const begin = await boundPast(await nowUs());
    await withSession(async (client) => {
      await client.query('BEGIN');
      await client.query(SETTLE, [first.key]);
      await boundAfterLooks();
      await client.query("PREPARE TRANSACTION 'settlement'");
    });
    const before = await boundAfterLooks();
    await sql("COMMIT PREPARED 'settlement'");
    const bound = await boundPast(await nowUs());
    expect(await keysBetween(begin, before as SettlementBound)).toEqual([]);
    expect(await keysBetween(before as SettlementBound, bound)).toEqual([first.key]);
  });

  test('stays below a prepared transaction also after a restart of the server, which gives it another name', async () => {
    const first = await givenClaim(ports.ledger);
    const begin = await boundPast(await nowUs());
    await withSession(async (client) => {
      await client.query('BEGIN');
      await client.query(SETTLE, [first.key]);
      await client.query("PREPARE TRANSACTION 'settlement'");
    });
    await boundAfterLooks();
    await postgres.stopImmediately();
    await postgres.start();
    for (const { settlements } of [ports, other]) {
      await until('the adapters to be connected again', DEADLINE_MS, async () => {
        const looked = settlements.look().then(() => true);
        return looked.catch(() => false);
      });
    }
    const before = await boundAfterLooks();
    await sql("COMMIT PREPARED 'settlement'");
    const bound = await boundPast(await nowUs());
    expect(await keysBetween(begin, before as SettlementBound)).toEqual([]);
    expect(await keysBetween(begin, bound)).toEqual([first.key]);
  });

  test('stays below a settlement whose commit waits for its standby, so that nothing is passed over when it is back', async () => {
    const [first, second] = [await givenClaim(ports.ledger), await givenClaim(ports.ledger)];
    const begin = await boundPast(await nowUs());
    await withSession(async (waiting) => {
      let committed: Promise<unknown> = Promise.resolve();
      await withoutStandby(async () => {
        committed = waiting.query(SETTLE, [first.key]);
        await untilWaitsForStandby(SETTLE);
        await withSession(async (local) => {
          await local.query('SET synchronous_commit = local');
          await local.query(SETTLE, [second.key]);
        });
        expect(await keysBetween(begin, (await boundAfterLooks()) as SettlementBound)).toEqual([]);
      });
      await committed;
    });
    expect(await keysBetween(begin, await boundPast(await nowUs()))).toEqual([first.key, second.key]);
  });

  test("is not delayed by somebody else's commit that waits for its standby", async () => {
    const write = "SELECT pg_logical_emit_message(true, 'somebody else', '')";
    await withSession(async (waiting) => {
      let committed: Promise<unknown> = Promise.resolve();
      await withoutStandby(async () => {
        committed = waiting.query(write);
        await untilWaitsForStandby(write);
        const us = await nowUs();
        expect((await boundPast(us)).atUs).toBeGreaterThan(us);
        await untilWaitsForStandby(write);
      });
      await committed;
    });
  });

  test("is not delayed by anybody's transaction that changes no payment, nor by one in another database", async () => {
    const [claim, locked] = [await givenClaim(ports.ledger), await givenClaim(ports.ledger)];
    const others: [string, string][] = [
      ['reads payments', 'SELECT count(*) FROM idempay.payments'],
      ['locks the row of a payment', `SELECT FROM idempay.payments WHERE key = '${locked.key}' FOR UPDATE`],
      ['changes another table', 'UPDATE idempay.retention_hours SET confirmed = confirmed WHERE hour = -1'],
      ['has an id of its own', 'SELECT pg_current_xact_id()'],
    ];
    for (const [what, statement] of others) {
      await withSession(async (client) => {
        await client.query(`BEGIN; ${statement}`);
        const us = await nowUs();
        expect((await boundPast(us)).atUs, what).toBeGreaterThan(us);
      });
    }
    await givenSettled(ports.ledger, claim);
  });

  test('is not delayed by a table of the same number in another database', async () => {
    await withSession(async (client) => {
      await client.query("BEGIN; UPDATE idempay.payments SET owner = owner WHERE transaction_id = 'none'");
      const us = await nowUs();
      await boundPast(us);
    }, postgres.url('copied'));
  });
});

describe('another incarnation', () => {
  const incarnation = async () => {
    const [row] = await sql<{ incarnation: string }>(
      'SELECT incarnation FROM idempay.settlement_incarnations ORDER BY number DESC LIMIT 1',
    );
    return row?.incarnation as string;
  };

  test('is asked for when the clock of the database was set back by a second, and not for a drift', async () => {
    let aheadMs = 0;
    const clock = new HandClock();
    const asked = { read: async () => [{ now: clock.monotonic() + aheadMs }] } as unknown as Postgres;
    let reports = 0;
    const databaseClock = new DatabaseClock(asked, clock, async () => {
      reports += 1;
    });
    await databaseClock.synchronize();
    for (const [ms, wanted] of [
      [3_600_000, 0],
      [3_599_980, 0],
      [3_599_000, 1],
    ] as const) {
      clock.advance(1_000);
      aheadMs = ms;
      await databaseClock.synchronize();
      expect(reports).toBe(wanted);
    }
  });

  test('begins with an adopted database, and a later start on a clock that is behind begins one too', async () => {
    const before = await boundPast(await nowUs());
    await sql("UPDATE idempay.deployment SET timeline = 'FFFFFFFF'");
    await until('another incarnation', DEADLINE_MS, async () => (await incarnation()) !== before.incarnation);
    const bound = await boundPast(await nowUs());
    const question = { client: undefined, kind: undefined, limit: MANY, readLimit: MANY };
    const page = inState(await ports.settlements.page({ ...question, bound, after: before }), 'other incarnation');
    expect(page.fromUs).toBeLessThan(before.atUs);
    const adopted = await incarnation();
    await sql('UPDATE idempay.retention_hours SET clock_ms = clock_ms + 3600000');
    const later = await openDistributedPortsOn({ redisUrl: redis.url, databaseUrl });
    await later.close();
    expect(await incarnation()).not.toBe(adopted);
  });
});
