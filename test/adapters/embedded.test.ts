import { execFileSync } from 'node:child_process';
import { statSync } from 'node:fs';
import { copyFile, mkdtemp, readdir, readlink, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { DatabaseSync } from '@photostructure/sqlite';
import { describe, expect, onTestFinished, test } from 'vitest';
import { openForReading, openForWriting } from '#idempay/stores/embedded/file/sqlite.js';
import { createKeyRecords } from '#idempay/stores/embedded/key-records.js';
import { migrate } from '#idempay/stores/embedded/migrate.js';
import { inParallel } from '../../testkit/concurrency.js';
import { openEmbeddedFolder } from '../../testkit/protocol/embedded-folder.js';
import {
  claimAttempt,
  givenClaim,
  givenSettled,
  LONG_MS,
  newKey,
  newKeyOf,
  newOwner,
} from '../../testkit/protocol/payment-attempts.js';
import { HOUR_MS, passHours, removeOld } from '../../testkit/time/retention-time.js';
import { until, untilPast } from '../../testkit/time/until.js';

/** Ten full sweeps: at one a second they would take twice the deadline. */
const EXPIRED = 10_000;
/** More than one sweep looks at. */
const LIVING = 6_000;
const DEADLINE_MS = 5_000;
/** The end of a key is counted in whole milliseconds, the claim in fractions of one. */
const WALL_CLOCK_GRAIN_MS = 1;
/** Long enough that a busy machine begins before it is over. */
const KEY_LIFE_MS = 1_000;
const RETENTION_MS = 24 * HOUR_MS;
const RETENTION_HOURS = 24 + 2;
const MIB = 1024 * 1024;

const folder = openEmbeddedFolder();

/** Writes that wait for three seconds are refused, as on a machine that pauses while all of them wait. */
async function issueMany(count: number, ttlMs: number): Promise<void> {
  await inParallel(count, 1_000, () => folder.deployment.keys.issue(newKey(), ttlMs));
}

const totalKeys = async () => (await folder.deployment.keyValueStore.statistics()).totalKeys;

describe('the number of key records', () => {
  test('is kept in every commit, so that a crash at any moment leaves it right', async () => {
    const { keys, ledger } = folder.deployment;
    const expectStored = (count: number) => {
      const sql =
        'SELECT (SELECT key_records FROM last_commit) AS kept, (SELECT count(*) FROM idempotency_keys) AS counted';
      expect(folder.inFile((database) => database.prepare(sql).get())).toEqual({ kept: count, counted: count });
    };
    const twice = newKey();
    await Promise.all([issueMany(200, LONG_MS), keys.issue(twice, LONG_MS), keys.issue(twice, LONG_MS)]);
    expectStored(201);
    // A payment whose key record is gone brings it back with its outcome.
    await givenSettled(ledger, await givenClaim(ledger));
    expectStored(202);
    await issueMany(30, 1);
    await until('the expired ones to be swept', DEADLINE_MS, async () => (await totalKeys()) === 202);
    expectStored(202);
  });

  /** Bug: a start read the whole table of key records to count them, seconds for each ten million. */
  test('is read by a start, which does not count them', async () => {
    await issueMany(1, LONG_MS);
    await folder.deployment.close();
    folder.inFile((database) => database.exec('UPDATE last_commit SET key_records = 1000'));
    await folder.start();
    expect(await totalKeys()).toBe(1_000);
    await issueMany(1, LONG_MS);
    expect(await totalKeys()).toBe(1_001);
  });
});

/**
 * Bug: after `lock.sqlite` was removed or replaced a second process started on the folder, and both paid. Cause: the kernel's lock is on the
 * file and not on its name. Fix: each transaction asks whether the name still has the file that this process locked.
 */
describe('a process whose lock.sqlite is another file', () => {
  test.each<[what: string, change: (path: string) => Promise<void>]>([
    ['removed', (path) => rm(path)],
    [
      'replaced by a copy',
      async (path) => {
        await copyFile(path, `${path}.copy`);
        await rename(`${path}.copy`, path);
      },
    ],
  ])('commits nothing any more and ends, so that a second one has the folder alone: %s', async (_what, change) => {
    const first = folder.deployment;
    const key = newKey();
    await first.keys.issue(key, LONG_MS);
    await change(folder.file('lock.sqlite'));
    await folder.start();
    const late = newKey();
    await expect(first.keys.issue(late, LONG_MS)).rejects.toThrow();
    const { message } = await first.broken;
    expect(message).toMatch(/lock\.sqlite was removed or replaced while this process held it/);
    await first.close();
    await folder.deployment.keys.issue(newKey(), LONG_MS);
    const values = await Promise.all([key, late].map((each) => folder.deployment.keyValueStore.value(each)));
    expect(values.map((value) => value !== undefined)).toEqual([true, false]);
  });

  test('ends without a request, too', async () => {
    await rm(folder.file('lock.sqlite'));
    await folder.deployment.broken;
  });
});

describe('the sweep of expired keys', () => {
  /**
   * Bug: expired keys were removed at a thousand a second at most once a single living key was older than they. Cause: the
   * sweep went on at once only after a full batch, and the living key at its head kept every batch from being full. Fix: it
   * goes on at once while more than half of a batch is removed.
   */
  test('goes on at once behind an older key that lives, and leaves that', async () => {
    const { keys, keyValueStore } = folder.deployment;
    const living = newKey();
    await keys.issue(living, LONG_MS);
    await issueMany(EXPIRED, 1);
    // The two are counted one after the other: the last sweep may be in the first and not yet in the second.
    const swept = expect.objectContaining({ totalKeys: 1, expiredKeys: EXPIRED });
    await expect.poll(() => keyValueStore.statistics()).toEqual(swept);
    expect(await keyValueStore.value(living)).toMatchObject({ value: 'KEY GENERATED' });
    expect(await keys.look(living)).toEqual({ state: 'generated' });
  });

  /**
   * Bug: after IDEMPOTENCY_TTL_SECONDS was lowered nothing was removed until the longer lives were over. Cause: only the oldest
   * records were looked at. Fix: each sweep looks at the records behind the ones that the sweep before looked at.
   */
  test('finds expired keys behind any number that live long', async () => {
    await issueMany(LIVING, LONG_MS);
    await issueMany(500, 1);
    await until('the expired keys to be gone', DEADLINE_MS, async () => (await totalKeys()) === LIVING);
  });

  /**
   * Bug: the more keys there were, the longer expired ones stayed (half an hour with ten million), and then all were removed at once.
   * Cause: the oldest keys were looked at only once in each way through all of them. Fix: they are looked at whenever the sweep finds none
   * at its present place.
   */
  test('finds the oldest keys as soon as they expire, however many live behind them', () => {
    const database = new DatabaseSync(':memory:');
    onTestFinished(() => database.close());
    migrate(database);
    let now = 0;
    const clock = () => now;
    const { operations } = createKeyRecords(database, { keyRecords: 0 }, clock, clock);
    // Keys of one millisecond have any order.
    const issue = (count: number, idempotencyTtlMs: number, atMs: number) => {
      for (let issued = 0; issued < count; issued += 1) {
        operations.issueKey({ key: newKeyOf(atMs), client: undefined, idempotencyTtlMs });
      }
    };
    issue(5, 100, Date.now() - 1);
    issue(500, LONG_MS, Date.now());
    const limit = 10;
    expect(operations.sweepKeys({ limit })).toBe(0);
    now = 100;
    expect(operations.sweepKeys({ limit })).toBe(5);
  });
});

/**
 * Bug: a key that expired between begin and claim was paid. Cause: the claim's deadline was the end of the lease alone,
 * although this deployment, unlike Redis, does not lengthen the record (rule P9). Fix: whichever ends first.
 */
test('a claim with a key that ends before the lease is refused once the key has expired, and leaves no row', async () => {
  const { keys, ledger } = folder.deployment;
  const owner = newOwner();
  // A slow machine may begin with a key only after its life has ended.
  const { key, issuedAt, claimBy } = await until('a key to be taken in its life', DEADLINE_MS, async () => {
    const issued = newKey();
    await keys.issue(issued, KEY_LIFE_MS);
    const at = performance.now();
    const begun = await keys.begin({ key: issued, owner, leaseMs: LONG_MS, fingerprint: '1.00 USD' });
    return begun.state === 'taken' && { key: issued, issuedAt: at, claimBy: begun.claimBy };
  });
  expect(claimBy).toBeLessThanOrEqual(issuedAt + KEY_LIFE_MS + WALL_CLOCK_GRAIN_MS);
  await untilPast(KEY_LIFE_MS);
  expect(await ledger.claim(claimAttempt({ key, owner, claimBy }))).toEqual({ state: 'too late' });
  expect(await ledger.find(key)).toEqual({ state: 'absent' });
});

test('a payment that was settled by a clock 60 days behind stays for the retention', async () => {
  const { ledger } = folder.deployment;
  await passHours(ledger, RETENTION_HOURS);
  const backMs = 60 * 24 * HOUR_MS;
  const claim = await givenClaim(ledger, { key: newKeyOf(Date.now() - backMs) });
  await givenSettled(ledger, claim, { ttlMs: 1 });
  folder.inFile((database) =>
    database.prepare('UPDATE payments SET settled_at = settled_at - ? WHERE key = ?').run(backMs, claim.key),
  );
  await passHours(ledger, RETENTION_HOURS - 3);
  expect(await removeOld(ledger, RETENTION_MS)).toBe(0);
  await passHours(ledger, 3);
  expect(await removeOld(ledger, RETENTION_MS)).toBe(1);
});

test('a start makes every payment due that was under way, whatever its lease and its back-off', async () => {
  const { ledger } = folder.deployment;
  const [alive, backedOff] = [await givenClaim(ledger), await givenClaim(ledger)];
  await ledger.abandon(backedOff, LONG_MS);
  await folder.deployment.close();
  await folder.start();
  const recovery = { owner: 'recovery', leaseMs: LONG_MS, processor: alive.processor };
  const due = await folder.deployment.ledger.takeOverDue({ ...recovery, first: 'longest due', limit: 10 });
  expect(due.map(({ key }) => key).sort()).toEqual([alive.key, backedOff.key].sort());
});

/**
 * Bug: after 32 lists at once their 32 connections stayed open for the life of the process. Cause: every connection went
 * back to the idle ones. Fix: a few are kept, the others closed.
 */
test.runIf(process.platform === 'linux')('connections of lists that ended are closed, but for a few', async () => {
  const [SNAPSHOTS, KEPT] = [128, 4];
  setFlagsFromString('--expose-gc');
  const collectGarbage = runInNewContext('gc') as () => void;
  // Descriptors of the log: SQLite keeps the database file's descriptors for the next connections.
  const openConnections = async () => {
    const files = (await readdir('/proc/self/fd')).map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => ''));
    return (await Promise.all(files)).filter((file) => file.endsWith('/idempay.sqlite-wal')).length;
  };
  const others = await openConnections();
  const readInSnapshots = async () => {
    const { transactions } = folder.deployment;
    const opening = Array.from({ length: SNAPSHOTS }, () => transactions.openSnapshot({ from: '', to: '' }));
    const snapshots = await Promise.all(opening);
    expect(await openConnections()).toBeGreaterThanOrEqual(SNAPSHOTS);
    for (const snapshot of snapshots) snapshot.close();
  };
  for (let round = 0; round < 3; round += 1) {
    await readInSnapshots();
    // The binding lets go of a closed connection when its statements have been collected.
    await until('the others to be closed', DEADLINE_MS, async () => {
      collectGarbage();
      return (await openConnections()) <= others + KEPT;
    });
  }
});

