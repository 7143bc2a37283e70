import pg from 'pg';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createKeyNames } from '#idempay/deployments/distributed/redis/key-names.js';
import type { NewTransaction } from '#idempay/transactions/transaction.js';
import { createTransactions } from '#idempay/transactions/transactions.js';
import {
  claimAttempt,
  givenClaim,
  LONG_MS,
  newKeyOf,
  newOwner,
  newProcessorName,
} from '../../testkit/protocol/payment-attempts.js';
import { type Composition, compose } from '../../testkit/protocol/payment-composition.js';
import { openDistributedPortsOn, type Ports } from '../../testkit/protocol/ports.js';
import { RecordingProcessor } from '../../testkit/protocol/recording-processor.js';
import { type RedisServer, startRedis } from '../../testkit/servers/redis.js';
import { createSharedDatabase } from '../../testkit/servers/shared-database.js';
import { until } from '../../testkit/time/until.js';

const MONEY = { amount: '100.50', currency: 'USD' };
const NEW: NewTransaction = { fromAccount: 'A', toAccount: 'B', amount: '100.5', status: 'PENDING' };
/** Several of the looks that are made every second. */
const SEEN_DEADLINE_MS = 10_000;
/** Of ids and versions, after each replacement. */
const GAP = 1_000_000_000;
const HOUR_MS = 3_600_000;
/** A timeline that no server here has: what is there was written by another one, as far as the row tells. */
const ANOTHER_TIMELINE = 'FFFFFFFF';

/**
 * Bug: after a failover to a standby without the newest rows, a first claim charged what a lost row had charged before,
 * and ids were given a second time.
 * Cause: nothing told a new timeline from the old one.
 * Fix: the timeline that was seen last is written down (decisions O5), and what may be lost is looked up before a charge.
 */
