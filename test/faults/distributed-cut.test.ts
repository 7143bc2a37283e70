import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { expectShown, untilFullService, untilOutcome } from '../../testkit/client/full-service.js';
import { type Answer, ask, generateKey, pay, paymentStatus } from '../../testkit/client/http-client.js';
import { expectCompleted, expectFirst, expectReplay, givenPaid } from '../../testkit/client/payment-answers.js';
import {
  changeStatus,
  deleteTransaction,
  draft,
  givenTransaction,
  listTransactions,
  newAccount,
  postTransaction,
  readTransaction,
} from '../../testkit/client/transactions.js';
import { executionOf, openDistributedStores } from '../../testkit/deployments/distributed-stores.js';
import { withSlack } from '../../testkit/time/patience.js';

const LEASE_MS = 2_000;
/** The time that a busy machine and one round of recovery may add. */
const SLACK_MS = 5_000;
const AT_ONCE_MS = 1_500;

const flag = (url: string, id: number) => changeStatus(url, id, 'FLAGGED');

const stores = await openDistributedStores();
afterAll(() => stores.close());
const { wires } = stores;
const LEASES = { LOCK_TTL_SECONDS: `${LEASE_MS / 1_000}` };
/** `near` has the connections that are damaged; `far` serves the same stores on its own. A payment of `near` takes two commits. */
const { url: near } = await stores.serve({ ...wires.environment, ...LEASES, PROCESSOR_DELAY_MS: '1' });
const { url: far } = await stores.serve(LEASES);
/** As `near`, and its payments are settled by their claim. */
const { url: atOnce } = await stores.serve({ ...wires.environment, ...LEASES });

beforeEach(async () => {
  for (const wire of [wires.redis, wires.postgres]) {
    wire.heal();
    wire.cut();
  }
  for (const url of [near, atOnce]) await untilFullService(url);
});

/** The payment has one id, answered by both processes, in one row, no later than a lease after its answer. */
async function expectOnePayment(key: string, answer: Answer): Promise<void> {
  const id = await untilOutcome(far, key, [409], LEASE_MS + SLACK_MS);
  if (answer.status === 200) expect(expectFirst(answer)).toBe(id);
  for (const url of [near, far]) {
    expectReplay(await pay(url, key), id);
    expectCompleted(await paymentStatus(url, key), id);
  }
  expect(await stores.sql('SELECT transaction_id, state FROM idempay.payments WHERE key = $1', [key])).toEqual([
    { transaction_id: id, state: 'COMPLETED' },
  ]);
}

