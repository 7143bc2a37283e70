import { expect, onTestFinished, test } from 'vitest';
import type { StoreUnavailable } from '#idempay/platform/faults.js';
import type { NewTransaction } from '#idempay/transactions/transaction.js';
import { claimAttempt } from '../../testkit/protocol/payment-attempts.js';
import { paymentSteps } from '../../testkit/protocol/payment-steps.js';
import { openDistributedPortsOn, openSqlStores } from '../../testkit/protocol/ports.js';
import { startPooler } from '../../testkit/servers/pooler.js';
import { pause, until } from '../../testkit/time/until.js';

const WAITING_DEADLINE_MS = 10_000;
const SETTLED = 20;
const FAR_MS = Date.parse('2100-01-01T00:00:00Z');

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

/**
 * Bug: creates of two processes at once got 503, and so did status changes. Cause: the user of the database had a higher isolation level than
 * the statements are written for. Fix: each session sets it.
 */
test('a user with another isolation level creates and changes rows while other processes change them', async () => {
  const stores = await openSqlStores();
  const user = `ALTER ROLE CURRENT_USER IN DATABASE "${new URL(stores.databaseUrl).pathname.slice(1)}"`;
  await stores.client.query(`${user} SET default_transaction_isolation = 'repeatable read'`);
  const ports = await openDistributedPortsOn(stores);
  onTestFinished(async () => {
    await ports.close();
    await stores.client.query(`${user} RESET ALL`);
    await stores.close();
  });
  const { transactions } = ports;
  const row: NewTransaction = { fromAccount: 'a', toAccount: 'b', amount: '1', status: 'PENDING' };
  const { id } = await transactions.create(row);

  /** Another process changes a row, and commits while `work` waits for that row. */
  async function whileChanged<T>(change: string, work: () => Promise<T>): Promise<T> {
    await stores.client.query(`BEGIN; ${change}`);
    const working = work();
    working.catch(() => {});
    const waiting = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    await until('the statement to wait', WAITING_DEADLINE_MS, async () => {
      return (await stores.client.query(waiting)).rowCount === 1;
    }).finally(() => stores.client.query('COMMIT'));
    return working;
  }

  const created = await whileChanged(
    'UPDATE idempay.transaction_list SET last_id = last_id + 1, version = version + 1',
    () => transactions.create(row),
  );
  expect(created.id).toBe(id + 2);
  const changed = await whileChanged(
    `UPDATE idempay.transactions SET status = 'ON_HOLD', version = version + 1 WHERE id = ${id}`,
    () => transactions.changeStatus(id, 'FLAGGED'),
  );
  expect(changed).toMatchObject({ state: 'done', transaction: { status: 'FLAGGED', version: 3 } });
});

/**
 * Bug: an export had payments twice, and the feed stood still, on a server with `extra_float_digits = 0`, the default before PostgreSQL 12. Cause:
 * it sends 15 digits of a time in microseconds, which has 16. Fix: each session sets it.
 */
test('a user whose numbers have 15 digits reads each settlement once, in pages', async () => {
  const stores = await openSqlStores();
  const user = `ALTER ROLE CURRENT_USER IN DATABASE "${new URL(stores.databaseUrl).pathname.slice(1)}"`;
  await stores.client.query(`${user} SET extra_float_digits = 0`);
  const ports = await openDistributedPortsOn(stores);
  onTestFinished(async () => {
    await ports.close();
    await stores.client.query(`${user} RESET ALL`);
    await stores.close();
  });
  const given = paymentSteps({ ...ports, pass: pause });
  const keys: string[] = [];
  for (let payment = 0; payment < SETTLED; payment += 1) {
    const claim = await given.claim();
    await given.settled(claim);
    keys.push(claim.key);
  }
  const told: string[] = [];
  let after: string | undefined;
  do {
    const page = await ports.paymentHistory.settled({ from: 0, to: FAR_MS, after, limit: 3 });
    told.push(...page.payments.map(({ key }) => key));
    after = page.next;
  } while (after !== undefined && told.length < 2 * SETTLED);
  expect(told).toEqual(keys);
});
