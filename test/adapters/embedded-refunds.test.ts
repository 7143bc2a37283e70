import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Claim } from '#idempay/payments/values/payment.js';
import { systemClock } from '#idempay/platform/clock.js';
import { markFolderAsRestored } from '#idempay/stores/embedded/file/adoption.js';
import { openEmbedded } from '#idempay/stores/embedded/open.js';
import type { Deployment } from '#idempay/stores/shared/deployment.js';
import {
  completed,
  DECLINED,
  givenClaim,
  givenSettled,
  inState,
  LONG_MS,
  newKey,
  newOwner,
} from '../../testkit/protocol/payment-attempts.js';
import { givenRefund, refundsWith } from '../../testkit/protocol/refund-attempts.js';

/** The guarantees of refunds in SQLite beyond `refund-ledger-contract.ts`. */

const NOTE = { lookedUp: 'found', sent: false } as const;

let dataDir: string;
let stores: Deployment;
let attemptAt: ReturnType<typeof refundsWith>;

const open = () => openEmbedded({ dataDir, transactionCacheTtlMs: 1_000, clock: systemClock });

beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'idempay-refunds-'));
  stores = await open();
  attemptAt = refundsWith(stores.id);
});
afterAll(async () => {
  await stores.close();
  await rm(dataDir, { recursive: true, force: true });
});

async function paid(): Promise<Claim> {
  const payment = await givenClaim(stores.ledger);
  await givenSettled(stores.ledger, payment);
  return payment;
}
const sumOf = async ({ key }: Claim) => (await stores.paymentHistory.find(key))?.refundedUnits;

test('a claim of a refund that SQLite refuses takes its sum back, and the writes next to it are committed', async () => {
  const [payment, other] = [await paid(), await givenClaim(stores.ledger)];
  const used = attemptAt(payment, { transactionId: payment.transactionId });
  const good = attemptAt(payment, { units: 3 });
  const [refused, claimed, settled] = await Promise.allSettled([
    stores.refunds.claimRefund(used),
    stores.refunds.claimRefund(good),
    stores.ledger.settle(other, completed(other), LONG_MS),
  ]);
  expect(refused).toMatchObject({ status: 'rejected', reason: { message: expect.stringMatching(/UNIQUE/) } });
  expect(claimed).toMatchObject({ status: 'fulfilled', value: { state: 'claimed' } });
  expect(settled).toMatchObject({ status: 'fulfilled', value: { state: 'settled' } });
  expect(await stores.refunds.findRefund(used.key)).toEqual({ state: 'absent' });
  expect(await sumOf(payment)).toBe(3);
});

test('the key store does not know the key of a refund, and gets no record of it', async () => {
  const payment = await paid();
  const ends = [
    await givenRefund(stores.refunds, attemptAt(payment)),
    await givenRefund(stores.refunds, attemptAt(payment)),
  ];
  const [done, declined] = ends as [Claim, Claim];
  // As if its key were one that the service generates, for which a settlement restores a record.
  const generated = await givenRefund(stores.refunds, { ...attemptAt(payment), key: newKey() });
  inState(await stores.ledger.settle(done, completed(done), LONG_MS), 'settled');
  inState(await stores.ledger.settle(declined, DECLINED, LONG_MS), 'settled');
  inState(await stores.ledger.settle(generated, completed(generated), LONG_MS), 'settled');
  for (const { key } of [done, declined, generated]) expect(await stores.keys.look(key)).toEqual({ state: 'absent' });
});

describe('after rows were lost', () => {
  let payment: Claim;
  let before: Claim;
  beforeAll(async () => {
    payment = await paid();
    before = await givenRefund(stores.refunds, attemptAt(payment, { units: 1 }));
    await stores.close();
    markFolderAsRestored(dataDir);
    stores = await open();
  });

  const lostClaim = (units: number) => givenRefund(stores.refunds, attemptAt(payment, { units }));

  test('the first claim of a refund says that an earlier row may be lost, and one that was there does not', async () => {
    const claim = await lostClaim(10);
    expect(claim).toMatchObject({ epoch: 1, unsent: false, mayBeLost: true });
    expect(claim.refund).toEqual({ payment: payment.key, name: claim.refund?.name });
    const taken = await stores.ledger.takeOver({ ...before, owner: newOwner(), leaseMs: LONG_MS });
    expect(taken).toMatchObject({ epoch: 2, unsent: false, refund: before.refund });
    expect(taken).not.toHaveProperty('mayBeLost');
    expect(taken).not.toHaveProperty('claimedAfterLoss');
  });

  test('a claim that was given up before anything was sent still says so', async () => {
    const claim = await lostClaim(10);
    expect(await stores.ledger.abandon(claim, 0, 'unsent since a loss')).toBe(true);
    const taken = await stores.ledger.takeOver({ ...claim, owner: newOwner(), leaseMs: LONG_MS });
    expect(taken).toMatchObject({ epoch: 2, unsent: false, mayBeLost: true });
  });

  test('a refund is shown with the amount that was given back', async () => {
    const sum = (await sumOf(payment)) as number;
    const done = await lostClaim(20);
    const given = { ...done, amount: '7.00', fingerprint: '7.00 USD' };
    const end = { outcome: completed(done), idempotencyTtlMs: LONG_MS, note: NOTE };
    inState(await stores.ledger.settleAfterLoss(given, end), 'settled');
    expect(await sumOf(payment)).toBe(sum + 700);
    expect(await stores.paymentHistory.find(done.key)).toMatchObject({ state: 'COMPLETED', amount: '7.00' });
  });
});
