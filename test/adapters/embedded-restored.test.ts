import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { DatabaseSync } from '@photostructure/sqlite';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { SettlementFeed } from '#idempay/payments/settlement-feed.js';
import type { NamedPayment } from '#idempay/payments/values/reference.js';
import { systemClock } from '#idempay/platform/clock.js';
import { markFolderAsRestored } from '#idempay/stores/embedded/file/adoption.js';
import { backUp } from '#idempay/stores/embedded/file/backup.js';
import type { NewTransaction } from '#idempay/transactions/transaction.js';
import { createWebhooks } from '#idempay/webhooks/webhooks.js';
import { openWithWarnings } from '../../testkit/protocol/embedded-with-warnings.js';
import { givenClaim, LONG_MS, newKey, newOwner } from '../../testkit/protocol/payment-attempts.js';
import { compose, MONEY, orderOf } from '../../testkit/protocol/payment-composition.js';
import { RecordingProcessor } from '../../testkit/protocol/recording-processor.js';
import { until, untilPast } from '../../testkit/time/until.js';
import { expectLossHandled } from '../contracts/ledger-loss-contract.js';

/**
 * Bug: a plain copy of the database, put back, was started as if nothing were missing: a payment that was charged after the copy
 * was charged again, and transaction ids were given twice. Cause: only a copy that `idempay backup` made has a mark. Fix:
 * every commit has a number, which `lock.sqlite` keeps as well.
 */

const run = promisify(execFile);
const NEW: NewTransaction = { fromAccount: 'A', toAccount: 'B', amount: '100.5', status: 'PENDING' };
const RESTORED = expect.stringMatching(/^The database was replaced by a standby or a restored copy/);
const GAP = 1_000_000_000;
const TOLD_DEADLINE_MS = 30_000;
const LEASE_MS = 1_000;
const NO_ANSWER = { state: 'unknown', cause: 'no answer' } as const;
const NO_RECORD = { state: 'no record' } as const;
const DATABASE = 'idempay.sqlite';
const LOG = `${DATABASE}-wal`;

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'idempay-restored-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

let folders = 0;
const newFolder = () => join(folder, `data-${++folders}`);

/** By another process: to close a file of SQLite in this one would give up the locks on it. */
const copy = (from: string, to: string) => run('cp', ['-r', from, to]);

/** The state that a kill leaves at this moment: the folder of a service that runs. */
async function killedCopyOf(dataDir: string): Promise<string> {
  const copied = newFolder();
  await copy(dataDir, copied);
  return copied;
}

async function expectHealthy(dataDir: string): Promise<void> {
  const { warnings, close } = await openWithWarnings(dataDir);
  expect(warnings).toEqual([]);
  await close();
}

/** Three payments, one of them with its reply lost and one by reference, that the copy at `file` lacks; and a transaction. */
async function lifeWithCopy(dataDir: string, file: string) {
  const first = await openWithWarnings(dataDir);
  const { payments, processor } = compose(first);
  const [paid, lost] = [await payments.issueKey(), await payments.issueKey()];
  const { id } = await first.transactions.create(NEW);
  // The copy tells by its newest payment that little was lost, so that no order waits for attempts after an operator's decline.
  await payments.pay(orderOf('order-16'), MONEY);
  await first.close();
  await copy(join(dataDir, DATABASE), file);
  const second = await openWithWarnings(dataDir);
  expect(second.warnings).toEqual([]);
  const later = compose(second, {}, processor);
  await later.payments.pay({ key: paid }, MONEY);
  processor.plan({ outcome: 'succeeded', answerLost: true });
  await later.payments.pay({ key: lost }, MONEY);
  const order = orderOf('order-17');
  await later.payments.pay(order, MONEY);
  const lostTransaction = await second.transactions.create(NEW);
  expect(lostTransaction.id).toBe(id + 1);
  await second.close();
  const named: NamedPayment[] = [{ key: paid }, { key: lost }, order];
  return { processor, named, lostId: lostTransaction.id };
}

