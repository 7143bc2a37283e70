import { randomUUID } from 'node:crypto';
import { afterAll, describe, expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { untilOutcome } from '../../testkit/client/full-service.js';
import { type Answer, ask, generateKey, pay, paymentStatus } from '../../testkit/client/http-client.js';
import { expectReplay } from '../../testkit/client/payment-answers.js';
import {
  changeStatus,
  createdIn,
  deleteTransaction,
  draft,
  expectUnknownTransaction,
  givenTransaction,
  idsOf,
  listTransactions,
  newAccount,
  postBatch,
  type Transaction,
} from '../../testkit/client/transactions.js';
import { alongside } from '../../testkit/concurrency.js';
import { executionOf, openStoppableStores } from '../../testkit/deployments/distributed-stores.js';
import { pause, until } from '../../testkit/time/until.js';

const DEADLINE_MS = 20_000;
const REPEATS = 4;
/** As long as the write mark of the cache stands. */
const MARK_TTL_MS = 14_000;

const stores = await openStoppableStores();
afterAll(() => stores.close());
// Some databases are set so. The cancelled wait for a standby is told by a warning.
await stores.sql("ALTER ROLE CURRENT_USER SET client_min_messages = 'error'");

/**
 * Bug: a read by id showed a transaction as it was before a change or a delete, for as long as the cache keeps an entry. Cause: the write mark
 * ended while the commit waited for its standby, and a read put into the cache what was still committed then. Fix: a row that a transaction
 * is changing is not put there.
 */
it('a read while a change and a delete wait for their standby is in no cache when they have happened', async () => {
  const { url } = await stores.serve();
  const changed = (await givenTransaction(url)).transactionId;
  const deleted = (await givenTransaction(url)).transactionId;
  const read = (id: number) => ask(`${url}/api/transactions/${id}`);
  await setStandby('nobody');
  const writes = await Promise.all([changeStatus(url, changed, 'FLAGGED'), deleteTransaction(url, deleted)]);
  for (const write of writes) expectError(write, 503, /not known whether/);
  const askedAt = performance.now();
  do {
    for (const id of [changed, deleted])
      expect((await read(id)).json<Transaction>()).toMatchObject({ transactionId: id, status: 'PENDING' });
    await pause(100);
  } while (performance.now() - askedAt < MARK_TTL_MS);
  await setStandby('');
  await until('both to have happened', DEADLINE_MS, async () => {
    const rows = await stores.sql('SELECT status FROM idempay.transactions WHERE id = ANY ($1)', [[changed, deleted]]);
    return rows.length === 1 && rows[0]?.status === 'FLAGGED';
  });
  expect((await read(changed)).json<Transaction>()).toMatchObject({ status: 'FLAGGED' });
  expectUnknownTransaction(await read(deleted), deleted);
});

/** Every commit waits for it; for none if the name is empty. */
async function setStandby(name: string): Promise<void> {
  await stores.sql(`ALTER SYSTEM SET synchronous_standby_names = '${name}'`);
  await stores.sql('SELECT pg_reload_conf()');
  await until('the setting', DEADLINE_MS, async () => {
    return (await stores.sql('SHOW synchronous_standby_names'))[0]?.synchronous_standby_names === name;
  });
}

/**
 * Bug: a payment was acknowledged though its wait for a synchronous standby had been cancelled, so a failover could take
 * it back. Cause: such a commit counted as unknown, but the row that was then read back was believed, and repeats
 * believed it too. Fix: what is read and decides an answer is confirmed by a commit of its own that waits for the standby.
 */
describe('a synchronous standby that is down, while the waits for it are cancelled', () => {
  it('lets no claim be acknowledged, nor a repeat, and leaves one payment when it is back', async () => {
    const { url } = await stores.serve({ LOCK_TTL_SECONDS: '2' });
    const key = await generateKey(url);
    await withoutStandby(() => expectNoOutcomes(url, key, () => pay(url, key)));
    await expectOnePayment(url, key);
  });

  it('lets no settlement be acknowledged, nor a repeat, and leaves one payment when it is back', async () => {
    const { url } = await stores.serve({
      ...stores.wires.environment,
      PROCESSOR_DELAY_MS: '20',
      LOCK_TTL_SECONDS: '20',
    });
    const key = await generateKey(url);
    const settlement = stores.wires.postgres.hold(executionOf('settle'), 'request');
    const first = pay(url, key);
    await settlement.reached;
    await withoutStandby(async () => {
      settlement.release();
      await expectNoOutcomes(url, key, () => first);
      // Committed here and seen by everybody, which is what made it look acknowledged.
      expect(await rowsOf(key)).toMatchObject([{ state: 'COMPLETED' }]);
      // The feed shows it to nobody before the standby has it.
      for (let repeat = 0; repeat < REPEATS; repeat += 1) {
        expect((await ask(`${url}/api/settlements`, { headers: { Prefer: 'wait=1' } })).text).not.toContain(key);
      }
    });
    await expectOnePayment(url, key);
    await until('the feed to show it', DEADLINE_MS, async () =>
      (await ask(`${url}/api/settlements`)).text.includes(key),
    );
  });

  it('lets no create with a key be acknowledged, nor a repeat, and leaves one set of rows when it is back', async () => {
    const { url } = await stores.serve();
    const account = newAccount();
    const key = { 'Idempotency-Key': randomUUID() };
    const rows = [draft({ fromAccount: account }), draft({ fromAccount: account })];
    const create = (headers = {}) => postBatch(url, rows, { ...key, ...headers });
    await withoutStandby(async () => {
      for (let repeat = 0; repeat < REPEATS; repeat += 1) {
        // With a condition that is not met the key is only looked for.
        const answer = await create(repeat % 2 === 0 ? {} : { 'If-Match': '"other"' });
        expectError(answer, 503, /with the same Idempotency-Key/);
        expect(answer.headers['retry-after']).toBeDefined();
      }
      expect(idsOf(await listTransactions(url, { from: account }))).toHaveLength(2);
    });
    const answer = await create();
    expect(answer.headers['idempotent-replayed']).toBe('true');
    expect(createdIn(answer).map(({ transactionId }) => transactionId)).toEqual(
      idsOf(await listTransactions(url, { from: account })),
    );
  });

  /**
   * Bug: the repeat of a status change or a delete was acknowledged though the standby did not have it. Cause: the repeat changes no row, so
   * it has no commit that waits, and the row that was read back was believed. Fix: the answer waits for a commit of its own.
   */
  it('lets no status change or delete be acknowledged, nor a repeat, and both have happened when it is back', async () => {
    const { url } = await stores.serve();
    const changed = await givenTransaction(url);
    const deleted = await givenTransaction(url);
    const change = () => changeStatus(url, changed.transactionId, 'COMPLETED');
    const remove = () => deleteTransaction(url, deleted.transactionId);
    await withoutStandby(async () => {
      for (let repeat = 0; repeat < REPEATS; repeat += 1) {
        expectError(await change(), 503, /not known whether the status was changed/);
        expectError(await remove(), 503, /not known whether the transaction was deleted/);
      }
      const ids = [changed.transactionId, deleted.transactionId];
      const query = 'SELECT id::float8 AS id, status FROM idempay.transactions WHERE id = ANY ($1)';
      expect(await stores.sql(query, [ids])).toEqual([{ id: changed.transactionId, status: 'COMPLETED' }]);
    });
    const answer = await change();
    expect([answer.status, answer.json<Transaction>().status]).toEqual([200, 'COMPLETED']);
    expectUnknownTransaction(await remove(), deleted.transactionId);
  });

  /** Neither of the first attempt nor of repeats: they get 409 and 404 while the claim of the first has its lease. */
  async function expectNoOutcomes(url: string, key: string, first: () => Promise<Answer>): Promise<void> {
    expect([503, 504]).toContain((await first()).status);
    for (let repeat = 0; repeat < REPEATS; repeat += 1) {
      for (const answer of await Promise.all([pay(url, key), paymentStatus(url, key)])) {
        expect([404, 409, 503, 504], answer.text).toContain(answer.status);
        expectError(answer, answer.status);
      }
      await pause(100);
    }
  }

  async function expectOnePayment(url: string, key: string): Promise<void> {
    const id = await untilOutcome(url, key);
    expectReplay(await pay(url, key), id);
    expect(await rowsOf(key)).toEqual([{ state: 'COMPLETED', transaction_id: id }]);
  }

  function rowsOf(key: string) {
    return stores.sql('SELECT state, transaction_id FROM idempay.payments WHERE key = $1', [key]);
  }

  /** Meanwhile every commit waits for a standby that does not exist, until that wait is cancelled. */
  async function withoutStandby(work: () => Promise<void>): Promise<void> {
    let cancelled = 0;
    const cancelWaits = async () => {
      const cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
      cancelled += (await stores.sql(cancel)).length;
      await pause(10);
    };
    await stores.sql("ALTER SYSTEM SET synchronous_standby_names = 'nobody1'");
    await stores.sql('SELECT pg_reload_conf()');
    await alongside(1, cancelWaits, async () => {
      await until('a commit that is cancelled', DEADLINE_MS, async () => {
        await stores.sql("SELECT pg_logical_emit_message(true, 'probe', '')");
        return cancelled > 0;
      });
      await work();
    });
    await stores.sql('ALTER SYSTEM RESET synchronous_standby_names');
    await stores.sql('SELECT pg_reload_conf()');
  }
});
