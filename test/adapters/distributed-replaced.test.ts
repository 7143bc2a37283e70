import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import {
  CHECKED,
  IDENTIFY,
  MISSING_COMMITS,
} from '#idempay/stores/postgres/connection/database-identity-statements.js';
import type { Statement } from '#idempay/stores/postgres/connection/postgres.js';
import type { RedisClient } from '#idempay/stores/redis/connection/masters.js';
import { REPLACED } from '#idempay/stores/shared/replaced-database.js';
import { type CreationKey, fingerprintOf } from '#idempay/transactions/creation.js';
import type { NewTransaction } from '#idempay/transactions/transaction.js';
import { createTransactions } from '#idempay/transactions/transactions.js';
import {
  cancellation,
  claimAttempt,
  DECLINED,
  givenClaim,
  LONG_MS,
  newKeyOf,
  newOwner,
} from '../../testkit/protocol/payment-attempts.js';
import { compose, MONEY, orderOf } from '../../testkit/protocol/payment-composition.js';
import { openDistributedPortsOn, openSqlStores, type Ports } from '../../testkit/protocol/ports.js';
import { RecordingProcessor } from '../../testkit/protocol/recording-processor.js';
import { openRedisClient } from '../../testkit/protocol/redis-process.js';
import { until } from '../../testkit/time/until.js';
import { expectLossHandled } from '../contracts/ledger-loss-contract.js';

const NEW: NewTransaction = { fromAccount: 'A', toAccount: 'B', amount: '100.5', status: 'PENDING' };
/** Several of the looks that are made every second. */
const SEEN_DEADLINE_MS = 10_000;
/** How far ids and versions jump after each replacement. */
const GAP = 1_000_000_000;
const HOUR_MS = 3_600_000;
/** A timeline that no server here has: what is there was written by another one, as far as the row tells. */
const ANOTHER_TIMELINE = 'FFFFFFFF';

let stores: Awaited<ReturnType<typeof openSqlStores>>;
let redis: RedisClient;
let ports: Ports;

const sql = (text: string, values: unknown[] = []) => stores.client.query(text, values);

/** How many processes have seen a replacement. */
let seen: number;

const openProcess = () =>
  openDistributedPortsOn(stores, {
    notices: {
      warn(sentence) {
        if (sentence === REPLACED) seen += 1;
      },
    },
  });

async function openAll(): Promise<void> {
  seen = 0;
  stores = await openSqlStores();
  [ports, redis] = await Promise.all([openProcess(), openRedisClient(stores.redisUrl)]);
}

async function closeAll(): Promise<void> {
  await ports.close();
  redis.disconnect();
  await stores.close();
}

async function deployment(column: string): Promise<string> {
  return (await sql(`SELECT ${column} AS value FROM idempay.deployment`)).rows[0].value;
}

/** As a standby's promotion does: the server is on another timeline than the one that was written down. */
const changeTimeline = () => sql(`UPDATE idempay.deployment SET timeline = '${ANOTHER_TIMELINE}'`);
const untilSeen = () =>
  until(
    'the new timeline to be seen',
    SEEN_DEADLINE_MS,
    async () => (await deployment('timeline')) !== ANOTHER_TIMELINE,
  );

/** Changes the timeline so that nobody can write it down before `untilNoticed`. */
async function changeUnnoticed(): Promise<void> {
  await sql(`
    CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
    CREATE TRIGGER keep BEFORE UPDATE ON idempay.deployment FOR EACH ROW WHEN (old.timeline = '${ANOTHER_TIMELINE}') EXECUTE FUNCTION keep()`);
  await changeTimeline();
}

async function untilNoticed(): Promise<void> {
  await sql('DROP TRIGGER keep ON idempay.deployment');
  await untilSeen();
}

/** Generated that much later than now, or earlier. */
async function issuedKey(laterMs = 0): Promise<string> {
  const key = newKeyOf(Date.now() + laterMs);
  await ports.keys.issue(key, LONG_MS);
  return key;
}

/**
 * Bug: after a failover to a standby without the newest rows, a first claim charged what a lost row had charged before,
 * and ids were given a second time.
 * Cause: nothing told a new timeline from the old one.
 * Fix: the timeline that was seen last is written down (rule O5), and what may be lost is looked up before a charge.
 */
