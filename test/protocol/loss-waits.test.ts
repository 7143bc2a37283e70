import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { systemClock } from '#idempay/platform/clock.js';
import { markFolderAsRestored } from '#idempay/stores/embedded/file/adoption.js';
import { openEmbedded } from '#idempay/stores/embedded/open.js';
import {
  claimAttempt,
  completed,
  LONG_MS,
  newKey,
  newProcessorName,
  newTransactionId,
} from '../../testkit/protocol/payment-attempts.js';
import { compose, MONEY, orderOf } from '../../testkit/protocol/payment-composition.js';
import { RecordingProcessor } from '../../testkit/protocol/recording-processor.js';

/**
 * A payment waits after rows were lost, for a charge of a lost row. The owner may send that charge until its lease ends, and it may arrive
 * at the processor until the time-out of the call. A ledger waits as long as it is asked to: `contracts/ledger-loss-contract.ts`.
 */

const LEASE_MS = 60_000;
/** Far longer than the lease and all tests. */
const TIMEOUT_MS = LONG_MS;

/** Payments at a processor that deduplicates for `dedupMs`, on a store that lost rows a moment ago. */
async function composeAfterLoss(dedupMs: number) {
  const dataDir = await mkdtemp(join(tmpdir(), 'idempay-loss-waits-'));
  const open = () => openEmbedded({ dataDir, transactionCacheTtlMs: LONG_MS, clock: systemClock });
  const before = await open();
  const key = newKey();
  const name = newProcessorName();
  await before.keys.issue(key, LONG_MS);
  // A moment ago: so little was lost then.
  const paid = await before.ledger.claim(claimAttempt({ processor: name }));
  if (!('claim' in paid)) throw new Error(paid.state);
  await before.ledger.settle(paid.claim, completed(paid.claim), LONG_MS);
  await before.close();
  markFolderAsRestored(dataDir);
  const after = await open();
  onTestFinished(async () => {
    await after.close();
    await rm(dataDir, { recursive: true });
  });
  const processor = new RecordingProcessor(name, dedupMs, TIMEOUT_MS);
  return { ...compose(after, { leaseMs: LEASE_MS, dedupMs }, processor), key, paid: paid.claim };
}

/** Within the time-out after the lease, and a minute before its end, in which the test has come here. */
function expectWholeWait(answer: { readonly state: string }): void {
  expect(answer.state).toBe('too soon');
  const { retryAfterSeconds } = answer as { retryAfterSeconds?: number };
  expect(retryAfterSeconds).toBeGreaterThan(TIMEOUT_MS / 1_000);
  expect(retryAfterSeconds).toBeLessThanOrEqual((LEASE_MS + TIMEOUT_MS) / 1_000);
}

/** With less, the lost charge and this one are both made. */
test('an order waits for lease and time-out where the processor does not deduplicate', async () => {
  const { payments, processor } = await composeAfterLoss(0);
  expectWholeWait(await payments.pay(orderOf(), MONEY));
  expect([processor.lookUps, processor.charges]).toEqual([[], []]);
});

/** With less, the payment is cancelled and charged. */
test.each([0, LONG_MS])(
  'a cancellation waits for lease and time-out at a processor that deduplicates for %i ms',
  async (dedupMs) => {
    const { payments, processor, key } = await composeAfterLoss(dedupMs);
    expectWholeWait(await payments.cancel(orderOf()));
    expectWholeWait(await payments.cancel({ key, client: undefined }));
    expect(processor.lookUps).toEqual([]);
  },
);

test('an order does not wait where the processor deduplicates for longer than rows were lost', async () => {
  const { payments, processor } = await composeAfterLoss(LONG_MS);
  const order = orderOf();
  await processor.charge({ ...MONEY, key: order.key, transactionId: newTransactionId() });
  expect(await payments.pay(order, MONEY)).toMatchObject({ final: { outcome: { state: 'COMPLETED' } } });
  expect(processor.lookUps).toContain(order.key);
  expect(processor.charges).toHaveLength(1);
});

test('the first claim of a refund asks the processor first, which may have given it back for a lost row', async () => {
  const { payments, processor, paid } = await composeAfterLoss(LONG_MS);
  const charged = { amount: '1.00', currency: paid.currency };
  processor.planRefundLookUp({ state: 'succeeded', charged });
  expect(await payments.refund({ key: paid.key }, { name: 'line-2', ...charged })).toMatchObject({
    ...{ state: 'final', outcome: { state: 'COMPLETED' } },
  });
  expect([processor.refundLookUps.length, processor.refunds]).toEqual([1, []]);
});