async function expectAdopted(dataDir: string, { processor, named, lostId }: Awaited<ReturnType<typeof lifeWithCopy>>) {
  const { transactions, warnings, close, ...ports } = await openWithWarnings(dataDir);
  expect(warnings).toEqual([RESTORED]);
  const { payments } = compose({ ...ports }, {}, processor);
  for (const payment of named) {
    expect(await payments.pay(payment, MONEY)).toMatchObject({ final: { outcome: { state: 'COMPLETED' } } });
    expect(processor.chargesOf(payment.key)).toHaveLength(1);
  }
  expect((await transactions.create(NEW)).id).toBe(lostId + GAP);
  await close();
  await expectHealthy(dataDir);
}

/** The endpoint `shop`, served by one process on these ports. Its receiver takes everything. */
function serveWebhook(ports: Awaited<ReturnType<typeof openWithWarnings>>) {
  const told: string[] = [];
  const events: string[] = [];
  const noted = (name: string) => (subject: unknown) => void events.push(`${name} ${subject}`);
  const webhooks = createWebhooks(
    { current: [{ name: 'shop', url: 'https://shop.example/', secrets: [] }], close() {} },
    newOwner,
    {
      ...{ rows: ports.endpointRows, history: ports.paymentHistory, clock: systemClock, random: Math.random },
      feed: new SettlementFeed(ports.settlements, systemClock),
      events: {
        fault: noted('fault'),
        setAside: noted('setAside'),
        standsStill: noted('standsStill'),
        stoppedByReceiver: noted('stoppedByReceiver'),
        passedByRetention: noted('passedByRetention'),
        beganEarlier: noted('beganEarlier'),
        setAsideRemoved: noted('setAsideRemoved'),
      },
    },
    {
      async send(_endpoint, { id }) {
        told.push(id);
        return { state: 'taken' };
      },
      async close() {},
    },
  );
  webhooks.start();
  return { told, events, stop: webhooks.stop };
}