describe('a reply that is lost after', () => {
  type Lose = (text: string) => Promise<unknown>;
  const executed = (statement: string): Lose => {
    return () => wires.postgres.loseReply(executionOf(statement));
  };
  const nth = (count: number): Lose => {
    return (text) => wires.redis.loseReply(text, count);
  };
  const answerTo = async (request: Promise<Answer>, lost: Promise<unknown>) => (await Promise.all([request, lost]))[0];

  const abandon = (key: string) =>
    stores.sql(
      `INSERT INTO idempay.payments (key, transaction_id, amount, currency, fingerprint, processor, state, epoch, owner,
         lease_until, recover_at, claimed_at, generation)
       SELECT $1, transaction_id || '1', amount, currency, fingerprint, processor, 'PROCESSING', 1, '',
         to_timestamp(0), now() + interval '1 hour', clock_timestamp(), generation FROM idempay.payments LIMIT 1`,
      [key],
    );

  /**
   * Bug: when the reply to a takeover was lost, nobody worked on the payment until the takeover's lease had ended. Cause:
   * only claims and settlements were read back. Fix: a takeover is read back too.
   */
  test.each<[step: string, Lose, statuses: number[], { given?: typeof abandon; isOut?: true; at?: string }?]>([
    ['its claim was committed', executed('claim'), [200]],
    ['its claim was committed, and with it its outcome,', executed('claim'), [200], { at: atOnce }],
    ['its settlement was committed', executed('settle'), [200]],
    ['its takeover was committed', executed('take_over'), [200], { given: abandon }],
    ['its claim, with PostgreSQL out of reach then', executed('claim'), [503], { isOut: true }],
    ['its claim and outcome, with PostgreSQL out of reach then', executed('claim'), [503], { at: atOnce, isOut: true }],
    ['its settlement, with PostgreSQL out of reach then', executed('settle'), [503, 504], { isOut: true }],
    ['its lock was taken in Redis', nth(1), [503]],
    ['its final value was stored in Redis', nth(2), [200]],
  ])('%s leaves a payment with one id', async (step, lose, statuses, { given, isOut, at = near } = {}) => {
    const key = await generateKey(near);
    await given?.(key);
    const answer = await answerTo(
      pay(at, key),
      lose(key).then(() => isOut && wires.postgres.cutOff()),
    );
    expect(statuses, answer.text).toContain(answer.status);
    // Committed is committed, for the other process at once.
    if (/settlement|outcome/.test(step)) expectReplay(await pay(far, key));
    wires.postgres.heal();
    await expectOnePayment(key, answer);
  });

  test('a key was issued gives the client no key, and the next one is good', async () => {
    expectError(await answerTo(ask(`${near}/api/server-generated/generate-key`), nth(1)('KEY GENERATED')), 503);
    await untilFullService(near);
  });

  test('a create was committed is unknown to the client, and the transaction is there once', async () => {
    const account = newAccount();
    const creating = postTransaction(near, draft({ fromAccount: account }));
    const refused = await answerTo(creating, executed('create_transactions')(''));
    expectError(refused, 503, /^It is not known .* a repeat may create it twice/);
    // A client that repeats automatically would make two of it.
    expect(refused.headers).not.toHaveProperty('retry-after');
    const [one, other] = await Promise.all([near, far].map((url) => listTransactions(url, { from: account })));
    expect(one?.json()).toHaveLength(1);
    expect(one?.text).toBe(other?.text);
  });

  test.each<[step: string, Lose, write: typeof flag, status: string | 404]>([
    ['the mark of a change in Redis', nth(1), flag, 'PENDING'],
    ['the new entry of a change in Redis', nth(2), flag, 'FLAGGED'],
    ['the commit of a change', executed('change_status'), flag, 'FLAGGED'],
    ['the commit of a delete', executed('remove_transaction'), deleteTransaction, 404],
  ])('%s is unknown to the client, and no read is stale', async (_step, lose, write, status) => {
    const { transactionId: id } = await givenTransaction(near);
    await readTransaction(far, id);
    expectError(await answerTo(write(near, id), lose(`transactionCache::${id}`)), 503);
    const rows = await stores.sql('SELECT status FROM idempay.transactions WHERE id = $1', [id]);
    expect(rows).toEqual(status === 404 ? [] : [{ status }]);
    await expectShown([near, far], id, status);
  });
});

describe('a connection', () => {
  test.each([
    ['reset', () => wires.redis.cutOff()],
    ['silent towards Redis', () => wires.redis.blackhole('to server')],
    ['silent from Redis', () => wires.redis.blackhole('to client')],
  ])('of one process to Redis, %s, leaves the others at work, and that one never stale', async (_kind, cutOff) => {
    const paid = await givenPaid(near);
    const fresh = await generateKey(far);
    const { transactionId: id } = await givenTransaction(near);
    await readTransaction(near, id);
    cutOff();

    const begun = performance.now();
    expectError(await pay(near, fresh), 503);
    expect(performance.now() - begun).toBeLessThan(withSlack(AT_ONCE_MS));
    expectReplay(await pay(near, paid.key), paid.transactionId);
    expectError(await changeStatus(near, id, 'BLOCKED'), 503);
    expect((await flag(far, id)).status).toBe(200);
    const read = await readTransaction(near, id);
    expect(read.json()).toMatchObject({ status: 'FLAGGED' });
    expect(read.headers['cache-status']).toBe('transactionCache; fwd=bypass');
    // A command that was still delivered may hold the lock of a payment that was given up: for one lease at most.
    const outcome = await untilOutcome(far, fresh, [409], LEASE_MS + SLACK_MS);

    wires.redis.heal();
    await untilFullService(near);
    await expectShown([near, far], id, 'FLAGGED');
    expectReplay(await pay(near, fresh), outcome);
  });

  test.each(['redis', 'postgres'] as const)(
    'to %s that nobody ever closes: service is back in time',
    async (server) => {
      wires[server].strand();
      await untilFullService(near);
    },
  );

  test('that nobody ever closes does not keep a process from ending when it is told to', async () => {
    const ending = await stores.start(wires.environment);
    await givenPaid(ending.url);
    wires.redis.strand();
    wires.postgres.strand();
    expect(await ending.stop()).toEqual({ code: 0, signal: null });
  });
});
