import { afterAll, afterEach, beforeEach, describe, expect, test } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { expectShown, untilFullService, untilOutcome } from '../../testkit/client/full-service.js';
import { type Answer, ask, generateKey, pay, paymentStatus } from '../../testkit/client/http-client.js';
import { expectCompleted, expectReplay, givenPaid, NO_PAYMENT } from '../../testkit/client/payment-answers.js';
import {
  changeStatus,
  deleteTransaction,
  draft,
  givenTransaction,
  idsOf,
  listTransactions,
  newAccount,
  postTransaction,
  readTransaction,
  type Transaction,
} from '../../testkit/client/transactions.js';
import { APPEND_ONLY, openStoppableStores } from '../../testkit/deployments/distributed-stores.js';
import { patience } from '../../testkit/time/patience.js';

const LEASE_MS = 2_000;
const LEASE = { LOCK_TTL_SECONDS: `${LEASE_MS / 1000}` };
/** The time that a busy machine may add to it. */
const SLACK_MS = 2_000;
/** How long a refusal may take while Redis hangs: the service's own limit for a command, and some for others. */
const AT_ONCE_MS = 1_500;
const HEALTH_MS = 1_000;
/** A busy machine may make one answer late; a promise about time is broken when it is broken each time. */
const TRIES = 3;
/** Twice the pool, so that requests also wait for a connection. */
const PAYMENTS = 20;

const stores = await openStoppableStores(APPEND_ONLY);
afterAll(() => stores.close());
const { url } = await stores.serve({ ...LEASE, DATABASE_URL: stores.wires.environment.DATABASE_URL });