describe('a plain copy of the database', () => {
  test('that is put back into its folder charges nothing again, and gives no id again', async () => {
    const [dataDir, file] = [newFolder(), `${newFolder()}.sqlite`];
    const life = await lifeWithCopy(dataDir, file);
    await copy(file, join(dataDir, DATABASE));
    await expectAdopted(dataDir, life);
  });

  test('that is put into another folder charges nothing again, and gives no id again', async () => {
    const [dataDir, file, other] = [newFolder(), `${newFolder()}.sqlite`, newFolder()];
    const life = await lifeWithCopy(dataDir, file);
    await run('mkdir', [other]);
    await copy(file, join(other, DATABASE));
    await expectAdopted(other, life);
  });

  test('is looked up by reference, also by the second start after it', async () => {
    const [dataDir, other] = [newFolder(), newFolder()];
    const original = await openWithWarnings(dataDir);
    await givenClaim(original.ledger);
    await original.close();
    await run('mkdir', [other]);
    await copy(join(dataDir, DATABASE), other);
    await (await openWithWarnings(other)).close();
    const { warnings, ...deployment } = await openWithWarnings(other);
    expect([warnings, deployment.id]).toEqual([[], original.id]);
    await expectLossHandled(deployment);
  });

  /**
   * Bug: after rows were lost, one look-up without an answer left an order to an operator for ever, if the processor does not deduplicate.
   * Cause: the next takeover could not know that nothing was sent. Fix: the row says so, and that an earlier one may be lost.
   */
  test('leaves an order that could not be looked up to the next repeat or to recovery, and charges it once', async () => {
    const [dataDir, other] = [newFolder(), newFolder()];
    await (await openWithWarnings(dataDir)).close();
    await run('mkdir', [other]);
    await copy(join(dataDir, DATABASE), other);
    const { payments, processor, recovery, unknown } = compose(await openWithWarnings(other), {
      dedupMs: 0,
      leaseMs: LEASE_MS,
    });
    // The time in which a charge of the lost row may still arrive.
    await untilPast(LEASE_MS);
    const pay = (text: string) => payments.pay(orderOf(text), MONEY);

    // The next attempt is looked up each time as well.
    processor.planLookUp(NO_ANSWER, NO_RECORD, NO_ANSWER, NO_RECORD);
    // A charge of the lost row may be there, so it is not answered as not sent.
    for (const _ of [1, 2]) expect(await pay('order-1')).toEqual({ state: 'unknown' });
    expect(await pay('order-1')).toMatchObject({ state: 'processed' });
    processor.planLookUp(NO_ANSWER, NO_RECORD);
    expect(await pay('order-2')).toEqual({ state: 'unknown' });
    expect(await recovery.runOnce()).toBe(1);
    expect(processor.charges.map(({ key }) => key)).toEqual([orderOf('order-1').key, orderOf('order-2').key]);

    processor.planLookUp(NO_ANSWER, NO_RECORD, { state: 'succeeded', charged: MONEY }, NO_RECORD);
    expect(await pay('order-3')).toEqual({ state: 'unknown' });
    expect(await pay('order-3')).toMatchObject({ state: 'processed' });
    // A charge that was sent once is not sent again, as ever.
    processor.planLookUp(NO_ANSWER, NO_RECORD);
    expect(await pay('order-4')).toEqual({ state: 'unknown' });
    processor.plan({ outcome: 'none' });
    for (const _ of [1, 2]) expect(await pay('order-4')).toEqual({ state: 'unknown' });
    expect(processor.chargesOf(orderOf('order-3').key)).toEqual([]);
    expect(processor.chargesOf(orderOf('order-4').key)).toEqual([]);
    expect(unknown).toHaveLength(7);
  });

  test('that was started elsewhere and comes back counts as restored, however many commits it has', async () => {
    const [dataDir, other] = [newFolder(), newFolder()];
    await (await openWithWarnings(dataDir)).close();
    await run('mkdir', [other]);
    await copy(join(dataDir, DATABASE), other);
    const elsewhere = await openWithWarnings(other);
    for (let commits = 0; commits < 20; commits += 1) await elsewhere.keys.issue(newKey(), LONG_MS);
    await elsewhere.close();
    await copy(join(other, DATABASE), join(dataDir, DATABASE));
    expect((await openWithWarnings(dataDir)).warnings).toEqual([RESTORED]);
  });

  test('that lacks the row of a webhook endpoint: it is told of what settled before it has a row again', async () => {
    const [dataDir, file] = [newFolder(), `${newFolder()}.sqlite`];
    await (await openWithWarnings(dataDir)).close();
    await copy(join(dataDir, DATABASE), file);
    const before = await openWithWarnings(dataDir);
    const served = serveWebhook(before);
    await until('the endpoint', TOLD_DEADLINE_MS, async () => (await before.endpointRows.list()).length > 0);
    await served.stop();
    await before.close();
    await copy(file, join(dataDir, DATABASE));
    const restored = await openWithWarnings(dataDir);
    expect(restored.warnings).toEqual([RESTORED]);
    expect(await restored.endpointRows.list()).toEqual([]);
    const { payments } = compose(restored);
    const key = await payments.issueKey();
    await payments.pay({ key }, MONEY);
    const { settledAt } = (await restored.paymentHistory.find(key)) as { settledAt: number };
    await until('the bound to pass it', TOLD_DEADLINE_MS, async () => {
      const bound = await restored.settlements.look();
      return bound !== undefined && bound.atUs > settledAt * 1_000;
    });
    const again = serveWebhook(restored);
    await until('the message', TOLD_DEADLINE_MS, () => again.told.includes(`${key}.completed`));
    expect(again.events).toEqual(['beganEarlier shop']);
    await again.stop();
  });

  test('that lacks nothing is no restore', async () => {
    const [dataDir, file] = [newFolder(), `${newFolder()}.sqlite`];
    const { keys, close } = await openWithWarnings(dataDir);
    await keys.issue(newKey(), LONG_MS);
    await close();
    await copy(join(dataDir, DATABASE), file);
    await copy(file, join(dataDir, DATABASE));
    await expectHealthy(dataDir);
  });
});

