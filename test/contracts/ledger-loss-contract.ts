import { expect } from 'vitest';
import type { Cancellation, ClaimAttempt } from '#idempay/payments/ports/ledger.js';
import { fingerprintOf, UNKNOWN_FINGERPRINT } from '#idempay/payments/values/money.js';
import type { Claim } from '#idempay/payments/values/payment.js';
import type { Deployment } from '#idempay/stores/shared/deployment.js';
import {
  cancellation,
  claimAttempt,
  completed,
  DECLINED,
  inState,
  LONG_MS,
  newKey,
  newKeyOf,
  newOwner,
  newReference,
  newTransactionId,
  turnsOf,
} from '../../testkit/protocol/payment-attempts.js';
import { givenRefund, refundsWith } from '../../testkit/protocol/refund-attempts.js';
import { passHours } from '../../testkit/time/retention-time.js';
import { until } from '../../testkit/time/until.js';

const DAYS_OF_LOOK_UPS = 30;
const MINUTE_MS = 60_000;
const AT_ONCE = 20;
/** The clocks of two threads or machines. */
const CLOCKS_APART_MS = 1_000;

/**
 * Guarantees of every Ledger after its newest rows were lost, a moment ago. Each test that loses rows, in its own way, ends with it:
 *  1. The first claim of a computed key is a takeover that says so. During the thirty days each takeover says so too if the attempt before
 *     was given up with that mark; any other takeover does not. 2. No payment whose key may have had a row is cancelled before the
 *     processor was asked. 3. If a claim, or a cancellation, has to wait after a loss, it is told for how long. 4. Turns are those of
 *     the rows that are there, and a row that is there answers by itself.
 *  5. After thirty days of time that was seen, and not before, computed keys are claimed as ever. Generated keys from before the loss are not.
 *  6. `mayBeLost` says of a key what a claim of it would find.
 *  7. `settleAfterLoss` settles only for the owner of the claim, and writes its money; a resolution has an epoch, and is no execution. Of a
 *     refund, the sum of its payment then has what was given back.
 *  8. An attempt that is known at the processor is inserted with the missing rows before it, and only if no row before it says otherwise:
 *     also when the thirty days ended after the processor was asked. A missing row is bound to no amount.
 *  9. The claim of a lost row is as old as its key, by the store's clock and by a wall clock that it keeps.
 * 10. For a key whose row may be lost, a processor that has no payment of the day before the loss claims and closes nothing: until one of its
 *     former names has, or the loss is accepted. The payments of that day were made at `test`.
 * 11. The claim of a refund says during the thirty days that an earlier row of it may be lost, and so does a takeover with that mark.
 */
