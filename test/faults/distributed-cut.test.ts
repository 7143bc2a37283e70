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
import { until } from '../../testkit/time/until.js';

const LEASE_SECONDS = 2;
const LEASE_MS = LEASE_SECONDS * 1_000;
/** What a busy machine and one round of recovery may add. */
const SLACK_MS = 5_000;
const AT_ONCE_MS = 1_500;
/** After the network is healed: reconnecting, and on the way to it one time-out of every kind. */
const BACK_DEADLINE_MS = 15_000;
const GENERATE = '/api/server-generated/generate-key';

describe('a connection cut between a request and its reply', () => {
  let stores: DistributedStores;
  let wires: Awaited<ReturnType<typeof openWires>>;
  /** `near` has the connections that are cut; `far` serves the same stores on its own. */
  let near: string;
  let far: string;

  beforeAll(async () => {
    stores = await openDistributedStores();
    wires = await openWires(stores);
    const lease = { LOCK_TTL_SECONDS: `${LEASE_SECONDS}` };
    const services = [await stores.serve({ ...wires.environment, ...lease }), await stores.serve(lease)];
    [near, far] = services.map(({ url }) => url) as [string, string];
    // Redis knows the scripts from here on: each step is one command and one reply.
    expectFirst(await pay(near, await generateKey(near)));
    const { transactionId: id } = await givenTransaction(near);
    await readTransaction(near, id);
    expect((await changeStatus(near, id, 'FLAGGED')).status).toBe(200);
  });
  afterEach(async () => {
    for (const wire of [wires.redis, wires.postgres]) {
      wire.heal();
      wire.cut();
    }
    await expectServing();
  });
  afterAll(async () => {
    await stores?.close();
    await wires?.close();
  });

  /** The payment has one id, answered by both processes, in one row, no later than a lease after its answer. */
  async function expectOnePayment(key: string, answer: Answer): Promise<void> {
    const first = answer.status === 200 ? expectFirst(answer) : undefined;
    const repeat = await until('an outcome within a lease', LEASE_MS + SLACK_MS, async () => {
      const again = await pay(far, key);
      if (again.status === 409) expectInProgress(again, LEASE_SECONDS);
      return again.status !== 409 && again;
    });
    expect(repeat.status, repeat.text).toBe(200);
    const id = transactionIdOf(repeat) as string;
    if (first) expect(id).toBe(first);
    for (const url of [near, far]) {
      expectReplay(await pay(url, key), id);
      expectCompleted(await paymentStatus(url, key), id);
    }
    expect(await stores.sql('SELECT transaction_id, state FROM idempay.payments WHERE key = $1', [key])).toEqual([
      { transaction_id: id, state: 'COMPLETED' },
    ]);
  }

  async function expectStatuses(id: number, status: string): Promise<void> {
    for (const url of [near, far, near]) {
      expect((await readTransaction(url, id)).json<Transaction>().status).toBe(status);
    }
  }

  it.each<[string, 'postgres' | 'redis', (key: string) => [text: string, nth: number], number[], boolean?]>([
    ['its claim was committed', 'postgres', () => [executionOf('claim'), 1], [200]],
    ['its settlement was committed', 'postgres', () => [executionOf('settle'), 1], [200]],
    ['its claim, with PostgreSQL out of reach then', 'postgres', () => [executionOf('claim'), 1], [503], true],
    ['its settlement, with PostgreSQL out of reach', 'postgres', () => [executionOf('settle'), 1], [503, 504], true],
    ['its lock was taken in Redis', 'redis', (key) => [key, 1], [503]],
    ['its final value was stored in Redis', 'redis', (key) => [key, 2], [200]],
  ])('after %s: a payment has one id', async (_step, server, replyTo, statuses, isOut = false) => {
    const key = await generateKey(near);
    const [text, nth] = replyTo(key);
    const lost = wires[server].loseReply(text, nth).then(() => isOut && wires[server].cutOff());
    const answer = await pay(near, key);
    await lost;
    expect(statuses, answer.text).toContain(answer.status);
    // Committed is committed, for the other process at once.
    if (text === executionOf('settle') && isOut) expectReplay(await pay(far, key));
    wires[server].heal();
    await expectOnePayment(key, answer);
  });

  /**
   * Bug: nobody worked on a payment until the lease ended that its lost takeover had taken. Cause: only claims and settlements
   * were read back. Fix: so is a takeover.
   */
  it('after a takeover was committed: it is answered from the row, and goes on', async () => {
    const key = await generateKey(near);
    await stores.sql(
      `INSERT INTO idempay.payments (key, transaction_id, amount, currency, fingerprint, processor, state, epoch, owner,
         lease_until, recover_at, claimed_at)
       SELECT $1, transaction_id || '1', amount, currency, fingerprint, processor, 'PROCESSING', 1, '',
         to_timestamp(0), now() + interval '1 hour', clock_timestamp() FROM idempay.payments LIMIT 1`,
      [key],
    );
    const lost = wires.postgres.loseReply(executionOf('take_over'));
    const answer = await pay(near, key);
    await lost;
    expectFirst(answer);
    await expectOnePayment(key, answer);
  });

  it('to Redis after a key was issued: the client learns of no key, and the next one is good', async () => {
    const lost = wires.redis.loseReply('KEY GENERATED');
    expectError(await ask(`${near}${GENERATE}`), 503);
    await lost;
    const key = await until('a new key', BACK_DEADLINE_MS, () => generateKey(near).catch(() => undefined));
    expectFirst(await pay(near, key));
  });

  it('after a create was committed: unknown to the client, and there once at most', async () => {
    const account = newAccount();
    const lost = wires.postgres.loseReply(executionOf('create_transactions'));
    const refused = await postTransaction(near, draft({ fromAccount: account }));
    expectError(refused, 503, /^It is not known .* a repeat may create it twice/);
    // A client that repeats by itself would make two of it.
    expect(refused.headers).not.toHaveProperty('retry-after');
    await lost;
    const lists = await Promise.all([near, far].map((url) => listTransactions(url, { from: account })));
    for (const list of lists) expect(list.json<Transaction[]>().length).toBe(1);
    expect(lists[0]?.text).toBe(lists[1]?.text);
  });

  it('after a status change or a delete was committed: unknown to the client, and every read shows it', async () => {
    const { transactionId: id } = await givenTransaction(near);
    await readTransaction(far, id);
    const change = wires.postgres.loseReply(executionOf('change_status'));
    expectError(await changeStatus(near, id, 'FLAGGED'), 503);
    await change;
    await expectStatuses(id, 'FLAGGED');
    const removal = wires.postgres.loseReply(executionOf('remove_transaction'));
    expectError(await deleteTransaction(near, id), 503);
    await removal;
    for (const url of [near, far, near]) expect((await readTransaction(url, id)).status).toBe(404);
  });

  it.each([
    ['mark', 1, 'PENDING'],
    ['new entry', 2, 'FLAGGED'],
  ])('to Redis after the %s of a status change: no read is stale', async (_step, nth, status) => {
    const { transactionId: id } = await givenTransaction(near);
    await readTransaction(far, id);
    const lost = wires.redis.loseReply(`transactionCache::${id}`, nth);
    expectError(await changeStatus(near, id, 'FLAGGED'), 503);
    await lost;
    expect(await stores.sql('SELECT status FROM idempay.transactions WHERE id = $1', [id])).toEqual([{ status }]);
    await expectStatuses(id, status);
  });

  it.each([
    ['reset', () => wires.redis.cutOff()],
    ['silent towards Redis', () => wires.redis.blackhole('to server')],
    ['silent from Redis', () => wires.redis.blackhole('to client')],
  ])(
    'of one process to Redis alone (%s) leaves the others at work, and that one never stale',
    async (_kind, cutOff) => {
      const paid = await generateKey(near);
      const id = expectFirst(await pay(near, paid));
      const fresh = await generateKey(far);
      const { transactionId } = await givenTransaction(near);
      await readTransaction(near, transactionId);
      cutOff();

      const begun = performance.now();
      expectError(await pay(near, fresh), 503);
      expect(performance.now() - begun).toBeLessThan(AT_ONCE_MS + SLACK_MS);
      expectReplay(await pay(near, paid), id);
      expectError(await changeStatus(near, transactionId, 'BLOCKED'), 503);
      expect((await changeStatus(far, transactionId, 'FLAGGED')).status).toBe(200);
      const read = await readTransaction(near, transactionId);
      expect(read.json<Transaction>().status).toBe('FLAGGED');
      expect(read.headers['cache-status']).toBe('transactionCache; fwd=bypass');
      // What was still delivered may hold the lock of a payment that was given up: for one lease at most.
      await until('the key to be paid elsewhere', LEASE_MS + SLACK_MS, async () => {
        const answer = await pay(far, fresh);
        if (answer.status !== 200) expectInProgress(answer, LEASE_SECONDS);
        return answer.status === 200;
      });

      wires.redis.heal();
      await expectServing();
      await expectStatuses(transactionId, 'FLAGGED');
      expectReplay(await pay(near, fresh));
    },
  );

  it.each(['redis', 'postgres'] as const)(
    'that nobody ever closes (%s): service is back within seconds',
    async (server) => {
      wires[server].strand();
      await expectServing();
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
    const key = await generateKey(near);
    await expectOnePayment(key, await pay(near, key));
  });

  async function expectServing(): Promise<void> {
    await until('full service', BACK_DEADLINE_MS, async () => {
      const key = await ask(`${near}${GENERATE}`);
      if (key.status !== 200) return false;
      const first = await pay(near, key.json<string>());
      const created = await postTransaction(near);
      if (first.status !== 200 || created.status !== 201) return false;
      return (await changeStatus(near, created.json<Transaction>().transactionId, 'FLAGGED')).status === 200;
    });
  }
});
