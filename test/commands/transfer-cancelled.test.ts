import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { sendJson, transactionIdOf } from '../../testkit/client/http-client.js';
import { openStoppableStores, openTestStores } from '../../testkit/deployments/distributed-stores.js';
import { expectKnown, openUsedMove, type UsedMove } from '../../testkit/deployments/transfer-environment.js';
import { crashAtTransfer } from '../../testkit/processes/crash-points.js';
import { DUMPS } from '../../testkit/servers/postgres-backups.js';
import { until } from '../../testkit/time/until.js';

const MONEY = { amount: '100.50', currency: 'USD' };
const DEADLINE_MS = 30_000;
const LEAVING = /idempay transfer moves this deployment/;
const REPLACED = expect.objectContaining({ msg: expect.stringContaining('The database was replaced') });

/** Pays until there is an answer: right after rows were lost an order without a row may have to wait. Its key and transaction id. */
async function payNew(url: string, reference: string) {
  const answer = await until(`${reference} to be paid`, DEADLINE_MS, async () => {
    const tried = await sendJson(`${url}/api/payment?reference=${reference}`, 'POST', MONEY);
    return tried.status === 200 && tried;
  });
  return { key: String(answer.headers['idempotency-key']), transactionId: transactionIdOf(answer) };
}

/** Paid at the target, of which the folder knows nothing. */
async function payAtTarget(move: UsedMove) {
  const service = await move.serveTarget();
  const paid = await payNew(service.url, 'order-20');
  await service.stop();
  return paid;
}

test('a transfer that was taken back leaves a folder that serves, and that can be moved later', async () => {
  const move = await openUsedMove();
  expect((await move.run()).code).toBe(0);
  expect(await move.run(['--cancel'])).toMatchObject({ code: 0, stderr: '' });
  await expect(move.serveTarget()).rejects.toThrow('was given up');
  const source = await move.serveSource();
  // The folder was restored, as far as anybody can tell.
  expect(source.logs).toContainEqual(REPLACED);
  await payNew(source.url, 'order-19');
  // A failover lost the commit that gave the target up, or the database was restored.
  await move.stores.sql("UPDATE idempay.transfer SET state = 'COMPLETE'");
  await expect(move.serveTarget()).rejects.toThrow('was given up');
  expect(await move.state()).toBe('COMPLETE');
  await source.stop();
  // The database was given up, and the Redis is free.
  expect((await move.run()).stderr).toContain('has a schema idempay already');
  await move.stores.sql('DROP SCHEMA idempay CASCADE');
  expect(await move.run()).toMatchObject({ code: 0, stderr: '' });
  await expectKnown((await move.serveTarget()).url, move.known, move.processor);
});

test('a way back that Redis knows of is not forgotten by a database that was set back', async () => {
  const move = await openUsedMove();
  expect((await move.run()).code).toBe(0);
  expect(await move.run(['--cancel'], crashAtTransfer('before', 'folder free'))).toMatchObject({ signal: 'SIGKILL' });
  for (const state of ['COMPLETE', 'COPYING']) {
    await move.stores.sql(`UPDATE idempay.transfer SET state = '${state}'`);
    const refused = await move.run();
    expect(refused.code).not.toBe(0);
    expect(refused.stderr).toContain('This transfer was given up');
  }
  expect(await move.run(['--cancel'])).toMatchObject({ code: 0, stderr: '' });
  await expectKnown((await move.serveSource()).url, move.known, move.processor);
});

test('an order that was paid at a target which is gone is looked up, and not charged again', async () => {
  const move = await openUsedMove();
  expect((await move.run()).code).toBe(0);
  const { key } = await payAtTarget(move);
  const refused = await move.run(['--cancel']);
  expect(refused.code).not.toBe(0);
  expect(refused.stderr).toContain('--target-is-gone');
  await expect(move.serveSource()).rejects.toThrow(LEAVING);

  expect((await move.runOnFolder('transfer', '--target-is-gone')).stderr).toContain('needs --cancel');
  expect((await move.runOnFolder('transfer', '--cancel', '--target-is-gone')).code).toBe(0);
  const { url } = await move.serveSource();
  expect((await payNew(url, 'order-20')).key).toBe(key);
  expect(await move.processor.chargesOf(key)).toHaveLength(1);
  await expectKnown(url, move.known, move.processor);
});

test('a target that was restored to before its start looks up what it lacks, and is not given up', async () => {
  const stores = await openStoppableStores();
  const move = await openUsedMove(0, stores);
  expect((await move.run()).code).toBe(0);
  const restore = await DUMPS['a dump, restored with pg_restore --clean'](stores.postgres, 'idempay');
  const { key } = await payAtTarget(move);
  await restore();
  expect(await move.state()).toBe('COMPLETE');

  const refused = await move.run(['--cancel']);
  expect(refused.stderr).toContain('A service has started on the target');
  await expect(move.serveSource()).rejects.toThrow(LEAVING);
  const service = await move.serveTarget();
  expect(service.logs).toContainEqual(REPLACED);
  expect((await payNew(service.url, 'order-20')).key).toBe(key);
  expect(await move.processor.chargesOf(key)).toHaveLength(1);
  await expectKnown(service.url, move.known, move.processor);
});

