import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import {
  type Answer,
  ask,
  generateKey,
  pay,
  paymentStatus,
  transactionIdOf,
} from '../../testkit/client/http-client.js';
import { expectCompleted, expectFirst, expectInProgress, expectReplay } from '../../testkit/client/payment-answers.js';
import {
  changeStatus,
  deleteTransaction,
  draft,
  givenTransaction,
  listTransactions,
  newAccount,
  postTransaction,
  readTransaction,
  type Transaction,
} from '../../testkit/client/transactions.js';
import {
  type DistributedStores,
  executionOf,
  openDistributedStores,
  openWires,
} from '../../testkit/deployments/distributed-stores.js';
import type { Service } from '../../testkit/processes/service.js';
import { until } from '../../testkit/time/until.js';

const LEASE_MS = 2_000;
/** What a busy machine and one round of recovery may add. */
const SLACK_MS = 5_000;
const AT_ONCE_MS = 1_500;
/** After the wire is healed: reconnecting, and on the way to it one time-out of every kind. */
const BACK_DEADLINE_MS = 15_000;
const GENERATE = '/api/server-generated/generate-key';

describe('a connection cut between a request and its reply', () => {
  let stores: DistributedStores;
  let wires: Awaited<ReturnType<typeof openWires>>;
  /** `near` has the wires that are cut; `far` serves the same stores on its own. */
  let near: Service;
  let far: Service;

  beforeAll(async () => {
    stores = await openDistributedStores();
    wires = await openWires(stores);
    const lease = { LOCK_TTL_SECONDS: String(LEASE_MS / 1000) };
    [near, far] = await Promise.all([stores.start({ ...wires.environment, ...lease }), stores.start(lease)]);
    // Redis knows the scripts from here on: each step is one command and one reply.
    expectFirst(await pay(near.url, await generateKey(near.url)));
    const { transactionId: id } = await givenTransaction(near.url);
    await readTransaction(near.url, id);
    expect((await changeStatus(near.url, id, 'FLAGGED')).status).toBe(200);
  });
  afterEach(async () => {
    for (const wire of [wires.redis, wires.postgres]) {
      wire.heal();
      wire.cut();
    }
    await expectServing(near.url);
  });
  afterAll(async () => {
    await stores?.close();
    await wires?.close();
  });

  /** The payment has one id, told by both processes, in one row, no later than a lease after its answer. */
  async function expectOnePayment(key: string, answer: Answer): Promise<void> {
    const told = answer.status === 200 ? expectFirst(answer) : undefined;
    if (answer.status !== 200) expect([503, 504]).toContain(answer.status);
    const repeat = await until('an outcome within a lease', LEASE_MS + SLACK_MS, async () => {
      const again = await pay(far.url, key);
      if (again.status === 409) expectInProgress(again, LEASE_MS / 1000);
      return again.status !== 409 && again;
    });
    expect(repeat.status, repeat.text).toBe(200);
    const id = transactionIdOf(repeat) as string;
    if (told) expect(id).toBe(told);
    for (const { url } of [near, far]) {
      expectReplay(await pay(url, key), id);
      expectCompleted(await paymentStatus(url, key), id);
    }
    expect(await stores.sql('SELECT transaction_id, state FROM idempay.payments WHERE key = $1', [key])).toEqual([
      { transaction_id: id, state: 'COMPLETED' },
    ]);
  }

  it.each(['claim', 'settle'])('after the %s of a payment was committed: it is answered from the row', async (step) => {
    const key = await generateKey(near.url);
    const lost = wires.postgres.loseReply(executionOf(step));
    const answer = await pay(near.url, key);
    await lost;
    expectFirst(answer);
    await expectOnePayment(key, answer);
  });

  /**
   * Bug: nobody worked on a payment until the lease ended that its lost takeover had taken. Cause: only claims and settlements
   * were read back. Fix: so is a takeover.
   */
  it('after a takeover was committed: it is answered from the row, and goes on', async () => {
    const key = await generateKey(near.url);
    await stores.sql(
      `INSERT INTO idempay.payments (key, transaction_id, amount, currency, fingerprint, processor, state, epoch, owner,
         lease_until, recover_at, claimed_at)
       SELECT $1, transaction_id || '1', amount, currency, fingerprint, processor, 'PROCESSING', 1, '',
         to_timestamp(0), now() + interval '1 hour', clock_timestamp() FROM idempay.payments LIMIT 1`,
      [key],
    );
    const lost = wires.postgres.loseReply(executionOf('take_over'));
    const answer = await pay(near.url, key);
    await lost;
    expectFirst(answer);
    await expectOnePayment(key, answer);
  });

  it('after the claim, with PostgreSQL out of reach then: the payment stays unknown and has one id later', async () => {
    const key = await generateKey(near.url);
    const lost = wires.postgres.loseReply(executionOf('claim')).then(() => wires.postgres.cutOff());
    const answer = await pay(near.url, key);
    await lost;
    expectError(answer, 503);
    wires.postgres.heal();
    await expectOnePayment(key, answer);
  });

  it('after the settlement, with PostgreSQL out of reach then: the answer is unknown, the repeat the outcome', async () => {
    const key = await generateKey(near.url);
    const lost = wires.postgres.loseReply(executionOf('settle')).then(() => wires.postgres.cutOff());
    const answer = await pay(near.url, key);
    await lost;
    expect([503, 504]).toContain(answer.status);
    expectReplay(await pay(far.url, key));
    wires.postgres.heal();
    await expectOnePayment(key, answer);
  });

  it.each([
    ['begin', 1],
    ['final value', 2],
  ])('to Redis after the %s of a payment: one id, and no lock longer than its lease', async (step, nth) => {
    const key = await generateKey(near.url);
    const lost = wires.redis.loseReply(key, nth);
    const answer = await pay(near.url, key);
    await lost;
    if (step === 'begin') expectError(answer, 503);
    else expectFirst(answer);
    await expectOnePayment(key, answer);
  });

  it('to Redis after a key was issued: the client learns of no key, and the next one is good', async () => {
    const lost = wires.redis.loseReply('KEY GENERATED');
    expectError(await ask(`${near.url}${GENERATE}`), 503);
    await lost;
    const key = await until('a new key', BACK_DEADLINE_MS, () => generateKey(near.url).catch(() => undefined));
    expectFirst(await pay(near.url, key));
  });

  it('after a create was committed: unknown to the client, and there once at most', async () => {
    const account = newAccount();
    const lost = wires.postgres.loseReply(executionOf('create_transactions'));
    const refused = await postTransaction(near.url, draft({ fromAccount: account }));
    expectError(refused, 503, /^It is not known .* a repeat may create it twice/);
    // A client that repeats by itself would make two of it.
    expect(refused.headers).not.toHaveProperty('retry-after');
    await lost;
    const lists = await Promise.all([near, far].map(({ url }) => listTransactions(url, { from: account })));
    for (const list of lists) expect(list.json<Transaction[]>().length).toBe(1);
    expect(lists[0]?.text).toBe(lists[1]?.text);
  });

  it('after a status change or a delete was committed: unknown to the client, and every read shows it', async () => {
    const { transactionId: id } = await givenTransaction(near.url);
    await readTransaction(far.url, id);
    const change = wires.postgres.loseReply(executionOf('change_status'));
    expectError(await changeStatus(near.url, id, 'FLAGGED'), 503);
    await change;
    for (const { url } of [near, far, near]) {
      expect((await readTransaction(url, id)).json<Transaction>().status).toBe('FLAGGED');
    }
    const removal = wires.postgres.loseReply(executionOf('remove_transaction'));
    expectError(await deleteTransaction(near.url, id), 503);
    await removal;
    for (const { url } of [near, far, near]) expect((await readTransaction(url, id)).status).toBe(404);
  });

  it.each([
    ['mark', 1],
    ['new entry', 2],
  ])('to Redis after the %s of a status change: no read is stale', async (_step, nth) => {
    const { transactionId: id } = await givenTransaction(near.url);
    await readTransaction(far.url, id);
    const lost = wires.redis.loseReply(`transactionCache::${id}`, nth);
    expectError(await changeStatus(near.url, id, 'FLAGGED'), 503);
    await lost;
    const [row] = await stores.sql<{ status: string }>('SELECT status FROM idempay.transactions WHERE id = $1', [id]);
    expect(row?.status).toBe(nth === 1 ? 'PENDING' : 'FLAGGED');
    for (const { url } of [near, far, near]) {
      expect((await readTransaction(url, id)).json<Transaction>().status).toBe(row?.status);
    }
  });

  describe.each([
    ['reset', () => wires.redis.cutOff()],
    ['silent towards Redis', () => wires.redis.blackhole('to server')],
    ['silent from Redis', () => wires.redis.blackhole('to client')],
  ])('of one process to Redis alone (%s)', (_kind, cutOff) => {
    it('leaves the others at work, and that one with what it can answer, never stale', async () => {
      const paid = await generateKey(near.url);
      const id = expectFirst(await pay(near.url, paid));
      const fresh = await generateKey(far.url);
      const { transactionId } = await givenTransaction(near.url);
      await readTransaction(near.url, transactionId);
      cutOff();

      const begun = performance.now();
      expectError(await pay(near.url, fresh), 503);
      expect(performance.now() - begun).toBeLessThan(AT_ONCE_MS + SLACK_MS);
      expectReplay(await pay(near.url, paid), id);
      expectError(await changeStatus(near.url, transactionId, 'BLOCKED'), 503);
      expect((await changeStatus(far.url, transactionId, 'FLAGGED')).status).toBe(200);
      const read = await readTransaction(near.url, transactionId);
      expect(read.json<Transaction>().status).toBe('FLAGGED');
      expect(read.headers['cache-status']).toBe('transactionCache; fwd=bypass');
      // What the silent wire still delivered may hold the lock of a payment that was given up: for one lease at most.
      await until('the key to be paid elsewhere', LEASE_MS + SLACK_MS, async () => {
        const answer = await pay(far.url, fresh);
        if (answer.status !== 200) expectInProgress(answer, LEASE_MS / 1000);
        return answer.status === 200;
      });

      wires.redis.heal();
      await expectServing(near.url);
      expect((await readTransaction(near.url, transactionId)).json<Transaction>().status).toBe('FLAGGED');
      expectReplay(await pay(near.url, fresh));
    });
  });

  it.each(['redis', 'postgres'] as const)(
    'that nobody ever closes (%s): new ones are made, and service is back within seconds',
    async (server) => {
      wires[server].strand();
      await expectServing(near.url);
    },
  );

  it('that nobody ever closes does not keep a process from ending when it is told to', async () => {
    const ending = await stores.start(wires.environment);
    expectFirst(await pay(ending.url, await generateKey(ending.url)));
    wires.redis.strand();
    wires.postgres.strand();
    expect(await ending.stop()).toEqual({ code: 0, signal: null });
  });

  it('or only slow: every answer is right', async () => {
    wires.redis.delay(100);
    wires.postgres.delay(100);
    const key = await generateKey(near.url);
    await expectOnePayment(key, await pay(near.url, key));
  });

  async function expectServing(url: string): Promise<void> {
    await until('full service', BACK_DEADLINE_MS, async () => {
      const key = await ask(`${url}${GENERATE}`);
      if (key.status !== 200) return false;
      const first = await pay(url, key.json<string>());
      const created = await postTransaction(url);
      if (first.status !== 200 || created.status !== 201) return false;
      return (await changeStatus(url, created.json<Transaction>().transactionId, 'FLAGGED')).status === 200;
    });
  }
});