describe('a folder that a kill left', () => {
  test('is no restore at any moment, before the first commit and after any', async () => {
    const dataDir = newFolder();
    const { keys } = await openWithWarnings(dataDir);
    await expectHealthy(await killedCopyOf(dataDir));
    for (let commits = 0; commits < 3; commits += 1) {
      await keys.issue(newKey(), LONG_MS);
      await expectHealthy(await killedCopyOf(dataDir));
    }
  });

  test.each([
    ['of the last commits, which a power cut may undo, is no restore', -3, []],
    ['that is ahead of the database is a restore', 1, [RESTORED]],
  ])('and whose lock.sqlite has a number %s', async (_what, more, warnings) => {
    const dataDir = newFolder();
    const { keys } = await openWithWarnings(dataDir);
    for (let commits = 0; commits < 5; commits += 1) await keys.issue(newKey(), LONG_MS);
    const killed = await killedCopyOf(dataDir);
    const lock = new DatabaseSync(join(killed, 'lock.sqlite'));
    lock.exec(`UPDATE last_commit SET number = number + ${more}`);
    lock.close();
    expect((await openWithWarnings(killed)).warnings).toEqual(warnings);
  });

  test('without its lock.sqlite counts as restored', async () => {
    const dataDir = newFolder();
    const { keys } = await openWithWarnings(dataDir);
    await keys.issue(newKey(), LONG_MS);
    const killed = await killedCopyOf(dataDir);
    await rm(join(killed, 'lock.sqlite'));
    expect((await openWithWarnings(killed)).warnings).toEqual([RESTORED]);
  });
});

/**
 * Bug: a copy that was put alongside the log of a killed service was mixed with it. Cause: SQLite replays any log whose own
 * checksums are right. Fix: the numbers of the commits in the log must go on from the one in the file.
 */