test('rows alone that are set back to before the start are noticed by the name in Redis', async () => {
  const move = await openUsedMove();
  expect((await move.run()).code).toBe(0);
  const { key } = await payAtTarget(move);
  // No process has a commit in Redis any more that the database lacks.
  await move.stores.redis.client.del((await move.stores.keyNames()).lastCommits);
  await move.stores.sql("DELETE FROM idempay.payments WHERE reference = 'order-20'");
  await move.stores.sql("UPDATE idempay.transfer SET state = 'COMPLETE'");
  const service = await move.serveTarget();
  expect(service.logs).toContainEqual(REPLACED);
  expect((await payNew(service.url, 'order-20')).key).toBe(key);
  expect(await move.processor.chargesOf(key)).toHaveLength(1);
});

test('only the last target of a folder can be completed, and only that may be taken back', async () => {
  const move = await openUsedMove();
  const other = await openTestStores();
  const elsewhere = { DATABASE_URL: other.databaseUrl };
  expect(await move.run([], crashAtTransfer('before', 'target copyRest'))).toMatchObject({ signal: 'SIGKILL' });
  expect(await move.run([], elsewhere)).toMatchObject({ code: 0, stderr: '' });
  // The first target has rows, and the folder's former name.
  const refused = await move.run();
  expect(refused.code).not.toBe(0);
  expect(refused.stderr).toContain('was copied to another target');
  await expect(move.serveTarget()).rejects.toThrow('has not copied everything');
  expect((await move.run(['--cancel'])).stderr).toContain('was copied to another target');
  await expect(move.serveSource()).rejects.toThrow(LEAVING);
  expect((await move.run(['--cancel'], elsewhere)).code).toBe(0);
  await expectKnown((await move.serveSource()).url, move.known, move.processor);
});

test('a copy of a leaving folder is neither freed nor moved without the target that the folder may have gone to', async () => {
  const move = await openUsedMove();
  expect(await move.run([], crashAtTransfer('after', 'target copyRest'))).toMatchObject({ signal: 'SIGKILL' });
  const copy = await move.copied(await openTestStores());
  // Databases are copied; who holds a folder is not.
  await rm(join(copy.folder, 'lock.sqlite'));
  expect(await move.run()).toMatchObject({ code: 0, stderr: '' });
  for (const more of [['--cancel'], []]) {
    const refused = await copy.run(more);
    expect(refused.code).not.toBe(0);
    expect(refused.stderr).toContain('is a copy of a folder that was leaving');
  }
  await expect(copy.serveSource()).rejects.toThrow(LEAVING);
  await expectKnown((await move.serveTarget()).url, move.known, move.processor);
});

/**
 * Bug: a copy of the whole folder, with its lock, that was made while the folder was leaving took the name of the started target out of its
 * Redis, with a DATABASE_URL of its own. Cause: only a copy without its lock is known as one, and the state of an empty database says nothing
 * of a start. Fix: a start that Redis knows of is enough to refuse.
 */
test.each([
  ['given back', ['--cancel'], 'A service has started on the target'],
  ['moved to another database', [], 'was copied to another target'],
])(
  'a copy of a leaving folder with its lock is not %s with the Redis of the target that has started',
  async (_what, more, words) => {
    const move = await openUsedMove();
    expect(await move.run([], crashAtTransfer('after', 'target copyRest'))).toMatchObject({ signal: 'SIGKILL' });
    const copy = await move.copied(await openTestStores());
    expect(await move.run()).toMatchObject({ code: 0, stderr: '' });
    const { key } = await payAtTarget(move);
    const { redis } = move.stores;
    const { transfer } = await move.stores.keyNames();
    const before = await redis.client.hgetall(transfer);
    const refused = await copy.run(more, { REDIS_URL: move.stores.environment.REDIS_URL ?? '' });
    expect(refused.code).not.toBe(0);
    expect(refused.stderr).toContain(words);
    expect(await redis.client.hgetall(transfer)).toEqual(before);
    await expect(copy.serveSource()).rejects.toThrow(LEAVING);
    const service = await move.serveTarget();
    expect((await payNew(service.url, 'order-20')).key).toBe(key);
    await expectKnown(service.url, move.known, move.processor);
    // The way out for an operator who knows better.
    expect((await copy.runOnFolder('transfer', '--cancel', '--target-is-gone')).code).toBe(0);
  },
);

test('a copy that differs from the folder is never complete', async () => {
  const move = await openUsedMove();
  expect(await move.run([], crashAtTransfer('before', 'target copyRest'))).toMatchObject({ signal: 'SIGKILL' });
  await move.stores.sql(
    "UPDATE idempay.payments SET amount = amount + 1 WHERE reference = 'order-16' AND state = 'COMPLETED'",
  );
  const refused = await move.run();
  expect(refused.code).not.toBe(0);
  expect(refused.stderr).toContain('The copy of payments differs from DATA_DIR');
  await expect(move.serveTarget()).rejects.toThrow('has not copied everything');
  expect((await move.run(['--cancel'])).code).toBe(0);
  await expectKnown((await move.serveSource()).url, move.known, move.processor);
});