describe('a database that was replaced by one without the newest rows', () => {
  let redis: RedisServer;
  let database: Awaited<ReturnType<typeof createSharedDatabase>>;
  let sql: pg.Client;
  let ports: Ports;
  let processor: RecordingProcessor;
  let payments: Composition['payments'];

  beforeEach(async () => {
    [redis, database] = await Promise.all([startRedis(), createSharedDatabase()]);
    ports = await openDistributedPortsOn({ redisUrl: redis.url, databaseUrl: database.url });
    sql = new pg.Client({ connectionString: database.url });
    await sql.connect();
    useProcessor(new RecordingProcessor(newProcessorName()));
  });
  afterEach(async () => {
    await ports.close();
    await sql.end();
    await Promise.all([redis.close(), database.drop()]);
  });

  function useProcessor(used: RecordingProcessor): void {
    processor = used;
    payments = compose(ports, {}, processor).payments;
  }

  async function deployment<T>(column: string): Promise<T> {
    return (await sql.query(`SELECT ${column} AS value FROM idempay.deployment`)).rows[0].value;
  }

  /** As a standby's promotion does: the server is on another timeline than the one that was written down. */
  async function replaceDatabase(): Promise<void> {
    await sql.query(`UPDATE idempay.deployment SET timeline = '${ANOTHER_TIMELINE}'`);
  }

  async function untilSeen(): Promise<void> {
    await until('the new timeline to be seen', SEEN_DEADLINE_MS, async () => {
      return (await deployment('timeline')) !== ANOTHER_TIMELINE;
    });
  }

  /** Charged, and then the row is lost; the record is as the key store has it after it lost its newest writes too. */
  async function givenLostPayment(key: string): Promise<void> {
    await ports.keys.issue(key, LONG_MS);
    expect(await payments.pay(key, MONEY)).toMatchObject({ state: 'processed' });
    await loseRow(key);
    await redis.client.flushall();
    await ports.keys.issue(key, LONG_MS);
  }

  async function loseRow(key: string): Promise<void> {
    await sql.query('DELETE FROM idempay.payments WHERE key = $1', [key]);
  }

  /** Bug: keys from before the first failover were no longer looked up when the second one's server had a clock that was behind. */
  test('a second replacement by a server whose clock is behind looks up no fewer keys', async () => {
    const later = newKeyOf(Date.now() + HOUR_MS);
    await sql.query('UPDATE idempay.deployment SET look_up_before = $1', [later]);
    await replaceDatabase();
    await untilSeen();
    expect(await deployment('look_up_before')).toBe(later);
  });

  test('a cache entry that was read from the server before is not shown by the health endpoint', async () => {
    const { id } = await ports.transactions.create(NEW);
    await createTransactions(ports.transactions, ports.transactionCache).get(id);
    expect(await ports.keyValueStore.value(`transactionCache::${id}`)).toBeDefined();
    await replaceDatabase();
    await untilSeen();
    await until('this process to see it too', SEEN_DEADLINE_MS, async () => {
      return (await ports.keyValueStore.value(`transactionCache::${id}`)) === undefined;
    });
  });

  test('nothing is claimed or taken over before somebody has written the new timeline down', async () => {
    const { key, processor: name, ...fence } = await givenClaim(ports.ledger);
    await ports.ledger.abandon({ key, ...fence }, 0);
    const takeover = { owner: newOwner(), leaseMs: LONG_MS, processor: name };
    await sql.query('CREATE TABLE kept AS SELECT * FROM idempay.deployment');
    await sql.query(`
      CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
      CREATE TRIGGER keep BEFORE UPDATE ON idempay.deployment FOR EACH ROW WHEN (old.timeline = '${ANOTHER_TIMELINE}') EXECUTE FUNCTION keep()`);
    await replaceDatabase();
    expect(await ports.ledger.claim(claimAttempt())).toEqual({ state: 'too late' });
    await expect(ports.transactions.create(NEW)).rejects.toMatchObject({ effect: 'unchanged' });
    expect(await ports.ledger.takeOver({ key, ...takeover })).toBeUndefined();
    expect(await ports.ledger.takeOverAbandoned({ limit: 10, ...takeover })).toEqual([]);
    await sql.query('DROP TRIGGER keep ON idempay.deployment');
    await untilSeen();
    expect(await ports.ledger.claim(claimAttempt())).toMatchObject({ state: 'taken over', claim: { epoch: 1 } });
    expect((await ports.transactions.create(NEW)).id).toBeGreaterThan(GAP);
    expect(await ports.ledger.takeOverAbandoned({ limit: 10, ...takeover })).toMatchObject([{ key }]);
  });

  test('a payment whose row is lost is not charged again', async () => {
    const key = newKeyOf(Date.now());
    await givenLostPayment(key);
    await replaceDatabase();
    await untilSeen();

    expect(await payments.pay(key, MONEY)).toMatchObject({
      state: 'processed',
      final: { outcome: { state: 'COMPLETED' } },
    });
    expect(processor.lookUps).toEqual([key]);
    expect(processor.charges).toHaveLength(1);
  });

  test('a final record is repeated as it is, though its row is lost', async () => {
    const key = newKeyOf(Date.now());
    await ports.keys.issue(key, LONG_MS);
    const first = await payments.pay(key, MONEY);
    await loseRow(key);
    await replaceDatabase();
    await untilSeen();
    expect(await payments.pay(key, MONEY)).toEqual({ ...first, state: 'replayed' });
    expect(processor.charges).toHaveLength(1);
  });

  test('where the processor does not deduplicate and has no record, an operator decides', async () => {
    useProcessor(new RecordingProcessor(newProcessorName(), 0));
    const key = newKeyOf(Date.now());
    await ports.keys.issue(key, LONG_MS);
    await replaceDatabase();
    await untilSeen();
    expect(await payments.pay(key, MONEY)).toEqual({ state: 'unknown' });
    expect(processor.charges).toEqual([]);
    expect(await ports.ledger.find(key)).toEqual({ state: 'abandoned' });
  });

  test('without a record the reference is sent again as long as the processor deduplicates what a lost row may have sent', async () => {
    useProcessor(new RecordingProcessor(newProcessorName(), HOUR_MS));
    const [young, old] = [newKeyOf(Date.now() - HOUR_MS / 2), newKeyOf(Date.now() - 2 * HOUR_MS)];
    for (const key of [young, old]) await ports.keys.issue(key, LONG_MS);
    await replaceDatabase();
    await untilSeen();

    expect(await payments.pay(young, MONEY)).toMatchObject({ state: 'processed' });
    expect(await payments.pay(old, MONEY), 'its lost claim may be as old as its key').toEqual({ state: 'unknown' });
    expect(await payments.pay(old, MONEY), 'a takeover counts from there as well').toEqual({ state: 'unknown' });
    expect(processor.charges.map(({ reference }) => reference)).toEqual([young]);
  });

  test('a payment that was never sent counts as one that may have been: a lost takeover may have sent it', async () => {
    const claim = await givenClaim(ports.ledger, { key: newKeyOf(Date.now()) });
    await ports.ledger.abandon(claim, 0, 'unsent');
    await replaceDatabase();
    await untilSeen();
    const takeover = { key: claim.key, owner: newOwner(), leaseMs: LONG_MS, processor: claim.processor };
    expect(await ports.ledger.takeOver(takeover)).toMatchObject({ epoch: 2, unsent: false });
  });

  test('keys that are generated later are paid as ever', async () => {
    await replaceDatabase();
    await untilSeen();
    const key = newKeyOf(Date.now() + HOUR_MS);
    await ports.keys.issue(key, LONG_MS);
    expect(await payments.pay(key, MONEY)).toMatchObject({ state: 'processed' });
    expect(processor.lookUps).toEqual([]);
  });

  test('transaction ids and list versions go on after a gap, once, however many processes see it', async () => {
    const before = await ports.transactions.create(NEW);
    const version = await ports.transactions.listVersion();
    const others = await Promise.all(
      [1, 2, 3].map(() => openDistributedPortsOn({ redisUrl: redis.url, databaseUrl: database.url })),
    );
    try {
      await replaceDatabase();
      await untilSeen();
      await new Promise((resolve) => setTimeout(resolve, 2_500));
      const after = await (others[0] as Ports).transactions.create(NEW);
      expect(after.id).toBe(before.id + GAP + 1);
      expect(await ports.transactions.listVersion()).toBe(version + GAP + 1);
    } finally {
      await Promise.all(others.map((each) => each.close()));
    }
  });

  test('a tag that was computed for a lost list is not taken for one of the new list', async () => {
    const transactions = createTransactions(ports.transactions, ports.transactionCache);
    const everything = { from: '', to: '' };
    const kept = await ports.transactions.create(NEW);
    const lost = await ports.transactions.create(NEW);
    const { tag } = await transactions.list(everything, () => true);
    await sql.query('DELETE FROM idempay.transactions WHERE id = $1', [lost.id]);
    await sql.query('UPDATE idempay.transaction_list SET last_id = $1, version = version - 1', [kept.id]);
    await replaceDatabase();
    await untilSeen();
    const created = await ports.transactions.create(NEW);
    expect(created.id).not.toBe(lost.id);
    expect((await transactions.list(everything, () => true)).tag).not.toBe(tag);
  });

  test('cached transactions are read again', async () => {
    const { id } = await ports.transactions.create(NEW);
    const transactions = createTransactions(ports.transactions, ports.transactionCache);
    await transactions.changeStatus(id, 'FLAGGED');
    expect(await transactions.get(id)).toMatchObject({ cache: 'hit', transaction: { status: 'FLAGGED' } });
    await sql.query("UPDATE idempay.transactions SET status = 'PENDING', version = 1 WHERE id = $1", [id]);
    await replaceDatabase();
    await untilSeen();
    await until('the new row to be read', SEEN_DEADLINE_MS, async () => {
      return (await transactions.get(id)).transaction?.status === 'PENDING';
    });
  });

  test('a connection that leads to the database of another deployment is refused', async () => {
    await sql.query("UPDATE idempay.deployment SET id = '0123456789abcdef'");
    await sql.query(`
      SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE datname = current_database() AND pid <> pg_backend_pid()`);
    await until('the lost connections to be noticed', SEEN_DEADLINE_MS, () =>
      ports.ledger.claim(claimAttempt()).then(
        () => false,
        (fault) => String(fault.cause).includes('another deployment'),
      ),
    );
    expect((await sql.query('SELECT FROM idempay.payments')).rowCount).toBe(0);
  });

  test('a log that is shorter than it was before is a restored snapshot, on the same timeline', async () => {
    const { id } = await ports.transactions.create(NEW);
    const incarnation = await deployment<string>('incarnation');
    const names = createKeyNames(await deployment<string>('id'));
    const remembered = () => redis.client.keys(`${names.logPosition('')}*`);
    expect(await remembered()).toHaveLength(1);
    await redis.client.hset(String((await remembered())[0]), 'bytes', String(2 ** 50));
    await until('another incarnation', SEEN_DEADLINE_MS, async () => (await deployment('incarnation')) !== incarnation);
    expect((await ports.transactions.create(NEW)).id).toBe(id + GAP + 1);
    expect(await ports.ledger.claim(claimAttempt())).toMatchObject({ state: 'taken over' });
    await until('its log to be remembered', SEEN_DEADLINE_MS, async () => (await remembered()).length === 2);
  });
});