export async function expectLossHandled({
  id,
  ledger,
  refunds,
}: Pick<Deployment, 'id' | 'ledger' | 'refunds'>): Promise<void> {
  const turn = turnsOf(id);
  const refundOf = refundsWith(id);
  const claim = (members: Partial<ClaimAttempt>) => ledger.claim(claimAttempt(members));
  const cancel = (members: Partial<Cancellation>) => ledger.cancel(cancellation(members));
  const takenOver = async (key: string) =>
    (await ledger.takeOver({ key, owner: newOwner(), leaseMs: LONG_MS, processor: 'test' })) as Claim;
  /** Keys from the moment of the loss, however long this takes. */
  const [before, plain, later, generated, lateToo] = Array.from({ length: 5 }, newKey) as [
    string,
    string,
    string,
    string,
    string,
  ];

  async function expectLookedUp(): Promise<void> {
    expect(await ledger.mayBeLost(turn(newReference()).key)).toBe(true);
    const [first, settling] = [turn(newReference(), 1, { client: 'key:shop' }), turn(newReference())];
    const { claim: lost } = inState(await claim(first), 'taken over');
    expect(lost).toMatchObject({ epoch: 1, unsent: false, mayBeLost: true, client: 'key:shop' });
    // Its age counts from now: the key has no time.
    expect(Math.abs(lost.ageMs)).toBeLessThan(CLOCKS_APART_MS);
    const settleAs = { outcome: DECLINED, idempotencyTtlMs: LONG_MS };
    expect(await claim({ ...settling, settleAs })).toMatchObject({ state: 'taken over', claim: { mayBeLost: true } });
    expect(await claim(first)).toMatchObject({ state: 'under way' });
    await ledger.abandon(lost, 0, 'unsent since a loss');
    const second = await takenOver(first.key);
    expect(second).toMatchObject({ epoch: 2, unsent: false, mayBeLost: true });
    await ledger.abandon(second, 0, 'unsent since a loss');
    const due = { owner: newOwner(), leaseMs: LONG_MS, processor: 'test', first: 'latest due', limit: 100 } as const;
    const third = (await ledger.takeOverDue(due)).find(({ key }) => key === first.key);
    expect(third).toMatchObject({ epoch: 3, unsent: false, mayBeLost: true });
    await ledger.abandon(third as Claim, 0);
    const taken = await takenOver(first.key);
    expect(taken).toMatchObject({ epoch: 4, unsent: false });
    expect(taken).not.toHaveProperty('mayBeLost');
    const [closed, waiting] = [turn(newReference()), turn(newReference(), 1, { waitAfterLossMs: LONG_MS })];
    expect(await cancel(closed)).toEqual({ state: 'may be lost' });
    expect(await ledger.find(closed.key)).toEqual({ state: 'absent' });
    expect(await cancel({ ...closed, isLookedUp: true })).toEqual({ state: 'cancelled' });
    for (const isLookedUp of [false, true]) {
      const { remainingMs } = inState(await cancel({ ...waiting, isLookedUp }), 'too soon');
      expect(remainingMs).toBeGreaterThan(0);
      expect(remainingMs).toBeLessThanOrEqual(LONG_MS + CLOCKS_APART_MS);
    }
    expect(await cancel({ ...waiting, isLookedUp: true, waitAfterLossMs: 0 })).toEqual({ state: 'cancelled' });
  }

  /** A payment that was made since the loss. */
  async function paidPayment(): Promise<Claim> {
    const payment = await ledger.claim(claimAttempt({ ...turn(newReference()) }));
    if (payment.state !== 'taken over' && payment.state !== 'claimed') throw new Error(payment.state);
    inState(await ledger.settle(payment.claim, completed(payment.claim), LONG_MS), 'settled');
    return payment.claim;
  }

  async function expectRefundLookedUp(): Promise<void> {
    const payment = await paidPayment();
    const attempt = refundOf(payment);
    expect(await ledger.mayBeLost(attempt.key)).toBe(true);
    const claimed = await givenRefund(refunds, attempt);
    expect(claimed).toMatchObject({ epoch: 1, unsent: false, mayBeLost: true, claimedAfterLoss: true });
    expect(claimed.refund).toEqual(attempt.refund);
    await ledger.abandon(claimed, 0, 'unsent since a loss');
    const second = await takenOver(attempt.key);
    expect(second).toMatchObject({ epoch: 2, unsent: false, mayBeLost: true, claimedAfterLoss: true });
    await expectGivenBack(payment, second);
  }

  /** `first` is a refund of 1.00. What was given back replaces what was asked for, in the row and in the sum. */
  async function expectGivenBack(payment: Claim, first: Claim): Promise<void> {
    const units = Math.round(Number(payment.amount) * 100);
    const spentUnits = async () => {
      const { leftUnits } = inState(await refunds.claimRefund(refundOf(payment, { units })), 'too much');
      return units - leftUnits;
    };
    const second = await givenRefund(refunds, refundOf(payment, { units: 300 }));
    const third = await givenRefund(refunds, refundOf(payment, { units: 20 }));
    const madeWith = (claimed: Claim, amount: string) => {
      return { ...claimed, amount, fingerprint: fingerprintOf({ amount, currency: claimed.currency }) };
    };
    const end = { outcome: completed(first), idempotencyTtlMs: LONG_MS, note: { sent: false } };
    const larger = madeWith(first, '7.05');
    expect(await ledger.settleAfterLoss({ ...larger, owner: newOwner() }, end)).toEqual({ state: 'fenced off' });
    expect(await spentUnits()).toBe(420);
    inState(await ledger.settleAfterLoss(larger, end), 'settled');
    expect(await ledger.settleAfterLoss(larger, end)).toMatchObject({ state: 'final' });
    expect(await refunds.findRefund(first.key)).toMatchObject({ final: { fingerprint: larger.fingerprint } });
    expect(await spentUnits()).toBe(705 + 320);
    inState(await ledger.settleAfterLoss(madeWith(second, '0.10'), { ...end, outcome: completed(second) }), 'settled');
    expect(await spentUnits()).toBe(705 + 10 + 20);
    inState(await ledger.settleAfterLoss(madeWith(third, '5.00'), { ...end, outcome: DECLINED }), 'settled');
    expect(await spentUnits()).toBe(705 + 10);
    await expectGivenBackAtOnce(payment, spentUnits);
  }

  /** Ends with other amounts and claims of one payment wait for one another, and none of them is lost in the sum. */
  async function expectGivenBackAtOnce(payment: Claim, spentUnits: () => Promise<number>): Promise<void> {
    const before = await spentUnits();
    const refund = (units: number) => givenRefund(refunds, refundOf(payment, { units }));
    const claimed = await Promise.all(Array.from({ length: AT_ONCE }, () => refund(5)));
    const end = { idempotencyTtlMs: LONG_MS, note: { sent: false } };
    await Promise.all(
      claimed.flatMap((each, index) => {
        const amount = `0.0${1 + (index % 9)}`;
        const made = { ...each, amount, fingerprint: fingerprintOf({ amount, currency: each.currency }) };
        return [ledger.settleAfterLoss(made, { ...end, outcome: completed(each) }), refund(2)];
      }),
    );
    const made = claimed.reduce((sum, _, index) => sum + 1 + (index % 9), 0);
    expect(await spentUnits()).toBe(before + made + 2 * AT_ONCE);
  }

  async function expectProcessorOfBefore(): Promise<void> {
    const other = { processor: 'https://other.example?no-user' };
    const refused = { state: 'other processor before loss' };
    const [first, second] = [turn(newReference()), turn(newReference())];
    for (const named of [first, { key: newKeyOf(Date.now() - MINUTE_MS) }, turn(newReference(), 2)]) {
      expect(await claim({ ...named, ...other })).toEqual(refused);
      for (const isLookedUp of [false, true]) expect(await cancel({ ...named, ...other, isLookedUp })).toEqual(refused);
      expect(await ledger.find(named.key)).toEqual({ state: 'absent' });
    }
    const knownAtProcessor = { before: [], reason: 'later', resolution: 'found', idempotencyTtlMs: LONG_MS };
    expect(await claim({ ...turn(newReference()), ...other, knownAtProcessor })).toEqual(refused);
    const moved = { ...other, formerProcessors: ['https://older.example?no-user', 'test'] };
    expect(await claim({ ...first, ...moved })).toMatchObject({ state: 'taken over', claim: other });
    expect(await cancel({ ...second, ...moved, isLookedUp: true })).toEqual({ state: 'cancelled' });
    // Its rows are found by its former name, and by no other one.
    const aged = claim({ key: newKeyOf(Date.now() - MINUTE_MS), leaseMs: 1 });
    const { key } = inState(await aged, 'taken over').claim;
    const takeover = { key, owner: newOwner(), leaseMs: LONG_MS, ...other };
    await until('the lease to end', LONG_MS, async () => (await ledger.find(key)).state === 'abandoned');
    expect(await ledger.takeOver(takeover)).toBeUndefined();
    expect(await ledger.takeOver({ ...takeover, ...moved })).toMatchObject({ key, processor: 'test' });
    await ledger.acceptLostRows();
    expect(await claim({ ...turn(newReference()), ...other })).toMatchObject({ state: 'taken over' });
    expect(await cancel({ ...turn(newReference()), ...other, isLookedUp: true })).toEqual({ state: 'cancelled' });
  }

  await expectLookedUp();
  await expectRefundLookedUp();
  await expectProcessorOfBefore();
  const waiting = turn(newReference(), 1, { waitAfterLossMs: LONG_MS });
  const tooSoon = inState(await claim(waiting), 'too soon');
  expect(tooSoon.remainingMs).toBeGreaterThan(0);
  expect(tooSoon.remainingMs).toBeLessThanOrEqual(LONG_MS + CLOCKS_APART_MS);
  expect(await ledger.find(waiting.key)).toEqual({ state: 'absent' });
  expect(await claim({ ...waiting, claimBy: performance.now() - 1 })).not.toMatchObject({ state: 'taken over' });
  // It is over.
  expect(await claim({ ...waiting, ...turn(waiting.turn.reference.text, 1, { waitAfterLossMs: 1 }) })).toMatchObject({
    state: 'taken over',
  });
  expect(await claim(waiting)).toMatchObject({ state: 'under way' });

  expect(await cancel({ key: plain })).toEqual({ state: 'may be lost' });
  expect(await cancel({ key: plain, isLookedUp: true, waitAfterLossMs: LONG_MS })).toMatchObject({ state: 'too soon' });
  expect(await cancel({ key: plain, isLookedUp: true })).toEqual({ state: 'cancelled' });
  expect(await claim({ key: later })).toMatchObject({ state: 'taken over', claim: { unsent: false } });
  expect(inState(await claim({ key: before }), 'taken over').claim).not.toHaveProperty('mayBeLost');
  const generatedAt = Date.now() - MINUTE_MS;
  const { claim: aged } = inState(await claim({ key: newKeyOf(generatedAt) }), 'taken over');
  expect(aged.ageMs).toBeGreaterThan(MINUTE_MS - CLOCKS_APART_MS);
  expect(aged.claimedAtWallMs ?? generatedAt).toBeLessThanOrEqual(generatedAt);

  const text = newReference();
  expect(await claim(turn(text, 2))).toEqual({ state: 'not its turn', previous: 'absent' });
  const attempt = inState(await claim(turn(text)), 'taken over').claim;
  expect(await cancel(turn(text, 2))).toEqual({ state: 'not its turn', previous: 'under way' });
  inState(await ledger.settle(attempt, DECLINED, LONG_MS), 'settled');
  const second = inState(await claim(turn(text, 2, { waitAfterLossMs: 1 })), 'taken over').claim;
  expect(second).toMatchObject({ mayBeLost: true });
  inState(await ledger.settle(second, completed(second), LONG_MS), 'settled');
  for (const asked of [
    claim(turn(text, 2, { waitAfterLossMs: LONG_MS })),
    cancel({ ...turn(text, 2), waitAfterLossMs: LONG_MS }),
  ]) {
    expect(await asked).toMatchObject({ state: 'final', final: { outcome: { state: 'COMPLETED' } } });
  }

  const found = { outcome: DECLINED, idempotencyTtlMs: LONG_MS, note: { sent: false }, resolution: 'known otherwise' };
  const open = inState(await claim(turn(newReference())), 'taken over').claim;
  for (const stale of [
    { ...open, epoch: 2 },
    { ...open, owner: newOwner() },
  ]) {
    expect(await ledger.settleAfterLoss(stale, found)).toEqual({ state: 'fenced off' });
  }
  const other = { amount: '5000', currency: 'JPY', fingerprint: fingerprintOf({ amount: '5000', currency: 'JPY' }) };
  const settled = inState(await ledger.settleAfterLoss({ ...open, ...other }, found), 'settled').final;
  expect(settled).toMatchObject({ outcome: DECLINED, fingerprint: other.fingerprint });
  expect(await ledger.find(open.key)).toMatchObject({
    state: 'final',
    final: { ...settled, expiresAt: expect.any(Number) },
  });
  expect(await ledger.settleAfterLoss(open, found)).toMatchObject({ state: 'final' });

  const known = (order: string, attempt: number): Pick<ClaimAttempt, 'knownAtProcessor'> => {
    const before = Array.from({ length: attempt - 1 }, (_, index) => {
      return { key: turn(order, index + 1).key, attempt: index + 1, transactionId: newTransactionId() };
    });
    return { knownAtProcessor: { before, reason: 'r', resolution: 'known', idempotencyTtlMs: LONG_MS } };
  };
  const lost = newReference();
  const third = claimAttempt({ ...turn(lost, 3, { waitAfterLossMs: LONG_MS }), ...known(lost, 3) });
  const late = { ...third, owner: newOwner(), claimBy: performance.now() - 1 };
  expect(await ledger.claim(late)).not.toMatchObject({ state: 'taken over' });
  expect(await ledger.find(turn(lost).key)).toEqual({ state: 'absent' });
  expect(inState(await ledger.claim(third), 'taken over').claim).toMatchObject({
    epoch: 1,
    attempt: 3,
    mayBeLost: true,
  });
  for (const attempt of [1, 2]) {
    const before = inState(await ledger.find(turn(lost, attempt).key), 'final').final;
    expect(before).toMatchObject({ outcome: { state: 'DECLINED', reason: 'r' }, fingerprint: UNKNOWN_FINGERPRINT });
  }
  expect(await ledger.claim({ ...third, owner: newOwner() })).toMatchObject({ state: 'under way' });
  const paid = newReference();
  const first = inState(await claim(turn(paid)), 'taken over').claim;
  const refused = [{ previous: 'under way' }, { previous: 'completed' }] as const;
  expect(await claim({ ...turn(paid, 2), ...known(paid, 2) })).toEqual({ state: 'not its turn', ...refused[0] });
  inState(await ledger.settle(first, completed(first), LONG_MS), 'settled');
  expect(await claim({ ...turn(paid, 2), ...known(paid, 2) })).toEqual({ state: 'not its turn', ...refused[1] });
  expect(await claim({ ...turn(paid, 3), ...known(paid, 3) })).toMatchObject({ state: 'not its turn' });
  expect(await ledger.find(turn(paid, 2).key)).toEqual({ state: 'absent' });

  await passHours(ledger, DAYS_OF_LOOK_UPS * 24 - 2);
  await expectLookedUp();
  const marked = inState(await claim(turn(newReference())), 'taken over').claim;
  await ledger.abandon(marked, 0, 'unsent since a loss');
  await passHours(ledger, 3);
  const tooLate = await takenOver(marked.key);
  expect(tooLate).toMatchObject({ epoch: 2, unsent: false });
  expect(tooLate).not.toHaveProperty('mayBeLost');
  const [ordinary, closed] = [turn(newReference(), 1, { waitAfterLossMs: LONG_MS }), turn(newReference())];
  const unseen = await givenRefund(refunds, refundOf(await paidPayment()));
  expect(unseen).toMatchObject({ epoch: 1, unsent: true });
  expect(unseen).not.toHaveProperty('mayBeLost');
  expect([await ledger.mayBeLost(ordinary.key), await ledger.mayBeLost(generated)]).toEqual([false, true]);
  const { claim: claimed } = inState(await claim(ordinary), 'claimed');
  expect(claimed).toMatchObject({ unsent: true });
  expect(claimed).not.toHaveProperty('mayBeLost');
  expect(await cancel({ ...closed, waitAfterLossMs: LONG_MS })).toEqual({ state: 'cancelled' });
  expect(await claim({ key: lateToo })).toMatchObject({ state: 'taken over' });
  // The look-up that found it may have begun before.
  const overdue = newReference();
  const { claim: lastFound } = inState(await claim({ ...turn(overdue, 2), ...known(overdue, 2) }), 'taken over');
  expect(lastFound).toMatchObject({ attempt: 2, mayBeLost: true });
  expect(await ledger.find(turn(overdue).key)).toMatchObject({ state: 'final' });
}
