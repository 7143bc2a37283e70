import pg from 'pg';
import { expect, test } from 'vitest';
import { openStores } from '../../testkit/deployments/topologies/open-stores.js';
import { inState, LONG_MS } from '../../testkit/protocol/payment-attempts.js';
import { compose, MONEY, orderOf } from '../../testkit/protocol/payment-composition.js';
import { openDistributedPortsOn } from '../../testkit/protocol/ports.js';
import { RecordingProcessor } from '../../testkit/protocol/recording-processor.js';
import { openRedisClient } from '../../testkit/protocol/redis-process.js';
import { runSql } from '../../testkit/servers/postgres.js';
import { expectLossHandled } from '../contracts/ledger-loss-contract.js';

/** As a dump that is restored under another name does: the rows of one moment, in another database. */
async function copyDatabase(databaseUrl: string): Promise<string> {
  const copy = new URL(databaseUrl);
  const name = copy.pathname.slice(1);
  copy.pathname = `${name}_restored`;
  const maintenance = new URL(databaseUrl);
  maintenance.pathname = 'postgres';
  const client = new pg.Client({ connectionString: maintenance.href });
  await client.connect();
  await client.query(`CREATE DATABASE ${name}_restored TEMPLATE ${name}`);
  await client.end();
  return copy.href;
}

async function sourcesIn(databaseUrl: string): Promise<string[]> {
  const rows = await runSql<{ source: string }>(
    databaseUrl,
    'SELECT source FROM idempay.payments WHERE source IS NOT NULL',
  );
  return rows.map(({ source }) => source);
}

test('a restored PostgreSQL charges nothing again, with a Redis that is newer and with one that is older', async () => {
  const stores = await openStores();
  const before = await openDistributedPortsOn(stores);
  const first = compose(before, {}, new RecordingProcessor('test'));
  const [paidBefore, paidLater, paidLaterToo, withSource] = [
    await first.payments.issueKey(),
    await first.payments.issueKey(),
    await first.payments.issueKey(),
    await first.payments.issueKey(),
  ];
  const told = await first.payments.pay({ key: paidBefore }, MONEY);
  first.processor.plan({ outcome: 'succeeded', answerLost: true });
  await first.payments.pay({ key: withSource }, { ...MONEY, content: { source: 'tok_restored' } });
  await before.close();
  const restoredUrl = await copyDatabase(stores.databaseUrl);
  const after = await openDistributedPortsOn(stores);
  const second = compose(after, {}, first.processor);
  const toldLater = await second.payments.pay({ key: paidLater }, MONEY);
  await second.payments.pay({ key: paidLaterToo }, MONEY);
  const order = orderOf('order-17');
  await second.payments.pay(order, MONEY);
  inState(await second.payments.pay({ key: withSource }, MONEY), 'processed');
  await after.close();

  const newer = await openDistributedPortsOn({ ...stores, databaseUrl: restoredUrl });
  const third = compose(newer, {}, first.processor);
  expect(await third.payments.pay({ key: paidBefore }, MONEY)).toEqual({ ...told, state: 'replayed' });
  expect(await third.payments.pay({ key: paidLater }, MONEY)).toEqual({ ...toldLater, state: 'replayed' });
  // It is in the restored row, until the look-up settles that again.
  expect(await sourcesIn(restoredUrl)).toEqual(['tok_restored']);
  inState(await third.payments.pay({ key: withSource }, MONEY), 'replayed');
  await third.recovery.runOnce();
  expect(await sourcesIn(restoredUrl)).toEqual([]);
  await newer.close();

  // Another process: that one remembers for a while what the newer Redis told.
  const restored = await openDistributedPortsOn({ ...stores, databaseUrl: restoredUrl });
  const { payments, processor } = compose(restored, {}, first.processor);
  const redis = await openRedisClient(stores.redisUrl);
  await redis.flushall();
  // As an older snapshot has them.
  for (const key of [paidBefore, paidLater, paidLaterToo]) await restored.keys.issue(key, LONG_MS);
  expect(await payments.pay({ key: paidBefore }, MONEY)).toEqual({ ...told, state: 'replayed' });
  for (const key of [paidLater, paidLaterToo]) {
    expect(await payments.pay({ key }, MONEY)).toMatchObject({ final: { outcome: { state: 'COMPLETED' } } });
    expect(processor.chargesOf(key)).toHaveLength(1);
  }
  expect(await payments.pay(order, MONEY)).toMatchObject({ final: { outcome: { state: 'COMPLETED' } } });
  expect(processor.chargesOf(order.key)).toHaveLength(1);
  const nextAttempt = orderOf(order.reference.text, 2, order.client).key;
  const lookedUp = [paidLater, paidLaterToo, order.key, nextAttempt, withSource, withSource];
  expect(processor.lookUps.toSorted()).toEqual(lookedUp.toSorted());
  expect(restored.id).toBe(before.id);
  await expectLossHandled(restored);
  redis.disconnect();
  await restored.close();
  await stores.close();
});