describe('after a database was replaced by one without the newest rows', () => {
  let given: Awaited<ReturnType<typeof replacement>>;
  beforeAll(async () => {
    await openAll();
    given = await replacement();
  });
  afterAll(async () => {
    await Promise.all(given.others.map((each) => each.close()));
    await closeAll();
  });

  async function replacement() {
    const others = await Promise.all([1, 2, 3].map(openProcess));
    const process = compose(ports, {}, new RecordingProcessor('test'));
    // The record is as the key store has it after it lost its newest writes too.
    const lost = await issuedKey();
    await process.payments.pay({ key: lost }, MONEY);
    await redis.flushall();
    await ports.keys.issue(lost, LONG_MS);
    const final = await issuedKey();
    const first = await process.payments.pay({ key: final }, MONEY);
    const unsent = await givenClaim(ports.ledger, { key: newKeyOf(Date.now()) });
    await ports.ledger.abandon(unsent, 0, 'unsent');

    const transactions = createTransactions(ports.transactions, ports.transactionCache);
    const all = () => transactions.list({ from: '', to: '' }, () => true);
    const kept = await ports.transactions.create(NEW);
    const version = await ports.transactions.listVersion();
    const { id } = await ports.transactions.create(NEW);
    const { tag } = await all();
    await transactions.changeStatus(kept.id, 'FLAGGED');
    expect(await transactions.get(kept.id)).toMatchObject({ cache: 'hit', transaction: { status: 'FLAGGED' } });
    expect(await ports.keyValueStore.value(`transactionCache::${kept.id}`)).toBeDefined();

    // All at once, as a standby lacks it that was promoted.
    await sql(`
      DELETE FROM idempay.payments WHERE key IN ('${lost}', '${final}');
      DELETE FROM idempay.transactions WHERE id = ${id};
      UPDATE idempay.transaction_list SET last_id = ${kept.id}, version = ${version};
      UPDATE idempay.transactions SET status = 'PENDING', version = 1 WHERE id = ${kept.id};
      UPDATE idempay.deployment SET timeline = '${ANOTHER_TIMELINE}'`);
    await untilSeen();
    await until('every process to see it', SEEN_DEADLINE_MS, async () => seen === 1 + others.length);
    return { others, process, lost, final, first, unsent, transactions, all, kept, tag, version };
  }

  test('a payment whose row is lost, and whose record is generated again, is not charged again', async () => {
    const { process, lost } = given;
    const answer = await process.payments.pay({ key: lost }, MONEY);
    expect(answer).toMatchObject({ state: 'processed', final: { outcome: { state: 'COMPLETED' } } });
    expect(process.processor.lookUps).toEqual([lost]);
    expect(process.processor.chargesOf(lost)).toHaveLength(1);
  });

  test('a claim that names its outcome is not settled where the row may be lost', async () => {
    const settleAs = { outcome: DECLINED, idempotencyTtlMs: LONG_MS };
    const claimed = await ports.ledger.claim(claimAttempt({ key: await issuedKey(), settleAs }));
    expect(claimed).toMatchObject({ state: 'taken over', claim: { unsent: false } });
  });

  test('a final record is repeated as it is, though its row is lost', async () => {
    const { process, final, first } = given;
    expect(await process.payments.pay({ key: final }, MONEY)).toEqual({ ...first, state: 'replayed' });
    expect(process.processor.chargesOf(final)).toHaveLength(1);
  });

  test.each([
    ['nothing', 0, []],
    ['for an hour', HOUR_MS, ['processed']],
  ])(
    'at a processor that deduplicates %s a reference without a record is sent only so long',
    async (_what, dedupMs, sent) => {
      const { payments, processor } = compose(ports, {}, new RecordingProcessor('test', dedupMs));
      const [young, old] = [await issuedKey(-HOUR_MS / 2), await issuedKey(-2 * HOUR_MS)];
      expect(await payments.pay({ key: young }, MONEY)).toMatchObject({ state: sent[0] ?? 'unknown' });
      // Its lost claim may be as old as its key; a takeover counts from there as well.
      for (const _ of ['claim', 'takeover'])
        expect(await payments.pay({ key: old }, MONEY)).toEqual({ state: 'unknown' });
      expect(processor.charges.map(({ key }) => key)).toEqual(sent.map(() => young));
      expect(await ports.ledger.find(old)).toEqual({ state: 'abandoned' });
    },
  );

  test('a payment that was never sent counts as one that may have been: a lost takeover may have sent it', async () => {
    const { key, processor } = given.unsent;
    const takeover = { key, processor, owner: newOwner(), leaseMs: LONG_MS };
    expect(await ports.ledger.beginEnding({ ...takeover, scope: 'order', onlyUnsent: true })).toBeUndefined();
    expect(await ports.ledger.takeOver(takeover)).toMatchObject({ epoch: 2, unsent: false });
  });

  test('keys that are generated later are paid without a look-up', async () => {
    const key = await issuedKey(HOUR_MS);
    expect(await given.process.payments.pay({ key }, MONEY)).toMatchObject({ state: 'processed' });
    expect(given.process.processor.lookUps).not.toContain(key);
  });

  test('ids, list versions and tags go on after one gap, however many processes see the replacement', async () => {
    const { others, kept, version, all, tag } = given;
    expect((await others[0]?.transactions.create(NEW))?.id).toBe(kept.id + GAP + 1);
    expect(await ports.transactions.listVersion()).toBe(version + GAP + 1);
    expect((await all()).tag).not.toBe(tag);
  });

  test('a cache entry from before is not shown by the health endpoint, and the row is read again', async () => {
    const { id } = given.kept;
    expect(await ports.keyValueStore.value(`transactionCache::${id}`)).toBeUndefined();
    expect((await given.transactions.get(id)).transaction?.status).toBe('PENDING');
  });
});