/**
 * Bug: 3,000 lists of payments from three clients kept every other request waiting for half a minute. Cause: each was read as soon as it
 * was asked for, all in one turn of the event loop. Fix: they take turns, together with lists of transactions.
 */
test('lists of payments, exports and searches are read one page in a turn of the event loop', async () => {
  const { paymentHistory, transactions } = folder.deployment;
  const all = { state: undefined, claimedFrom: undefined, claimedTo: undefined, before: undefined, limit: 500 };
  const search = { from: '', to: '', status: undefined, before: undefined, limit: 500 };
  let turns = 0;
  let next = setImmediate(function count() {
    turns += 1;
    next = setImmediate(count);
  });
  onTestFinished(() => clearImmediate(next));
  const reading = Array.from({ length: 30 }, () => [
    paymentHistory.newest(all, 5_000),
    paymentHistory.settled({ from: 0, to: 1, after: undefined, limit: 500 }),
    transactions.newest(search, 5_000),
  ]);
  await Promise.all(reading.flat());
  // Lists of transactions find nothing, which is no part of a page.
  expect(turns).toBeGreaterThanOrEqual(58);
});

/** Bug: a log that had grown behind a reader of an old snapshot kept its size for ever. Fix: `journal_size_limit`. */
test('a log that grew behind a slow reader is small again once the reader has ended', async () => {
  const ownFolder = await mkdtemp(join(tmpdir(), 'idempay-log-'));
  onTestFinished(() => rm(ownFolder, { recursive: true }));
  const path = join(ownFolder, 'idempay.sqlite');
  const writer = openForWriting(path);
  writer.exec('CREATE TABLE pieces (piece BLOB)');
  const insert = writer.prepare('INSERT INTO pieces VALUES (?)');
  const reader = openForReading(path);
  reader.exec('BEGIN');
  reader.prepare('SELECT count(*) FROM pieces').get();
  for (let piece = 0; piece < 100; piece += 1) insert.run(Buffer.alloc(MIB));
  expect(statSync(`${path}-wal`).size).toBeGreaterThan(100 * MIB);
  reader.exec('ROLLBACK');
  reader.close();
  // The first commit moves the log into the file, the second one begins it anew.
  for (let piece = 0; piece < 2; piece += 1) insert.run(Buffer.alloc(MIB));
  expect(statSync(`${path}-wal`).size).toBeLessThanOrEqual(64 * MIB);
  writer.close();
});

/**
 * Bug: on a file system without shared memory a start ended with "disk I/O error" alone. Cause: SQLite has no other words for it. Fix: its
 * extended codes. A pipe in the place of the shared file cannot be mapped either.
 */
test('a database whose shared memory cannot be had is refused with a sentence that says what to set', async () => {
  const parent = await mkdtemp(join(tmpdir(), 'idempay-'));
  onTestFinished(() => rm(parent, { recursive: true }));
  const path = join(parent, 'idempay.sqlite');
  execFileSync('mkfifo', [`${path}-shm`]);
  expect(() => openForWriting(path)).toThrow(/without shared memory .* DATA_DIR to a folder on a local disk/);
});
