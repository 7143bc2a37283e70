import { expect, test } from 'vitest';
import type { Selection, SettledPeriod } from '#idempay/payments/ports/payment-history.js';
import type { RefundClaimResult } from '#idempay/payments/ports/refund-ledger.js';
import type { Claim } from '#idempay/payments/values/payment.js';
import {
  completed,
  DECLINED,
  inState,
  LONG_MS,
  newKey,
  newKeyOf,
  newOwner,
  newProcessorName,
  newReference,
  newTransactionIdOf,
  SHORT_MS,
  turnsOf,
} from '../../testkit/protocol/payment-attempts.js';
import { paymentSteps, statesAtOnce } from '../../testkit/protocol/payment-steps.js';
import type { ContractPorts } from '../../testkit/protocol/ports.js';
import { givenRefund, newRefundName, type RefundMembers, refundsWith } from '../../testkit/protocol/refund-attempts.js';
import { HOUR_MS, passHours, removeOld } from '../../testkit/time/retention-time.js';

const CHARGED_UNITS = 10_050;
const RETENTION_HOURS = 24 + 2;
const RETENTION_MS = 24 * HOUR_MS;
const LATE_MS = RETENTION_MS - HOUR_MS;
const ROUNDS = 4;
const ALL = 1_000;
const NOTE = { sent: true, cause: 'no answer' } as const;
/** Transaction ids of tests that look at lists are of a year of its own for each, so that no other test's are among them. */
const FIRST_YEAR = 2052;

/**
 * Guarantees of every RefundLedger beyond its types, of its Ledger on the rows of refunds, and of its PaymentHistory on both kinds (rule
 * P26). Its ports are its own: their time goes on by days. After rows were lost: `ledger-loss-contract.ts`.
 *  1. A claim writes the row, under a lease and with epoch 1, of the payment's client, and raises the payment's sum in the same commit.
 *  2. One row per key: of claims of one name at once one is claimed, and the sum is raised once. The others read the row.
 *  3. The sum is never more than was charged, however many claims come at once; a claim that is refused tells what is left.
 *  4. Only a COMPLETED payment of this amount, currency and processor, or a former name of it, is refunded. What is refused writes nothing.
 *  5. The commit that declines a refund lowers the sum, exactly once. No other end of an execution changes it.
 *  6. A refund is renewed, given up, left pending, taken over, asked about and recovered as a payment is; what tells of it has its part.
 *  7. `find` tells no refund, and `findRefund` no payment and no other client's refund. A final refund never expires.
 *  8. Nothing is claimed after `claimBy`, and nothing of a payment that is as old as `lateMs`, by the time of retention.
 *  9. `refundsOf` tells the refunds of one payment. 10. Lists and counts are of payments if they name no kind.
 * 11. A payment, the attempts at its order and all their refunds are removed together, when the last of them is old enough.
 */
