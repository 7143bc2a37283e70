import { expect, onTestFinished, test } from 'vitest';
import type { StoreUnavailable } from '#idempay/platform/faults.js';
import { claimAttempt } from '../../testkit/protocol/payment-attempts.js';
import { openDistributedPortsOn, openSqlStores } from '../../testkit/protocol/ports.js';
import { startPooler } from '../../testkit/servers/pooler.js';

/**
 * Bug: a pooler dropped `statement_timeout`, so a statement ran on after its write mark in the cache, and after the time at which retention
 * takes it for ended. `test/faults/poolers.test.ts` shows what a client then read. Fix: such statements ask for the limit.
 */
test('in a session that has lost its time limit nothing is claimed, changed or removed, from the first statement on', async () => {
  const stores = await openSqlStores();
  const pooler = await startPooler(Number(new URL(stores.databaseUrl).port));
  const ports = await openDistributedPortsOn({ ...stores, databaseUrl: pooler.through(stores.databaseUrl) });
  onTestFinished(async () => {
    await ports.close();
    await pooler.close();
    await stores.close();
  });
  const { ledger, transactions } = ports;
  const { id } = await transactions.create({ fromAccount: 'a', toAccount: 'b', amount: '1', status: 'PENDING' });
  const attempt = claimAttempt();
  pooler.losesSettings = true;
  // One after the other on the connection that is open: a new one finds it out when it is set up, and is not asked to do it.
  const claimed = await ledger.claim(attempt).catch((fault: StoreUnavailable) => ({ state: fault.effect }));
  expect(['too late', 'unchanged']).toContain(claimed.state);
  await expect(transactions.changeStatus(id, 'FLAGGED')).rejects.toMatchObject({ effect: 'unchanged' });
  await expect(transactions.remove(id)).rejects.toMatchObject({ effect: 'unchanged' });
  expect((await stores.client.query('SELECT FROM idempay.payments')).rowCount).toBe(0);
  const { rows } = await stores.client.query('SELECT status FROM idempay.transactions');
  expect(rows).toEqual([{ status: 'PENDING' }]);
});
