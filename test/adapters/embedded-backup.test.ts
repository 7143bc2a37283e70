import { chmod, mkdir, mkdtemp, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { backUp } from '#idempay/stores/embedded/file/backup.js';
import type { NewTransaction } from '#idempay/transactions/transaction.js';
import { inParallel } from '../../testkit/concurrency.js';
import { openWithWarnings } from '../../testkit/protocol/embedded-with-warnings.js';
import {
  claimAttempt,
  DECLINED,
  givenClaim,
  givenSettled,
  inState,
  LONG_MS,
  newKey,
  newKeyOf,
  newOwner,
  newProcessorName,
} from '../../testkit/protocol/payment-attempts.js';
import { compose, MONEY, orderOf } from '../../testkit/protocol/payment-composition.js';
import { RecordingProcessor } from '../../testkit/protocol/recording-processor.js';
import { pause } from '../../testkit/time/until.js';
import { expectLossHandled } from '../contracts/ledger-loss-contract.js';

const NEW: NewTransaction = { fromAccount: 'A', toAccount: 'B', amount: '100.5', status: 'PENDING' };
/** How far ids and versions jump when a backup is started for the first time. */
const GAP = 1_000_000_000;
/** Enough that the copy takes many commits of the load alongside it. */
const ROWS = 20_000;
const LEASE_MS = 1_000;

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'idempay-backup-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

let folders = 0;
function newDataDir(): string {
  folders += 1;
  return join(folder, `data-${folders}`);
}

/** As docs/operations/deployment.md says: into an empty folder, under the name of the database. */
async function restored(file: string) {
  const dataDir = newDataDir();
  await mkdir(dataDir);
  await rename(file, join(dataDir, 'idempay.sqlite'));
  return { ...(await openWithWarnings(dataDir)), dataDir };
}

const backUpOf = async (dataDir: string) => {
  const file = join(folder, `backup-${newKey()}`);
  await backUp(dataDir, file, () => {});
  return file;
};

/** The sources of payments that are not final. */
function sourcesIn(dataDir: string): string[] {
  const database = new DatabaseSync(join(dataDir, 'idempay.sqlite'), { readOnly: true });
  const rows = database.prepare('SELECT rtrim(source) AS source FROM payment_sources').all();
  database.close();
  return (rows as { source: string }[]).map(({ source }) => source).filter((source) => source !== '');
}

describe('a backup of a service that runs', () => {
  test('has everything that was acknowledged before it began, also under a load that never pauses', async () => {
    const dataDir = newDataDir();
    const { keys, ledger, transactions } = await openWithWarnings(dataDir);
    // Not all at once: each waits in the queue for three seconds at most.
    await inParallel(ROWS, 1_000, () => keys.issue(newKey(), LONG_MS));
    const claims = await Promise.all(Array.from({ length: 100 }, () => givenClaim(ledger)));
    const finals = await Promise.all(claims.map((claim) => givenSettled(ledger, claim)));
    const { id } = await transactions.create(NEW);
    let loaded = true;
    let written = 0;
    const load = (async () => {
      for (; loaded; written += 1) await keys.issue(newKey(), LONG_MS);
    })();
    const before = written;
    const file = await backUpOf(dataDir);
    expect(written).toBeGreaterThan(before);
    loaded = false;
    await load;

    const copy = await restored(file);
    for (const [index, { key }] of claims.entries()) {
      expect(await copy.ledger.find(key)).toEqual({ state: 'final', final: finals[index] });
      expect(await copy.keys.look(key)).toEqual({ state: 'final', final: finals[index] });
    }
    expect(await copy.transactions.get(id)).toMatchObject({ amount: '100.5' });
    expect((await copy.keyValueStore.statistics()).totalKeys).toBeGreaterThanOrEqual(ROWS);
  });

  test('has the source of a payment that was settled after it, until the next look-up settles that again', async () => {
    const dataDir = newDataDir();
    const original = await openWithWarnings(dataDir);
    const { payments, processor } = compose(original);
    const key = await payments.issueKey();
    const request = { ...MONEY, content: { source: 'tok_restored', description: 'Shoes' } };
    processor.plan({ outcome: 'succeeded', answerLost: true });
    inState(await payments.pay({ key }, request), 'unknown');
    const file = await backUpOf(dataDir);
    const repeat = { ...MONEY, content: { source: 'tok_repeat' } };
    inState(await payments.pay({ key }, repeat), 'processed');
    expect(sourcesIn(dataDir)).toEqual([]);
    await original.close();

    const copy = await restored(file);
    expect(sourcesIn(copy.dataDir)).toEqual(['tok_restored']);
    inState(await compose(copy, {}, processor).payments.pay({ key }, repeat), 'processed');
    expect(sourcesIn(copy.dataDir)).toEqual([]);
    expect(processor.charges).toMatchObject([{ content: request.content }]);
  });

  test('charges nothing again that was paid after it', async () => {
    const dataDir = newDataDir();
    const original = await openWithWarnings(dataDir);
    const process = compose(original);
    const [paidLater, lostLater, unpaid] = [
      await process.payments.issueKey(),
      await process.payments.issueKey(),
      newKey(),
    ];
    const unsent = await givenClaim(original.ledger, { processor: process.processor.traits.name });
    await original.ledger.abandon(unsent, 0, 'unsent');
    const file = await backUpOf(dataDir);
    await process.payments.pay({ key: paidLater }, MONEY);
    process.processor.plan({ outcome: 'succeeded', answerLost: true });
    await process.payments.pay({ key: lostLater }, MONEY);
    await original.close();

    const copy = await restored(file);
    expect(copy.warnings).toEqual([
      expect.stringMatching(/^The database was replaced by a standby or a restored copy/),
    ]);
    const { payments, processor } = compose(copy, {}, process.processor);
    for (const key of [paidLater, lostLater]) {
      expect(await payments.pay({ key }, MONEY)).toMatchObject({ final: { outcome: { state: 'COMPLETED' } } });
      expect(processor.chargesOf(key)).toHaveLength(1);
      expect(await payments.pay({ key }, MONEY)).toMatchObject({ state: 'replayed' });
    }
    const takeover = { key: unsent.key, processor: processor.traits.name, owner: newOwner(), leaseMs: LONG_MS };
    expect(await copy.ledger.beginEnding({ ...takeover, scope: 'order', onlyUnsent: true })).toBeUndefined();
    expect(await copy.ledger.takeOver(takeover)).toMatchObject({ unsent: false });
    // Its row may be lost, so nobody is told that it never had one.
    expect(await copy.ledger.endedUnclaimed(unpaid, -LONG_MS)).toBe(false);
    const settleAs = { outcome: DECLINED, idempotencyTtlMs: LONG_MS };
    expect(
      await copy.ledger.claim(claimAttempt({ key: unpaid, settleAs, processor: processor.traits.name })),
    ).toMatchObject({ state: 'taken over' });
    // A key that is generated from now on is charged without a question. The clock may be ten seconds off, so later than that.
    const later = `f${unpaid.slice(1)}`;
    expect(await copy.ledger.endedUnclaimed(newKeyOf(Date.now() + LONG_MS / 2), -LONG_MS)).toBe(true);
    expect(await copy.ledger.claim(claimAttempt({ key: later }))).toMatchObject({ state: 'claimed' });
  });

  test('looks references up, and pays and closes none that may have been paid after it', async () => {
    const dataDir = newDataDir();
    const original = await openWithWarnings(dataDir);
    await givenClaim(original.ledger);
    const copy = await restored(await backUpOf(dataDir));
    // So its keys of references are the same.
    expect(copy.id).toBe(original.id);
    await expectLossHandled(copy);
  });

  test('pays by a reference once, and closes none that was paid after it', async () => {
    const dataDir = newDataDir();
    const original = await openWithWarnings(dataDir);
    const before = compose(original);
    const named = (client?: string) => orderOf(undefined, 1, client);
    const [paid, lost, declined] = [named('key:shop'), named('key:shop'), named()] as const;
    const file = await backUpOf(dataDir);
    await before.payments.pay(paid, MONEY);
    before.processor.plan({ outcome: 'succeeded', answerLost: true }, { outcome: 'declined' });
    await before.payments.pay(lost, MONEY);
    await before.payments.pay(declined, MONEY);
    await original.close();

    const copy = await restored(file);
    const { processor } = before;
    const patient = compose(copy, {}, processor);
    expect(await patient.payments.cancel(paid)).toMatchObject({ state: 'too soon' });
    expect(processor.lookUps).toEqual([]);
    // A charge of before may still be under way for this long.
    const { payments } = compose(copy, { leaseMs: LEASE_MS }, processor);
    await pause(LEASE_MS);
    for (const each of [paid, lost, declined]) {
      expect(await payments.cancel(each)).toEqual({ state: 'charged before' });
      expect(await copy.ledger.find(each.key)).toEqual({ state: 'absent' });
    }
    for (const each of [paid, lost, declined]) {
      const state = each === declined ? 'DECLINED' : 'COMPLETED';
      expect(await payments.pay(each, MONEY)).toMatchObject({ final: { outcome: { state } } });
      expect(processor.chargesOf(each.key)).toHaveLength(1);
    }
    expect(await payments.cancel(paid)).toMatchObject({ state: 'completed' });

    const [given, unclear, paidNow] = [named(), named(), named()];
    processor.planLookUp({ state: 'unknown', cause: 'away' });
    expect(await payments.cancel(unclear)).toEqual({ state: 'unknown' });
    expect(await copy.ledger.find(unclear.key)).toEqual({ state: 'absent' });
    expect(await payments.cancel(given)).toEqual({ state: 'cancelled' });
    expect(await payments.pay(given, MONEY)).toEqual({ state: 'cancelled' });
    expect(await payments.pay(paidNow, MONEY)).toMatchObject({ final: { outcome: { state: 'COMPLETED' } } });
    // Each of them together with the next attempt.
    const next = [given, paidNow].map(({ reference }) => orderOf(reference.text, 2, reference.client).key);
    expect(processor.lookUps.slice(-4)).toEqual([given.key, next[0], paidNow.key, next[1]]);
    expect([given, paidNow].map(({ key }) => processor.chargesOf(key).length)).toEqual([0, 1]);
  });

  test('a reference is sent once to a processor that does not deduplicate, and not before charges of before have arrived', async () => {
    const dataDir = newDataDir();
    await openWithWarnings(dataDir);
    const copy = await restored(await backUpOf(dataDir));
    const processor = new RecordingProcessor(newProcessorName(), 0);
    const patient = compose(copy, {}, processor).payments;
    const named = orderOf();
    const tooSoon = await patient.pay(named, MONEY);
    expect(tooSoon).toEqual({ state: 'too soon', retryAfterSeconds: expect.any(Number) });
    expect([processor.lookUps, await copy.ledger.find(named.key)]).toEqual([[], { state: 'absent' }]);
    await pause(LEASE_MS);
    const { payments } = compose(copy, { leaseMs: LEASE_MS }, processor);
    expect(await payments.pay(named, MONEY)).toMatchObject({ final: { outcome: { state: 'COMPLETED' } } });
    expect([processor.lookUps, processor.chargesOf(named.key).length]).toEqual([
      [named.key, orderOf(named.reference.text, 2).key],
      1,
    ]);
  });

  test('gives no transaction id again, and a list no version; a second start changes nothing more', async () => {
    const dataDir = newDataDir();
    const original = await openWithWarnings(dataDir);
    const first = await original.transactions.create(NEW);
    const file = await backUpOf(dataDir);
    const lost = await original.transactions.create(NEW);
    const { dataDir: copyDir, close, transactions } = await restored(file);
    const next = await transactions.create(NEW);
    expect(next.id).toBe(first.id + GAP + 1);
    expect(next.id).toBeGreaterThan(lost.id);
    expect(await transactions.listVersion()).toBeGreaterThan(await original.transactions.listVersion());
    await close();
    const again = await openWithWarnings(copyDir);
    expect(again.warnings).toEqual([]);
    expect((await again.transactions.create(NEW)).id).toBe(next.id + 1);
    const age = inState(await again.ledger.claim(claimAttempt()), 'taken over').claim;
    expect(age).toMatchObject({ epoch: 1, unsent: false });
    // The original goes on, and nothing in it changed.
    expect((await original.transactions.create(NEW)).id).toBe(lost.id + 1);
  });
});

test('a folder that a start makes, its files and a backup are closed to other users', async () => {
  const before = process.umask(0o022);
  onTestFinished(() => void process.umask(before));
  const dataDir = newDataDir();
  const { keys } = await openWithWarnings(dataDir);
  await keys.issue(newKey(), LONG_MS);
  const file = await backUpOf(dataDir);
  const modeOf = async (path: string) => ((await stat(path)).mode & 0o777).toString(8);
  expect(await modeOf(dataDir)).toBe('700');
  expect(await modeOf(file)).toBe('600');
  const names = await readdir(dataDir);
  expect(names).toEqual(expect.arrayContaining(['idempay.sqlite', 'idempay.sqlite-wal', 'lock.sqlite']));
  for (const name of names) expect(await modeOf(join(dataDir, name)), name).toBe('600');
});

test('the modes of a folder and of a database that are there stay what they are', async () => {
  const dataDir = newDataDir();
  await (await openWithWarnings(dataDir)).close();
  const database = join(dataDir, 'idempay.sqlite');
  await chmod(dataDir, 0o750);
  await chmod(database, 0o640);
  await (await openWithWarnings(dataDir)).close();
  expect([(await stat(dataDir)).mode & 0o777, (await stat(database)).mode & 0o777]).toEqual([0o750, 0o640]);
});

test('a backup that cannot be made says why, and leaves nothing behind', async () => {
  const dataDir = newDataDir();
  await expect(backUpOf(dataDir)).rejects.toThrow(`There is no database in ${dataDir}`);
  await (await openWithWarnings(dataDir)).close();
  const existing = await backUpOf(dataDir);
  await expect(backUp(dataDir, existing, () => {})).rejects.toThrow(`${existing} exists. Name a file that does not.`);
  await writeFile(`${existing}-2.partial`, '');
  await expect(backUp(dataDir, `${existing}-2`, () => {})).rejects.toThrow('another backup is being written');
  await rm(`${existing}-2.partial`);
  await expect(backUp(dataDir, join(folder, 'absent', 'x'), () => {})).rejects.toThrow('The backup failed: ');
  const names = await readdir(folder);
  expect(names.filter((name) => name.includes('.partial'))).toEqual([]);
});