export function refundLedgerContract(ports: ContractPorts): void {
  const { ledger, refunds, paymentHistory: history, clock, pass } = ports;
  const given = paymentSteps(ports);
  const attemptAt = refundsWith(ports.id);
  const turn = turnsOf(ports.id);
  let year = FIRST_YEAR;

  /** A COMPLETED payment of 100.50. */
  async function paid(members?: Parameters<typeof given.claim>[0], ttlMs = LONG_MS): Promise<Claim> {
    const payment = await given.claim(members);
    await given.settled(payment, { ttlMs });
    return payment;
  }
  const claim = (payment: Claim, members?: RefundMembers) => refunds.claimRefund(attemptAt(payment, members));
  const refund = (payment: Claim, members?: RefundMembers) => givenRefund(refunds, attemptAt(payment, members));
  const sumOf = async ({ key }: Pick<Claim, 'key'>) => (await history.find(key))?.refundedUnits;
  const keysOf = (records: readonly { readonly key: string }[]) => records.map(({ key }) => key);
  const decline = (claimed: Claim) => ledger.settle(claimed, DECLINED, LONG_MS);
  const complete = (claimed: Claim) => ledger.settle(claimed, completed(claimed), LONG_MS);

  async function deadRefund(payment: Claim, members: RefundMembers = {}): Promise<Claim> {
    const dead = await refund(payment, { ...members, leaseMs: SHORT_MS });
    await pass(SHORT_MS);
    return dead;
  }

  async function leftPending(claimed: Claim, untilMs = Math.floor(clock.now()) + LONG_MS): Promise<number> {
    const left = { recoverAfterMs: 0, pendingUntilMs: untilMs, processorId: 're_1' };
    expect(await ledger.leave(claimed, left, { sent: true, pendingUntil: untilMs })).toBe(true);
    return untilMs;
  }

  test('1: a claim carries the values of its attempt, epoch 1 and the client of the payment, and raises the sum', async () => {
    const payment = await paid({ client: 'key:shop', processor: newProcessorName() });
    expect(await sumOf(payment)).toBeUndefined();
    const attempt = attemptAt(payment, { units: 250, reason: 'returned — “too small”', chargeId: 'ch_1' });
    const { key, owner, transactionId, fingerprint, amount, currency, processor } = attempt;
    const money = { fingerprint, amount: '2.50', currency, processor, client: 'key:shop' };
    expect({ amount, refund: attempt.refund }).toMatchObject({ amount: '2.50', refund: { payment: payment.key } });
    expect(await refunds.claimRefund(attempt)).toEqual({
      state: 'claimed',
      claim: { key, epoch: 1, owner, transactionId, ...money, refund: attempt.refund, unsent: true, ageMs: 0 },
    });
    expect(await sumOf(payment)).toBe(250);
    expect(await refunds.findRefund(key)).toMatchObject({ state: 'under way', fingerprint });
    expect(await history.find(key)).toMatchObject({
      ...{ key, state: 'PROCESSING', transactionId, amount: '2.50', currency, processor, executions: 1 },
      ...{ client: 'key:shop', refund: attempt.refund, reference: undefined, attempt: undefined },
    });
    expect((await history.find(key))?.refundedUnits).toBeUndefined();
    expect(await history.find(payment.key)).toMatchObject({ state: 'COMPLETED', refund: undefined });
    await refund(payment, { units: 50 });
    expect(await sumOf(payment)).toBe(300);
  });

  test('1: a refund may be of a payment with a reference, in a currency without decimals, and without reason or id', async () => {
    const payment = await paid({ ...turn(newReference()), amount: '5000', currency: 'JPY' });
    const whole = { charged: { amount: '5000', currency: 'JPY' }, chargedUnits: 5_000, units: 5_000, amount: '5000' };
    const claimed = await refund(payment, whole);
    expect(claimed).toMatchObject({ amount: '5000', currency: 'JPY', client: undefined });
    expect(claimed.reference).toBeUndefined();
    expect(claimed.refund).toEqual({ payment: payment.key, name: claimed.refund?.name });
    expect(await sumOf(payment)).toBe(5_000);
  });

  test('1: the largest amounts are exact', async () => {
    const largest = { amount: '9999999999999.99', units: 1, chargedUnits: 999_999_999_999_999 };
    const payment = await paid({ amount: largest.amount });
    await refund(payment, { ...largest, amount: '9999999999999.98', units: 999_999_999_999_998 });
    expect(await sumOf(payment)).toBe(999_999_999_999_998);
    expect(await claim(payment, { ...largest, amount: '0.02', units: 2 })).toEqual({ state: 'too much', leftUnits: 1 });
    await refund(payment, { ...largest, amount: '0.01' });
    expect(await sumOf(payment)).toBe(999_999_999_999_999);
  });

  test('2: of forty claims of one name at once exactly one is claimed, and the sum is raised once', async () => {
    const [payment, name] = [await paid(), newRefundName()];
    const states = await statesAtOnce(40, () => claim(payment, { name }));
    expect(states).toEqual({ claimed: 1, 'under way': 39 });
    expect(await sumOf(payment)).toBe(100);
  });

  test('2: names of two payments, and two names of one, are refunds of their own', async () => {
    const [one, other, name] = [await paid(), await paid(), newRefundName()];
    const keys = keysOf([await refund(one, { name }), await refund(other, { name }), await refund(one)]);
    expect(new Set(keys).size).toBe(3);
    expect([await sumOf(one), await sumOf(other)]).toEqual([200, 100]);
  });

  test('2: a later claim of the name reads what became of the first one, also of another amount, and writes nothing', async () => {
    const payment = await paid({ processor: newProcessorName() });
    const again = (name: string) => claim(payment, { name, units: 700 });
    const alive = await refund(payment);
    const { remainingMs } = inState(await again(alive.refund?.name ?? ''), 'under way');
    expect(remainingMs).toBeGreaterThan(0);
    const dead = await deadRefund(payment);
    expect(await again(dead.refund?.name ?? '')).toEqual({ state: 'abandoned' });
    const pending = await refund(payment);
    const untilMs = await leftPending(pending);
    expect(inState(await again(pending.refund?.name ?? ''), 'pending').payment).toMatchObject({
      ...{ key: pending.key, refund: pending.refund, amount: '1.00', untilMs, processorId: 're_1', remainingMs: 0 },
    });
    const [done, refused] = [await refund(payment), await refund(payment)];
    inState(await complete(done), 'settled');
    inState(await decline(refused), 'settled');
    expect(await again(done.refund?.name ?? '')).toMatchObject({
      ...{ state: 'final', final: { outcome: completed(done), fingerprint: '1.00 USD' } },
    });
    expect(await again(refused.refund?.name ?? '')).toMatchObject({ state: 'final', final: { outcome: DECLINED } });
    expect(await sumOf(payment)).toBe(400);
    expect(await history.refundsOf(payment.key)).toHaveLength(5);
  });

  test('2: a name that was claimed answers also if nothing of the payment is left, and if it is too old by now', async () => {
    const payment = await paid();
    const first = await refund(payment, { units: CHARGED_UNITS });
    const { name } = first.refund as { name: string };
    expect(await claim(payment, { name, units: CHARGED_UNITS })).toMatchObject({ state: 'under way' });
    inState(await complete(first), 'settled');
    for (const lateMs of [undefined, 0]) {
      expect(await claim(payment, { name, units: CHARGED_UNITS, lateMs })).toMatchObject({ state: 'final' });
    }
  });

  test('3: fifty claims at once never exceed what was charged, and a refusal tells what is left', async () => {
    const payment = await paid();
    const results: RefundClaimResult[] = await Promise.all(
      Array.from({ length: 50 }, () => claim(payment, { units: 600 })),
    );
    expect(results.filter(({ state }) => state === 'claimed')).toHaveLength(16);
    expect(results.filter(({ state }) => state === 'too much')).toHaveLength(34);
    for (const result of results) {
      if (result.state === 'too much') expect(result.leftUnits).toBe(CHARGED_UNITS - 16 * 600);
    }
    expect(await sumOf(payment)).toBe(9_600);
    expect(await history.refundsOf(payment.key)).toHaveLength(16);
    expect(await claim(payment, { units: 451 })).toEqual({ state: 'too much', leftUnits: 450 });
    await refund(payment, { units: 450 });
    expect(await claim(payment, { units: 1 })).toEqual({ state: 'too much', leftUnits: 0 });
    expect(await claim(await paid(), { units: CHARGED_UNITS + 1 })).toEqual({
      state: 'too much',
      leftUnits: CHARGED_UNITS,
    });
  });

  test('3, 5: claims, repeats and ends of many refunds at once leave the sum of those that are not declined', async () => {
    const payments = [await paid(), await paid()];
    const names = Array.from({ length: 12 }, newRefundName);
    const runs = payments.flatMap((payment) =>
      names.map(async (name, n) => {
        const members = { name, units: 500 + n };
        const first = await claim(payment, members);
        if (first.state !== 'claimed') return;
        const end = n % 3 === 0 ? complete : decline;
        await Promise.all([
          end(first.claim),
          ...Array.from({ length: 3 }, () => claim(payment, members)),
          ledger.renew(first.claim, LONG_MS),
          decline(first.claim),
          given.settledKey(newKey()),
        ]);
      }),
    );
    await Promise.all(runs);
    for (const payment of payments) {
      const rows = await history.refundsOf(payment.key);
      expect(rows.every(({ state }) => state !== 'PROCESSING')).toBe(true);
      const kept = rows
        .filter(({ state }) => state === 'COMPLETED')
        .map(({ amount }) => Math.round(Number(amount) * 100));
      expect(await sumOf(payment)).toBe(kept.reduce((sum, units) => sum + units, 0));
    }
  });

  test('4: what is not such a payment is not refundable, and nothing is written', async () => {
    const [payment, declined, open] = [await paid(), await given.claim(), await given.claim()];
    await given.settled(declined, { outcome: DECLINED });
    const pending = await given.pending({ processor: newProcessorName() });
    const closed = await given.cancelled();
    const other = await refund(payment);
    inState(await complete(other), 'settled');
    const cases: [what: string, payment: Claim, members?: RefundMembers][] = [
      ['declined', declined],
      ['under way', open],
      ['pending', pending],
      ['cancelled', { ...payment, key: closed.key }],
      ['without a row', { ...payment, key: newKey() }],
      ['of another amount', payment, { charged: { amount: '100.51', currency: 'USD' }, chargedUnits: 10_051 }],
      ['of another currency', { ...payment, currency: 'EUR' }],
      ['of another processor', payment, { processor: newProcessorName() }],
      ['of another former processor', payment, { processor: newProcessorName(), formerProcessors: ['tes', 'Test'] }],
      ['a refund', { ...other }, { charged: { amount: other.amount, currency: other.currency }, chargedUnits: 100 }],
    ];
    for (const [what, of, members] of cases) {
      const attempt = attemptAt(of, members);
      expect(await refunds.claimRefund(attempt), what).toEqual({ state: 'not refundable' });
      expect(await refunds.findRefund(attempt.key), what).toEqual({ state: 'absent' });
      expect(await history.refundsOf(of.key), what).toHaveLength(of.key === payment.key ? 1 : 0);
    }
    for (const { key } of [declined, open, pending, closed, other]) expect(await sumOf({ key })).toBeUndefined();
    expect(await sumOf(payment)).toBe(100);
  });

  test('4: a payment of a former name is refunded, and the refund is of the present one', async () => {
    const [former, processor] = [newProcessorName(), newProcessorName()];
    const payment = await paid({ processor: former });
    const claimed = await refund(payment, { processor, formerProcessors: [newProcessorName(), former] });
    expect(claimed).toMatchObject({ processor, refund: { payment: payment.key } });
    expect(await history.find(claimed.key)).toMatchObject({ processor });
    expect(await history.find(payment.key)).toMatchObject({ processor: former, refundedUnits: 100 });
  });

  test('5: a decline lowers the sum once, whoever settles it again, and what it gave free is refunded', async () => {
    const payment = await paid();
    const [whole, later] = [await refund(payment, { units: CHARGED_UNITS }), newRefundName()];
    expect(await claim(payment, { name: later })).toEqual({ state: 'too much', leftUnits: 0 });
    expect(inState(await decline(whole), 'settled').final).toMatchObject({
      ...{ outcome: DECLINED, fingerprint: '100.50 USD', client: undefined },
    });
    expect(await sumOf(payment)).toBe(0);
    await refund(payment, { name: later, units: 70 });
    const stale = { ...whole, epoch: 2 };
    for (const late of [whole, stale, { ...whole, owner: newOwner() }]) {
      expect(await decline(late)).toMatchObject({ state: 'final', final: { outcome: DECLINED } });
      expect(await complete(late)).toMatchObject({ state: 'final', final: { outcome: DECLINED } });
      expect(await sumOf(payment)).toBe(70);
    }
    expect(await history.find(whole.key)).toMatchObject({ state: 'DECLINED', reason: DECLINED.reason, executions: 1 });
  });

  test('5: of ten declines at once one lowers the sum', async () => {
    const payment = await paid();
    const [first] = [await refund(payment, { units: 300 }), await refund(payment, { units: 40 })];
    const states = await statesAtOnce(10, () => decline(first));
    expect(states.settled).toBe(1);
    expect(await sumOf(payment)).toBe(40);
  });

  test('5: a fenced-off execution neither ends a refund nor lowers the sum', async () => {
    const payment = await paid();
    const first = await deadRefund(payment);
    const second = await given.takeover(first);
    for (const late of [first, { ...second, owner: newOwner() }, { ...second, epoch: 3 }]) {
      expect(await decline(late)).toEqual({ state: 'fenced off' });
      expect(await sumOf(payment)).toBe(100);
    }
    inState(await ledger.settle(second, DECLINED, LONG_MS, { lookedUp: 'found', sent: false }), 'settled');
    expect(await sumOf(payment)).toBe(0);
    const life = await history.findLife(first.key);
    expect(life?.payment).toMatchObject({ state: 'DECLINED', executions: 2, refund: first.refund });
    expect(life?.events).toMatchObject([
      { kind: 'taken over', execution: 2, from: first.owner },
      { kind: 'settled', execution: 2, lookedUp: 'found', owner: second.owner },
    ]);
  });

  test('5: a success and an execution that was given up keep the sum; the processor names the refund', async () => {
    const payment = await paid();
    const [done, open] = [await refund(payment, { units: 10 }), await refund(payment, { units: 20 })];
    inState(await complete({ ...done, processorId: 're_2' }), 'settled');
    expect(await ledger.abandon(open, 0, undefined, NOTE)).toBe(true);
    expect(await history.find(done.key)).toMatchObject({
      state: 'COMPLETED',
      processorId: 're_2',
      refund: done.refund,
    });
    expect(await sumOf(payment)).toBe(30);
    // The operator's verdict of the second, once.
    const verdict = () => given.resolve(open.key, DECLINED);
    const [first, again] = [await verdict(), await verdict()];
    expect(inState(first, 'resolved').final).toMatchObject({ outcome: DECLINED, fingerprint: '0.20 USD' });
    expect(again).toEqual({ state: 'settled before' });
    expect(await sumOf(payment)).toBe(10);
    expect(await history.find(open.key)).toMatchObject({ ...DECLINED, resolution: DECLINED.reason, executions: 1 });
  });

  test('5: an operator completes a refund without lowering the sum, and of many verdicts at once one counts', async () => {
    const payment = await paid();
    const [kept, lowered] = [await deadRefund(payment, { units: 5 }), await deadRefund(payment, { units: 7 })];
    expect(await given.resolve(kept.key)).toMatchObject({ state: 'resolved', final: { outcome: completed(kept) } });
    expect(await sumOf(payment)).toBe(12);
    const states = await statesAtOnce(8, () => given.resolve(lowered.key, DECLINED));
    expect(states).toEqual({ resolved: 1, 'settled before': 7 });
    expect(await sumOf(payment)).toBe(5);
    expect(await decline(lowered)).toMatchObject({ state: 'final' });
    expect(await sumOf(payment)).toBe(5);
  });

  test('5: an operator resolves no refund too early, or under a lease, and the sum stays', async () => {
    const payment = await paid({ processor: newProcessorName() });
    const [alive, dead, pending] = [await refund(payment), await deadRefund(payment), await refund(payment)];
    await leftPending(pending);
    expect(await given.resolve(alive.key, DECLINED)).toMatchObject({ state: 'under way' });
    expect(await given.resolve(dead.key, { ...DECLINED, dedupMs: LONG_MS })).toMatchObject({ state: 'too early' });
    expect(await given.resolve(pending.key, DECLINED)).toMatchObject({ state: 'too early' });
    expect(await sumOf(payment)).toBe(300);
  });

  test('6: a refund that was given up as unsent is taken over as unsent, with its part and all of its values', async () => {
    const payment = await paid({ client: 'key:shop' });
    const first = await refund(payment, { units: 123, reason: 'late', chargeId: 'ch_7' });
    expect(await ledger.renew(first, LONG_MS)).toBe(true);
    expect(await ledger.takeOver({ ...first, owner: newOwner(), leaseMs: LONG_MS })).toBeUndefined();
    expect(await ledger.abandon(first, 0, 'unsent', { sent: false, cause: 'no place' })).toBe(true);
    expect(await refunds.findRefund(first.key)).toEqual({ state: 'abandoned' });
    const second = await given.takeover(first);
    const { owner, ageMs, ...rest } = first;
    expect(second).toMatchObject({ ...rest, epoch: 2, unsent: true, client: 'key:shop', refund: first.refund });
    expect(await ledger.renew(first, LONG_MS)).toBe(false);
    await ledger.abandon(second, 0, undefined, NOTE);
    expect(await given.takeover(first)).toMatchObject({ epoch: 3, unsent: false, refund: first.refund });
    expect(await sumOf(payment)).toBe(123);
  });

  test('6: recovery takes over abandoned refunds of its processor alongside payments', async () => {
    const processor = newProcessorName();
    const payment = await paid({ processor });
    const [left, open] = [await refund(payment), await given.abandoned({ processor })];
    await ledger.abandon(left, 0, undefined, NOTE);
    const due = { owner: newOwner(), leaseMs: LONG_MS, processor, first: 'longest due', limit: 10 } as const;
    const taken = await ledger.takeOverDue(due);
    expect(keysOf(taken).sort()).toEqual(keysOf([left, open]).sort());
    expect(taken.find(({ key }) => key === left.key)).toMatchObject({ epoch: 2, refund: left.refund, amount: '1.00' });
    expect(taken.find(({ key }) => key === open.key)?.refund).toBeUndefined();
    expect((await ledger.takeOverDue({ ...due, owner: newOwner() })).length).toBe(0);
  });

  test('6: a pending refund is told so, asked about, taken over by its outcome, and settled', async () => {
    const processor = newProcessorName();
    const payment = await paid({ processor, client: 'key:shop' });
    const first = await refund(payment, { reason: 'late', chargeId: 'ch_7' });
    const untilMs = await leftPending(first);
    const members = {
      ...{ key: first.key, transactionId: first.transactionId, fingerprint: '1.00 USD', amount: '1.00' },
      ...{ currency: 'USD', client: 'key:shop', processor, processorId: 're_1', untilMs, remainingMs: 0 },
      refund: first.refund,
    };
    expect(await refunds.findRefund(first.key, 'key:shop')).toEqual({ state: 'pending', payment: members });
    expect(await ledger.duePending({ processor, limit: 10 })).toEqual([members]);
    expect(await ledger.duePending({ processor, limit: 10 })).toEqual([]);
    await ledger.movePending(first.key, untilMs + 1);
    expect(await history.find(first.key)).toMatchObject({ pendingUntil: untilMs + 1, refund: first.refund });
    expect(await ledger.takeOver({ ...first, owner: newOwner(), leaseMs: LONG_MS })).toBeUndefined();
    const second = await given.takeover(first, { isPending: true });
    expect(second).toMatchObject({
      epoch: 2,
      isPending: true,
      processorId: 're_1',
      refund: first.refund,
      unsent: false,
    });
    inState(await decline(second), 'settled');
    expect(await sumOf(payment)).toBe(0);
    expect(await refunds.findRefund(first.key)).toMatchObject({ state: 'final', final: { outcome: DECLINED } });
  });

  test('7: a refund is absent to find, a payment to findRefund, and both to another client', async () => {
    const payment = await paid({ client: 'key:shop' });
    const { key } = await refund(payment);
    expect(await ledger.find(key)).toEqual({ state: 'absent' });
    expect(await ledger.find(key, 'key:shop')).toEqual({ state: 'absent' });
    expect(await refunds.findRefund(payment.key)).toEqual({ state: 'absent' });
    expect(await refunds.findRefund(payment.key, 'key:shop')).toEqual({ state: 'absent' });
    expect(await refunds.findRefund(key, 'key:other')).toEqual({ state: 'absent' });
    expect(await refunds.findRefund(newKey())).toEqual({ state: 'absent' });
    for (const client of [undefined, 'key:shop']) {
      expect(await refunds.findRefund(key, client)).toMatchObject({ state: 'under way' });
      expect(await ledger.find(payment.key, client)).toMatchObject({ state: 'final' });
    }
  });

  test('7: a final refund never expires, and its payment is refunded although its key has expired', async () => {
    const payment = await paid({}, 1);
    await pass(1);
    expect(await ledger.find(payment.key)).toEqual({ state: 'expired' });
    const first = await refund(payment);
    inState(await ledger.settle(first, completed(first), 1), 'settled');
    const second = await deadRefund(payment);
    inState(await given.resolve(second.key, { ...DECLINED, idempotencyTtlMs: 1 }), 'resolved');
    await pass(1);
    const final = inState(await refunds.findRefund(first.key), 'final').final;
    expect(final).toMatchObject({ outcome: completed(first), fingerprint: first.fingerprint });
    expect(await claim(payment, { name: second.refund?.name ?? '' })).toMatchObject({ state: 'final' });
  });

  test('8: a claim after its last moment writes nothing', async () => {
    const payment = await paid();
    const attempt = attemptAt(payment, { claimBy: clock.monotonic() - 1 });
    expect(await refunds.claimRefund(attempt)).toEqual({ state: 'too late' });
    expect(await refunds.findRefund(attempt.key)).toEqual({ state: 'absent' });
    expect(await sumOf(payment)).toBeUndefined();
    expect(await refunds.claimRefund({ ...attempt, claimBy: performance.now() + LONG_MS })).toMatchObject({
      state: 'claimed',
    });
  });

  test('9: refunds of a payment are told oldest first, each as find tells it, and of no other payment', async () => {
    const [payment, other] = [await paid(), await paid()];
    const since = Date.UTC(2051, 5);
    const claimed = [];
    for (const n of [2, 0, 1]) claimed.push(await refund(payment, { transactionId: newTransactionIdOf(since + n) }));
    await refund(other);
    const [third, first, second] = claimed as [Claim, Claim, Claim];
    inState(await complete(first), 'settled');
    inState(await decline(third), 'settled');
    const told = await history.refundsOf(payment.key);
    expect(keysOf(told)).toEqual(keysOf([first, second, third]));
    expect(told.map(({ state }) => state)).toEqual(['COMPLETED', 'PROCESSING', 'DECLINED']);
    for (const each of told) expect(each).toEqual(await history.find(each.key));
    expect(await history.refundsOf(newKey())).toEqual([]);
    expect(await history.refundsOf(first.key)).toEqual([]);
  });

  /** Seven payments, and one refund of each with an id next to it: two completed, two declined, one pending and two under way. */
  async function givenBothKinds() {
    year += 1;
    const [since, client, processor] = [Date.UTC(year, 5), `key:${newRefundName()}`, newProcessorName()];
    const payments: Claim[] = [];
    const claims: Claim[] = [];
    for (let n = 0; n < 7; n += 1) {
      const key = newKeyOf(since + n);
      const payment = await paid({ key, client, processor, transactionId: newTransactionIdOf(since + 2 * n) });
      await pass(1);
      const claimed = await refund(payment, { transactionId: newTransactionIdOf(since + 2 * n + 1) });
      if (n < 2) await complete(claimed);
      else if (n < 4) await decline(claimed);
      else if (n === 4) await leftPending(claimed);
      await pass(1);
      payments.push(payment);
      claims.push(claimed);
    }
    return { since, to: since + 14, client, processor, payments, claimed: claims };
  }

  /** The keys of all pages of these lists. */
  async function listed(selection: Partial<Selection>, limit: number, readLimit: number): Promise<string[]> {
    const keys: string[] = [];
    const everything = { state: undefined, claimedFrom: undefined, claimedTo: undefined };
    let before: string | undefined;
    do {
      const page = await history.newest({ ...everything, ...selection, before, limit }, readLimit);
      keys.push(...keysOf(page.payments));
      before = page.next;
    } while (before !== undefined);
    return keys;
  }
  const newestFirst = (claims: readonly Claim[]) =>
    keysOf(claims.toSorted((a, b) => (a.transactionId < b.transactionId ? 1 : -1)));

  test.each([
    [1, 2],
    [3, 5],
    [3, ALL],
    [ALL, ALL],
  ])(
    '10: newest selects payments if no kind is named, and refunds or both if that is named, in pages of %i of %i',
    async (limit, readLimit) => {
      const { since, to, client, processor, payments, claimed } = await givenBothKinds();
      const both = [...payments, ...claimed];
      const cases: [selection: Partial<Selection>, expected: readonly Claim[]][] = [
        [{}, payments],
        [{ kind: 'payment' }, payments],
        [{ state: 'COMPLETED' }, payments],
        [{ state: 'DECLINED' }, []],
        [{ state: 'PROCESSING' }, []],
        [{ isPending: true }, []],
        [{ kind: 'refund' }, claimed],
        [{ kind: 'refund', state: 'COMPLETED' }, claimed.slice(0, 2)],
        [{ kind: 'refund', state: 'DECLINED' }, claimed.slice(2, 4)],
        [{ kind: 'refund', state: 'PROCESSING' }, claimed.slice(4, 7)],
        [{ kind: 'refund', isPending: true }, claimed.slice(4, 5)],
        [{ kind: 'all' }, both],
        [{ kind: 'all', state: 'COMPLETED' }, [...payments, ...claimed.slice(0, 2)]],
        [{ kind: 'all', state: 'PROCESSING' }, claimed.slice(4, 7)],
      ];
      for (const filter of [{}, { client }, { processor }]) {
        for (const [selection, expected] of cases) {
          const all = { claimedFrom: since, claimedTo: to, ...filter, ...selection };
          expect(await listed(all, limit, readLimit), JSON.stringify(all)).toEqual(newestFirst(expected));
        }
      }
    },
  );

  test('10: keys of refunds are found by how they begin if their kind is named, and are told as find tells them', async () => {
    const { claimed } = await givenBothKinds();
    const [{ key }] = claimed as [Claim];
    const find = { keyDigits: key.replaceAll('-', '').slice(0, 20) };
    expect(await listed({ find }, ALL, ALL)).toEqual([]);
    expect(await listed({ find, kind: 'all' }, ALL, ALL)).toEqual([key]);
    const everything = { state: undefined, claimedFrom: undefined, claimedTo: undefined, before: undefined, limit: 1 };
    const page = await history.newest({ ...everything, find, kind: 'refund' }, ALL);
    expect(page.payments).toEqual([await history.find(key)]);
  });

  test('10: refunds are found by the reference of their payment if their kind is named, of each client or of one, in pages', async () => {
    year += 1;
    const [reference, since] = [newReference(), Date.UTC(year, 5)];
    const idAt = (n: number) => newTransactionIdOf(since + n);
    const payments: Claim[] = [];
    for (const [at, client] of ['key:shop', 'key:rival'].entries())
      payments.push(await paid({ ...turn(reference, 1, { client }), transactionId: idAt(at) }));
    const [own, rivals] = payments as [Claim, Claim];
    const claimed: Claim[] = [];
    for (const n of [2, 3, 4]) claimed.push(await refund(own, { transactionId: idAt(n) }));
    const ofRival = await refund(rivals, { transactionId: idAt(5) });
    await refund(await paid({ ...turn(newReference()), transactionId: idAt(6) }), { transactionId: idAt(7) });
    inState(await decline(claimed[1] as Claim), 'settled');
    const newestFirst = (claims: readonly Claim[]) => keysOf([...claims].reverse());
    for (const limit of [1, 2, 3, 10]) {
      for (const readLimit of [1, 2, ALL]) {
        const found = (selection: Partial<Selection>) => listed({ reference, ...selection }, limit, readLimit);
        expect(await found({})).toEqual(newestFirst(payments));
        expect(await found({ kind: 'refund' })).toEqual(newestFirst([...claimed, ofRival]));
        expect(await found({ kind: 'all' })).toEqual(newestFirst([...payments, ...claimed, ofRival]));
        expect(await found({ kind: 'all', client: 'key:shop' })).toEqual(newestFirst([own, ...claimed]));
        expect(await found({ kind: 'refund', client: 'key:rival' })).toEqual([ofRival.key]);
        expect(await found({ kind: 'refund', state: 'DECLINED' })).toEqual(keysOf(claimed.slice(1, 2)));
        expect(await found({ kind: 'all', claimedFrom: since + 1, claimedTo: since + 4 })).toEqual(
          newestFirst([rivals, ...claimed.slice(0, 2)]),
        );
        expect(await found({ kind: 'all', client: 'key:sho' })).toEqual([]);
      }
    }
  });

  /** The keys of all pages of what was settled, and all counts. */
  async function settledIn(period: Pick<SettledPeriod, 'from' | 'to' | 'kind'>, limit: number) {
    const keys: string[] = [];
    const [counts, pages] = [
      { completed: 0, declined: 0 },
      { ...period, limit },
    ];
    let after: string | undefined;
    do {
      const page = await history.settled({ ...pages, after });
      expect(page.payments.length).toBeLessThanOrEqual(limit);
      keys.push(...keysOf(page.payments));
      after = page.next;
    } while (after !== undefined);
    do {
      const page = await history.countSettled({ ...pages, after });
      counts.completed += page.completed;
      counts.declined += page.declined;
      after = page.next;
    } while (after !== undefined);
    return { keys, ...counts };
  }

  test('10: settled and countSettled tell payments if no kind is named, and count what they tell', async () => {
    await pass(1);
    const from = Math.floor(clock.now());
    const { payments, claimed } = await givenBothKinds();
    const to = Math.floor(clock.now()) + LONG_MS;
    const [ofPayments, ofRefunds] = [keysOf(payments), keysOf(claimed.slice(0, 4))];
    const inOrder = ofPayments.flatMap((key, n) => [key, ...ofRefunds.slice(n, n + 1)]);
    const cases = [
      [undefined, { keys: ofPayments, completed: 7, declined: 0 }],
      ['payment', { keys: ofPayments, completed: 7, declined: 0 }],
      ['refund', { keys: ofRefunds, completed: 2, declined: 2 }],
      ['all', { keys: inOrder, completed: 9, declined: 2 }],
    ] as const;
    for (const [kind, expected] of cases) {
      for (const limit of [1, 2, 3, 4, ALL]) {
        expect(await settledIn({ from, to, kind }, limit), `${kind} ${limit}`).toEqual(expected);
      }
    }
  });

  test('10: refunds are not counted among what was paid', async () => {
    const processor = newProcessorName();
    const payment = await paid({ processor, transactionId: newTransactionIdOf(Date.UTC(2001, 1)) });
    const claimed = await refund(payment, { transactionId: newTransactionIdOf(Date.UTC(2001, 1) + 1) });
    inState(await complete(claimed), 'settled');
    expect((await history.countPaid()).byProcessor.get(processor)).toBe(1);
  });

  /** In some rounds: a store may have to be sure that all its processes know how far the first one may go. */
  async function removed(): Promise<number> {
    let rows = 0;
    for (let round = 0; round < ROUNDS; round += 1) {
      await ports.endClaims();
      rows += await removeOld(ledger, RETENTION_MS);
    }
    return rows;
  }
  async function keptOf(claims: readonly Pick<Claim, 'key'>[]): Promise<string[]> {
    const found = await Promise.all(claims.map(({ key }) => history.find(key)));
    return found.flatMap((record) => record?.key ?? []);
  }

  test('8: nothing is refunded of a payment that will be removed within an hour; without a retention, also later', async () => {
    const [young, old] = [await paid(), await paid()];
    await passHours(ledger, 2);
    await refund(young, { lateMs: LATE_MS });
    await passHours(ledger, RETENTION_HOURS);
    const attempt = attemptAt(old, { lateMs: LATE_MS });
    expect(await refunds.claimRefund(attempt)).toEqual({ state: 'too old' });
    expect(await refunds.findRefund(attempt.key)).toEqual({ state: 'absent' });
    expect(await sumOf(old)).toBeUndefined();
    expect(await refunds.claimRefund({ ...attempt, lateMs: undefined })).toMatchObject({ state: 'claimed' });
  });

  test('11: a payment and its refunds are removed together, when the last refund is old enough', async () => {
    const payment = await paid({}, 1);
    const whole = [payment];
    for (const end of [complete, decline]) {
      const claimed = await refund(payment);
      await end(claimed);
      whole.push(claimed);
    }
    await passHours(ledger, 20);
    const last = await refund(payment);
    whole.push(last);
    await passHours(ledger, RETENTION_HOURS);
    await removed();
    // One of them is under way.
    expect(await keptOf(whole)).toEqual(keysOf(whole));
    inState(await ledger.settle(last, completed(last), 1), 'settled');
    await pass(1);
    await passHours(ledger, RETENTION_HOURS - 3);
    await removed();
    expect(await keptOf(whole)).toEqual(keysOf(whole));
    // The first two are repeated for longer than any of this takes.
    await passHours(ledger, RETENTION_HOURS);
    await removed();
    expect(await keptOf(whole)).toEqual(keysOf(whole));
  });

  test('11: removed refunds and payments are counted, and neither is claimed again', async () => {
    await removed();
    const payment = await paid({}, 1);
    const claims = [await refund(payment, { units: 11 }), await refund(payment, { units: 12 })];
    for (const claimed of claims) inState(await ledger.settle(claimed, completed(claimed), 1), 'settled');
    const lone = await paid({}, 1);
    await pass(1);
    await passHours(ledger, RETENTION_HOURS - 3);
    expect(await removed()).toBe(0);
    await passHours(ledger, 3);
    expect(await removed()).toBe(4);
    expect(await keptOf([payment, ...claims, lone])).toEqual([]);
    expect(await history.refundsOf(payment.key)).toEqual([]);
    for (const claimed of claims) {
      expect(await refunds.findRefund(claimed.key)).toEqual({ state: 'absent' });
      expect(await claim(payment, { name: claimed.refund?.name ?? '' })).toEqual({ state: 'not refundable' });
    }
  });

  test('11: attempts at an order are removed with the refunds of the one that was paid, when these may go', async () => {
    const text = newReference();
    const declined = await given.declined(turn(text, 1), 1);
    const payment = await paid(turn(text, 2), 1);
    const claimed = await refund(payment);
    await pass(1);
    await passHours(ledger, RETENTION_HOURS);
    await removed();
    const order = [declined, payment, claimed];
    expect(await keptOf(order)).toEqual(keysOf(order));
    inState(await ledger.settle(claimed, DECLINED, 1), 'settled');
    await pass(1);
    await passHours(ledger, RETENTION_HOURS - 3);
    await removed();
    expect(await keptOf(order)).toEqual(keysOf(order));
    await passHours(ledger, 3);
    expect(await removed()).toBe(3);
    expect(await keptOf(order)).toEqual([]);
    // Its keys have no time: it is new.
    expect(await given.claim(turn(text))).toMatchObject({ epoch: 1, attempt: 1 });
  });
}
