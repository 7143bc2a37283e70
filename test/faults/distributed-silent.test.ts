import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { ask, generateKey, pay, paymentStatus, transactionIdOf } from '../../testkit/client/http-client.js';
import { expectCompleted, expectFirst, expectReplay } from '../../testkit/client/payment-answers.js';
import {
  changeStatus,
  deleteTransaction,
  givenTransaction,
  listTransactions,
  postTransaction,
  readTransaction,
  type Transaction,
} from '../../testkit/client/transactions.js';
import {
  type DistributedStores,
  openDistributedStores,
  openWires,
} from '../../testkit/deployments/distributed-stores.js';
import { until } from '../../testkit/time/until.js';

/** Twice the pool, so that requests also wait for a connection. */
const PAYMENTS = 20;
/** The longest chain of time-outs on one request, and a busy machine: nobody hangs. */
const PATIENCE_MS = 25_000;
const BACK_DEADLINE_MS = 20_000;

describe.each(['to client', 'to server'] as const)('PostgreSQL that says nothing (%s)', (direction) => {
  let stores: DistributedStores;
  let wires: Awaited<ReturnType<typeof openWires>>;
  let url: string;

  beforeAll(async () => {
    stores = await openDistributedStores();
    wires = await openWires(stores);
    ({ url } = await stores.serve({ ...wires.environment, LOCK_TTL_SECONDS: '2' }));
  });
  afterAll(async () => {
    await stores?.close();
    await wires?.close();
  });

  it('delays nobody who does not need it, hangs nobody who does, and leaves one payment per key', async () => {
    const paid = await generateKey(url);
    const id = expectFirst(await pay(url, paid));
    const { transactionId: cached } = await givenTransaction(url);
    await readTransaction(url, cached);
    const keys = await Promise.all(Array.from({ length: PAYMENTS }, () => generateKey(url)));
    wires.postgres.blackhole(direction);

    const begun = performance.now();
    const waiting = [
      ...keys.map((key) => pay(url, key)),
      postTransaction(url),
      listTransactions(url),
      changeStatus(url, cached, 'FLAGGED'),
      deleteTransaction(url, cached + 1),
    ];
    expectReplay(await pay(url, paid), id);
    expectCompleted(await paymentStatus(url, paid), id);
    expect((await ask(`${url}/api/health/redis`)).status).toBe(200);
    await generateKey(url);
    for (const answer of await Promise.all(waiting)) expectError(answer, 503);
    expect(performance.now() - begun).toBeLessThan(PATIENCE_MS);

    wires.postgres.heal();
    const ids = await Promise.all(
      keys.map((key) =>
        until('an outcome', BACK_DEADLINE_MS, async () => {
          const answer = await pay(url, key);
          if (answer.status !== 200) expect([409, 503, 504]).toContain(answer.status);
          return answer.status === 200 && transactionIdOf(answer);
        }),
      ),
    );
    const rows = await stores.sql<{ key: string; transaction_id: string }>(
      "SELECT key, transaction_id FROM idempay.payments WHERE state = 'COMPLETED' AND key = ANY ($1)",
      [keys],
    );
    const answered = Object.fromEntries(keys.map((key, index) => [key, ids[index]]));
    expect(Object.fromEntries(rows.map((row) => [row.key, row.transaction_id]))).toEqual(answered);
    expect(new Set(ids).size).toBe(PAYMENTS);

    const [row] = await stores.sql<{ status: string }>('SELECT status FROM idempay.transactions WHERE id = $1', [
      cached,
    ]);
    expect((await readTransaction(url, cached)).json<Transaction>().status).toBe(row?.status);
    expect((await changeStatus(url, cached, 'BLOCKED')).status).toBe(200);
    expect((await readTransaction(url, cached)).json<Transaction>().status).toBe('BLOCKED');
  }, 90_000);
});