describe('a database that is replaced', () => {
  beforeEach(openAll);
  afterEach(closeAll);

  /** Bug: keys from before the first failover were no longer looked up when the second one's server had a clock that was behind. */
  test('a second replacement by a server whose clock is behind looks up no fewer keys', async () => {
    const later = newKeyOf(Date.now() + HOUR_MS);
    await sql('UPDATE idempay.deployment SET look_up_before = $1', [later]);
    await changeTimeline();
    await untilSeen();
    expect(await deployment('look_up_before')).toBe(later);
  });

  /**
   * Bug: the log said nothing if a database was restored while the service was stopped. Cause: only a server that differs from the one seen
   * before was logged, and a start has seen none. Fix: a start that writes the replacement down logs it.
   */
  test('is logged by the start that finds it, once, and not by the very first start', async () => {
    await ports.close();
    await sql('UPDATE idempay.deployment SET timeline = NULL');
    ports = await openProcess();
    expect(seen).toBe(0);
    await ports.close();
    await changeTimeline();
    ports = await openProcess();
    expect(seen).toBe(1);
    await ports.close();
    ports = await openProcess();
    expect(seen).toBe(1);
    await changeTimeline();
    await untilSeen();
    await until('the watch to log it', SEEN_DEADLINE_MS, async () => seen === 2);
  });

  test('looks references up, and pays and closes none that may have been paid before', async () => {
    await givenClaim(ports.ledger);
    await changeTimeline();
    await untilSeen();
    await expectLossHandled(ports);
  });

  test('of no key from before it is said that it was never claimed, neither before it is written down nor afterwards', async () => {
    const ended = (key: string) => ports.ledger.endedUnclaimed(key, -HOUR_MS);
    const before = newKeyOf(Date.now());
    expect(await ended(before)).toBe(true);
    await changeUnnoticed();
    expect(await ended(before)).toBe(false);
    await untilNoticed();
    expect(await ended(before)).toBe(false);
    expect(await ended(newKeyOf(Date.now() + HOUR_MS / 2))).toBe(true);
  });

  /**
   * Bug: right after a failover that had lost the paid attempt at an order, its earlier decline was told as `none`. Cause: whether rows may
   * be lost was read from what is written down, before the new server was. Fix: on a server that was not checked any row may be lost.
   */
  test('says of no declined order that it was not charged, neither before the loss is written down nor afterwards', async () => {
    const { payments, processor } = compose(ports);
    const [declined, paid] = [orderOf('order-17'), orderOf('order-17', 2)];
    processor.plan({ outcome: 'declined' }, { outcome: 'succeeded' });
    await payments.pay(declined, MONEY);
    expect(await payments.tellCharge(declined)).toBe('none');
    await payments.pay(paid, MONEY);
    await changeUnnoticed();
    await sql('DELETE FROM idempay.payments WHERE key = $1', [paid.key]);
    expect(await payments.tellCharge(declined)).toBe('unknown');
    await untilNoticed();
    expect(await payments.tellCharge(declined)).toBe('unknown');
  });

  test('nothing is claimed or taken over before somebody has written the new timeline down', async () => {
    const claim = await givenClaim(ports.ledger);
    await ports.ledger.abandon(claim, 0);
    const { key, processor } = claim;
    const takeover = { owner: newOwner(), leaseMs: LONG_MS, processor };
    await changeUnnoticed();
    expect(await ports.ledger.claim(claimAttempt())).toEqual({ state: 'too late' });
    expect(await ports.ledger.cancel(cancellation())).toEqual({ state: 'too late' });
    await expect(ports.transactions.create(NEW)).rejects.toMatchObject({ effect: 'unchanged' });
    const creationKey: CreationKey = {
      ...({ client: '', endpoint: 'one', key: 'k' } as const),
      ...{ fingerprint: fingerprintOf([NEW]), idempotencyTtlMs: LONG_MS },
    };
    for (const key of [undefined, creationKey])
      await expect(ports.transactions.createAll([NEW, NEW], key)).rejects.toMatchObject({ effect: 'unchanged' });
    expect(await ports.ledger.takeOver({ key, ...takeover })).toBeUndefined();
    const ending = { scope: 'order', onlyUnsent: false } as const;
    expect(await ports.ledger.beginEnding({ key, ...takeover, ...ending })).toBeUndefined();
    expect(await ports.ledger.takeOverDue({ first: 'longest due', limit: 10, ...takeover })).toEqual([]);
    await untilNoticed();
    expect(await ports.ledger.claim(claimAttempt())).toMatchObject({ state: 'taken over', claim: { epoch: 1 } });
    expect((await ports.transactions.create(NEW)).id).toBeGreaterThan(GAP);
    expect(await ports.transactions.createAll([NEW], creationKey)).toMatchObject({ state: 'created' });
    expect(await ports.ledger.takeOverDue({ first: 'longest due', limit: 10, ...takeover })).toMatchObject([{ key }]);
  });

  /** A pooler may answer two statements of one connection from two servers. */
  test('counts as checked for the start of the server that was checked, and for no other', async () => {
    const asked = async (statement: Statement, values?: unknown[]) => stores.client.query({ ...statement, values });
    const isChecked = async () => (await asked(IDENTIFY)).rows[0].checked;
    // The process that watches the database sees none of it.
    await sql('BEGIN');
    try {
      for (const start of ['NULL', "pg_postmaster_start_time() - interval '1 second'"]) {
        await sql(`UPDATE idempay.deployment SET checked_start = ${start}`);
        expect(await isChecked()).toBe(false);
        const [{ start: present }] = (await asked(MISSING_COMMITS, Array(6).fill([]))).rows;
        expect(await asked(CHECKED, [`${BigInt(present) - 1n}`])).toMatchObject({ rowCount: 0 });
        expect(await isChecked()).toBe(false);
        expect(await asked(CHECKED, [present])).toMatchObject({ rowCount: 1 });
        expect(await isChecked()).toBe(true);
      }
    } finally {
      await sql('ROLLBACK');
    }
  });

  test('a connection that leads to the database of another deployment is refused', async () => {
    await sql("UPDATE idempay.deployment SET id = '0123456789abcdef'");
    await sql(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE datname = current_database() AND pid <> pg_backend_pid()`);
    await until('the lost connections to be noticed', SEEN_DEADLINE_MS, async () => {
      const fault = await ports.ledger.claim(claimAttempt()).catch((error) => error);
      return String(fault.cause).includes('another deployment');
    });
    expect((await sql('SELECT FROM idempay.payments')).rowCount).toBe(0);
  });
});