describe('a log that a kill left', () => {
  /** Killed with commits in the log, of which some are in the file already, or none. */
  async function killedLife(isMoved: 'nothing moved' | 'some moved' | 'all moved') {
    const dataDir = newFolder();
    const { keys, close } = await openWithWarnings(dataDir);
    const issue = async () => {
      for (let commits = 0; commits < 5; commits += 1) await keys.issue(newKey(), LONG_MS);
    };
    await issue();
    if (isMoved !== 'nothing moved') {
      const other = new DatabaseSync(join(dataDir, DATABASE));
      other.exec('PRAGMA wal_checkpoint(PASSIVE)');
      other.close();
      if (isMoved === 'some moved') await issue();
    }
    const killed = await killedCopyOf(dataDir);
    await close();
    return killed;
  }

  async function stoppedLife(): Promise<string> {
    const dataDir = newFolder();
    const { keys, close } = await openWithWarnings(dataDir);
    await keys.issue(newKey(), LONG_MS);
    await close();
    return dataDir;
  }

  async function expectRefused(dataDir: string): Promise<void> {
    const files = [DATABASE, LOG].map((name) => join(dataDir, name));
    const before = await Promise.all(files.map((file) => readFile(file)));
    await expect(openWithWarnings(dataDir)).rejects.toThrow(`${files[1]} does not belong to ${files[0]}`);
    expect(await Promise.all(files.map((file) => readFile(file)))).toEqual(before);
    await rm(files[1] as string);
    await rm(join(dataDir, `${DATABASE}-shm`), { force: true });
    expect((await openWithWarnings(dataDir)).warnings).toEqual([RESTORED]);
  }

  test.each(['nothing moved', 'some moved', 'all moved'] as const)(
    'is replayed over its own database: %s',
    async (moved) => {
      const killed = await killedLife(moved);
      expect((await readFile(join(killed, LOG))).length).toBeGreaterThan(0);
      const { keyValueStore, warnings } = await openWithWarnings(killed);
      expect(warnings).toEqual([]);
      expect((await keyValueStore.statistics()).totalKeys).toBe(moved === 'some moved' ? 10 : 5);
    },
  );

  test('is not replayed over an older copy of its database', async () => {
    const [dataDir, file] = [await stoppedLife(), `${newFolder()}.sqlite`];
    await copy(join(dataDir, DATABASE), file);
    await (await openWithWarnings(dataDir)).close();
    const { keys } = await openWithWarnings(dataDir);
    await keys.issue(newKey(), LONG_MS);
    const killed = await killedCopyOf(dataDir);
    await copy(file, join(killed, DATABASE));
    await expectRefused(killed);
  });

  test('is not replayed over an older copy where it has only the first commit of a start', async () => {
    const [dataDir, file] = [await stoppedLife(), `${newFolder()}.sqlite`];
    await copy(join(dataDir, DATABASE), file);
    await (await openWithWarnings(dataDir)).close();
    await openWithWarnings(dataDir);
    const killed = await killedCopyOf(dataDir);
    await copy(file, join(killed, DATABASE));
    await expectRefused(killed);
  });

  test('is not replayed over a newer copy of its database', async () => {
    const dataDir = await stoppedLife();
    const { keys, close } = await openWithWarnings(dataDir);
    await keys.issue(newKey(), LONG_MS);
    const killed = await killedCopyOf(dataDir);
    await keys.issue(newKey(), LONG_MS);
    await close();
    await copy(join(dataDir, DATABASE), join(killed, DATABASE));
    const files = [DATABASE, LOG].map((name) => join(killed, name));
    await expect(openWithWarnings(killed)).rejects.toThrow(`${files[1]} does not belong to ${files[0]}`);
  });

  test('is not replayed over a backup that was made while it was written', async () => {
    const [dataDir, file] = [newFolder(), `${newFolder()}.sqlite`];
    const { keys } = await openWithWarnings(dataDir);
    await keys.issue(newKey(), LONG_MS);
    await backUp(dataDir, file, () => {});
    await keys.issue(newKey(), LONG_MS);
    const killed = await killedCopyOf(dataDir);
    await copy(file, join(killed, DATABASE));
    await expectRefused(killed);
  });

  test('is not deleted with a database that is missing', async () => {
    const killed = await killedLife('nothing moved');
    await rm(join(killed, DATABASE));
    await expect(openWithWarnings(killed)).rejects.toThrow('does not belong to');
    expect((await readFile(join(killed, LOG))).length).toBeGreaterThan(0);
  });

  test('is replayed over a restored copy that was adopted and killed', async () => {
    const [dataDir, other] = [await stoppedLife(), newFolder()];
    await run('mkdir', [other]);
    await copy(join(dataDir, DATABASE), other);
    const { keys } = await openWithWarnings(other);
    await keys.issue(newKey(), LONG_MS);
    await expectHealthy(await killedCopyOf(other));
  });
});

describe('a restored snapshot of the whole folder', () => {
  test('counts as restored after idempay restored, once', async () => {
    const dataDir = newFolder();
    const first = await openWithWarnings(dataDir);
    const { payments, processor } = compose(first, {}, new RecordingProcessor('test'));
    await givenClaim(first.ledger);
    const key = await payments.issueKey();
    const snapshot = await killedCopyOf(dataDir);
    await payments.pay({ key }, MONEY);
    await first.close();
    markFolderAsRestored(snapshot);
    markFolderAsRestored(snapshot);
    const { warnings, close, ...ports } = await openWithWarnings(snapshot);
    expect(warnings).toEqual([RESTORED]);
    expect(await compose(ports, {}, processor).payments.pay({ key }, MONEY)).toMatchObject({ state: 'processed' });
    expect(processor.chargesOf(key)).toHaveLength(1);
    await expectLossHandled({ ...ports });
    await close();
    await expectHealthy(snapshot);
  });

  test('is not marked under a service that runs, nor where there is no database', async () => {
    const dataDir = newFolder();
    await openWithWarnings(dataDir);
    expect(() => markFolderAsRestored(dataDir)).toThrow('is in use by another Idempay process');
    const empty = newFolder();
    expect(() => markFolderAsRestored(empty)).toThrow(`There is no database in ${empty}`);
  });
});