describe('a store that is down', () => {
  /** Rows that were there, and were acknowledged, before a store went down. */
  let paid: Awaited<ReturnType<typeof givenPaid>>;
  let fresh: string;
  let from: { fromAccount: string };
  let transaction: Transaction;
  let id: number;

  beforeEach(async () => {
    paid = await givenPaid(url);
    fresh = await generateKey(url);
    from = { fromAccount: newAccount() };
    transaction = await givenTransaction(url, from);
    id = transaction.transactionId;
    await readTransaction(url, id);
  });
  afterEach(async () => {
    stores.redis.signal('SIGCONT');
    stores.wires.postgres.heal();
    await untilFullService(url);
  });

  const list = (at: string, headers = {}) => listTransactions(at, { from: from.fromAccount }, headers);

  /** Expects a finished payment to be replayed and its status to be shown, whichever store is down. */
  async function expectRepeated(at: string): Promise<void> {
    expectReplay(await pay(at, paid.key), paid.transactionId);
    expectCompleted(await paymentStatus(at, paid.key), paid.transactionId);
  }

  /** A payment that was begun before goes on, with the key that was refused meanwhile. */
  async function expectBack(at: string): Promise<void> {
    await untilFullService(at);
    // A payment that was given up while Redis hung may have taken its lock when it went on: for one lease at most.
    await untilOutcome(at, fresh, [409], LEASE_MS + SLACK_MS);
    await expectRepeated(at);
    await expectShown([at], id, 'PENDING');
    expect((await changeStatus(at, id, 'FLAGGED')).status).toBe(200);
    await expectShown([at], id, 'FLAGGED');
  }

  test.each<[fault: string, take: () => unknown, give: () => unknown, settings?: Record<string, string>]>([
    ['killed', () => stores.redis.kill(), () => stores.redis.start()],
    ['hanging', () => stores.redis.signal('SIGSTOP'), () => stores.redis.signal('SIGCONT')],
    ['killed before the start of the process', () => stores.redis.kill(), () => stores.redis.start(), LEASE],
  ])('Redis %s: what needs it is refused at once, and all else goes on', async (_fault, take, give, settings) => {
    await take();
    const at = settings ? (await stores.serve(settings)).url : url;

    await expectRefusedQuickly([
      [() => ask(`${at}/api/server-generated/generate-key`), /key/i],
      [() => pay(at, fresh), /^The .*payment .* same Idempotency-Key/],
      [() => ask(`${at}/api/health/redis`), /^The key-value store cannot be reached/, HEALTH_MS],
      [() => changeStatus(at, id, 'FLAGGED'), /^The status .* nothing was changed/],
      [() => deleteTransaction(at, id), /deleted .* nothing was changed/],
    ]);
    await expectRepeated(at);
    expectError(await paymentStatus(at, fresh), 404, NO_PAYMENT);
    const read = await readTransaction(at, id);
    expect(read.json()).toEqual(transaction);
    expect(read.headers['cache-status']).toBe('transactionCache; fwd=bypass');
    const { transactionId: created } = await givenTransaction(at, from);
    const listed = await list(at);
    expect(idsOf(listed)).toEqual([id, created]);
    expect((await list(at, { 'If-None-Match': listed.headers.etag })).status).toBe(304);

    await give();
    await expectBack(at);
  });

  /** Requests that Redis alone answers. */
  async function expectServedWithoutPostgres(): Promise<void> {
    expect((await ask(`${url}/api/health/redis`)).json()).toMatchObject({ status: 'UP' });
    await generateKey(url);
    await expectRepeated(url);
    expect((await readTransaction(url, id)).headers['cache-status']).toBe('transactionCache; hit');
  }

  test('PostgreSQL stopped: what needs it is refused at once, and all else goes on', async () => {
    const { transactionId: uncached } = await givenTransaction(url, from);
    await stores.postgres.stopImmediately();

    await expectServedWithoutPostgres();
    await expectRefusedQuickly([
      [() => pay(url, fresh), /^The payment .* same Idempotency-Key/],
      [() => paymentStatus(url, fresh), /^The payment cannot be looked up/],
      [() => postTransaction(url, draft(from)), /^The transaction cannot be created .* nothing was/],
      [() => list(url), /^The transactions cannot be listed/],
      [() => list(url, { 'If-None-Match': '"0"' }), /^The transactions cannot be listed/],
      [() => readTransaction(url, uncached), /^This cannot be read/],
      [() => changeStatus(url, uncached, 'FLAGGED'), /^The status cannot be changed/],
      [() => deleteTransaction(url, uncached), /^The transaction cannot be deleted/],
    ]);

    await stores.postgres.start();
    await expectBack(url);
    expect(idsOf(await list(url))).toEqual([id, uncached]);
  });

  test.each(['to client', 'to server'] as const)(
    'PostgreSQL that is silent (%s): all else goes on, no request hangs, and each key has one payment',
    async (direction) => {
      const { transactionId: changed } = await givenTransaction(url);
      const keys = (await Promise.all(Array.from({ length: PAYMENTS }, () => generateKey(url)))).toSorted();
      stores.wires.postgres.blackhole(direction);

      const waiting = [
        ...keys.map((key) => pay(url, key)),
        postTransaction(url),
        listTransactions(url),
        changeStatus(url, changed, 'FLAGGED'),
        deleteTransaction(url, changed + 1),
      ];
      await expectServedWithoutPostgres();
      // While it is silent: none waits for it.
      for (const answer of await Promise.all(waiting)) expectError(answer, 503);

      stores.wires.postgres.heal();
      const ids = await Promise.all(keys.map((key) => untilOutcome(url, key)));
      const rows = await stores.sql<{ transaction_id: string }>(
        "SELECT transaction_id FROM idempay.payments WHERE state = 'COMPLETED' AND key = ANY ($1) ORDER BY key",
        [keys],
      );
      expect(rows.map((row) => row.transaction_id)).toEqual(ids);

      const [row = {}] = await stores.sql('SELECT status FROM idempay.transactions WHERE id = $1', [changed]);
      expect((await readTransaction(url, changed)).json()).toMatchObject(row);
      expect((await changeStatus(url, changed, 'BLOCKED')).status).toBe(200);
      await expectShown([url], changed, 'BLOCKED');
    },
  );
});

type Refused = readonly [request: () => Promise<Answer>, message: RegExp, limitMs?: number];

/** 503 with a message about what was asked for, each time; the quickest of a few is within the limit. */
async function expectRefusedQuickly(refused: readonly Refused[]): Promise<void> {
  for (const [request, message, limitMs = AT_ONCE_MS] of refused) {
    let quickestMs = Number.POSITIVE_INFINITY;
    for (let time = 0; time < TRIES && quickestMs >= patience(limitMs); time += 1) {
      const begun = performance.now();
      const answer = await request();
      quickestMs = Math.min(quickestMs, performance.now() - begun);
      expectError(answer, 503, message);
      expect(answer.headers['retry-after']).toMatch(/^[1-9]\d*$/);
    }
    expect(quickestMs, `${message}`).toBeLessThan(patience(limitMs));
  }
}
