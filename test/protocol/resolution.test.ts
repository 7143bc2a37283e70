import { describe, expect, test } from 'vitest';
import { decorated } from '#idempay/platform/decorated.js';
import { cancellation, claimAttempt, inState, SHORT_MS } from '../../testkit/protocol/payment-attempts.js';
import {
  compose as composeOver,
  DOWN,
  MONEY,
  OTHER_MONEY,
  shareProtocol,
} from '../../testkit/protocol/payment-composition.js';
import { untilPast } from '../../testkit/time/until.js';

const VERDICT = { state: 'DECLINED', reason: 'not on the statement' } as const;
const AWAY_THERE = { state: 'unknown', cause: 'the processor is down' } as const;
const SUCCEEDED = { state: 'succeeded' } as const;
const REPEAT_SOON = { state: 'in progress', retryAfterSeconds: 1 };
const HOUR_MS = 3_600_000;
const FOUND = { state: 'final', payment: { state: 'COMPLETED' } };

const { compose, composeWithKey, ports, ...given } = await shareProtocol();

/** A payment whose charge had this end, and is never sent again. */
async function givenUnknown(outcome: 'succeeded' | 'pending' | 'none' | 'not sent' = 'none') {
  const process = await composeWithKey({ dedupMs: SHORT_MS });
  process.processor.plan({ outcome, answerLost: true });
  inState(await process.payments.pay({ key: process.key }, MONEY), outcome === 'not sent' ? 'not sent' : 'unknown');
  process.unknown.length = 0;
  await untilPast(SHORT_MS);
  return process;
}

describe('the processor is asked before an operator resolves a payment', () => {
  test('and its outcome overrides the verdict; the processor of another service is not asked', async () => {
    const { key, payments, records } = await givenUnknown('succeeded');
    const elsewhere = compose();
    await elsewhere.records.resolve(key, VERDICT);
    expect(elsewhere.processor.lookUps).toEqual([]);
    expect(await records.resolve(key, VERDICT)).toMatchObject(FOUND);
    const replayed = { state: 'replayed', final: { outcome: { state: 'COMPLETED' } } };
    expect(await payments.pay({ key }, MONEY)).toMatchObject(replayed);
  });

  test('and where it knows nothing, the verdict is final; it is asked once, and sent nothing any more', async () => {
    const { key, payments, records, processor, counts } = await givenUnknown();
    const resolved = { state: 'resolved', payment: { state: 'DECLINED', resolution: VERDICT.reason } };
    for (let time = 0; time < 2; time += 1) expect(await records.resolve(key, VERDICT)).toMatchObject(resolved);
    expect(await records.resolve(key, { ...VERDICT, state: 'COMPLETED' })).toMatchObject({ state: 'final' });
    const replayed = { state: 'replayed', final: { outcome: { state: 'DECLINED' } } };
    expect(await payments.pay({ key }, MONEY)).toMatchObject(replayed);
    expect([processor.lookUps, processor.charges]).toEqual([[key], []]);
    expect(counts.settled.operator, 'counted once, however often it is given').toBe(1);
  });

  test('and where it does not answer, the row is left to the verdict', async () => {
    const { key, records, processor, owners } = await givenUnknown();
    processor.planLookUp(AWAY_THERE);
    const before = owners.length;
    expect(await records.resolve(key, VERDICT)).toMatchObject({ state: 'resolved' });
    expect([processor.lookUps, owners.length - before]).toEqual([[key], 1]);
  });

  /**
   * Bug: the verdict "declined" was written although the processor had just answered "succeeded". Cause: the execution that took the payment
   * over asks again, and if it got no answer, the verdict was written as if the first answer had never come. Fix: the operator repeats it.
   */
  test.each(['none', 'not sent'] as const)(
    'and no verdict is written, and it is logged as unknown, when it answers once and not again (%s)',
    async (outcome) => {
      const { key, records, processor, unknown } = await givenUnknown(outcome);
      processor.planLookUp(SUCCEEDED, AWAY_THERE);
      expect(await records.resolve(key, VERDICT)).toEqual(REPEAT_SOON);
      expect(await ports.paymentHistory.find(key)).toMatchObject({ state: 'PROCESSING' });
      expect(unknown).toMatchObject([{ key, cause: AWAY_THERE.cause }]);
      processor.planLookUp(SUCCEEDED, SUCCEEDED);
      expect(await records.resolve(key, VERDICT)).toMatchObject(FOUND);
    },
  );

  /** Bug and fix: the same. Cause: another execution had taken the payment over, and gave it up before the verdict was written. */
  test('and no verdict is written when another execution takes the payment over and gives it up', async () => {
    const { key, records, processor, ledger, another, contradictions } = await givenUnknown();
    processor.planLookUp(SUCCEEDED);
    ledger.interruptNext('takeOver', async (proceed) => {
      const claim = await given.takeover({ key, processor: processor.traits.name });
      expect(await proceed()).toBeUndefined();
      await ports.ledger.abandon(claim, 0);
    });
    expect(await records.resolve(key, VERDICT)).toEqual(REPEAT_SOON);
    expect(contradictions).toEqual([]);
    processor.decide(key, SUCCEEDED);
    expect(await another().records.resolve(key, VERDICT)).toMatchObject(FOUND);
  });

  test('and a verdict is not written when the ending that a cancellation asked for is refused', async () => {
    const { key, records, processor, payments } = await givenUnknown('pending');
    processor.planEnd(AWAY_THERE, { state: 'cannot be ended' });
    inState(await payments.cancel({ key }), 'unknown');
    expect(await records.resolve(key, VERDICT)).toEqual(REPEAT_SOON);
    expect(await ports.paymentHistory.find(key)).toMatchObject({ state: 'PROCESSING', ending: undefined });
    expect(await records.resolve(key, VERDICT)).toMatchObject({ state: 'too early', isPending: true });
  });

  test('and its outcome is written although the ending that a cancellation asked for gets no answer', async () => {
    const { key, records, processor, payments } = await givenUnknown('succeeded');
    processor.planEnd(AWAY_THERE, AWAY_THERE);
    inState(await payments.cancel({ key }), 'unknown');
    expect(await records.resolve(key, VERDICT)).toMatchObject(FOUND);
  });

  test('and a verdict is written where it names another amount than the row, which proves nothing about the payment', async () => {
    const { key, records, processor, ledger } = await givenUnknown();
    processor.decide(key, { state: 'succeeded', charged: OTHER_MONEY });
    // Rows were lost, and not this one.
    ledger.interruptNext('mayBeLost', async () => true);
    expect(await records.resolve(key, VERDICT)).toMatchObject({ state: 'resolved' });
    expect(processor.lookUps).toEqual([key, key]);
  });

  test('and is not logged as unknown when its answer finishes the payment', async () => {
    const { key, records, processor, unknown } = await givenUnknown();
    processor.planLookUp(SUCCEEDED, SUCCEEDED);
    expect(await records.resolve(key, VERDICT)).toMatchObject(FOUND);
    expect(unknown).toEqual([]);
  });
});

describe('a pending payment whose key is older than a loss of rows', () => {
  async function givenPending() {
    const process = compose();
    const { key } = await given.pending({ processor: process.processor.traits.name });
    // Rows were lost, and not this one.
    process.ledger.interruptNext('mayBeLost', async () => true);
    return { ...process, key };
  }

  /**
   * Bug: a payment of 100.50 was completed by a reply about another amount. Cause: such a reply is not compared, because the row may have been
   * claimed after the loss; it was taken as known all the same. Fix: the execution, which knows when the row was claimed, asks and compares.
   */
  test('is not settled by the reply that an operator gets about another amount', async () => {
    const { key, records, processor, unknown } = await givenPending();
    processor.decide(key, { ...SUCCEEDED, charged: OTHER_MONEY });
    expect(await records.resolve(key, VERDICT)).toMatchObject({ state: 'too early', isPending: true });
    expect(await ports.paymentHistory.find(key)).toMatchObject({ state: 'PROCESSING', ...MONEY });
    expect(processor.questions).toMatchObject([{ money: undefined }, { money: MONEY }]);
    expect(unknown).toMatchObject([{ key }]);
  });

  test('is settled by one about its own amount', async () => {
    const { key, records, processor } = await givenPending();
    processor.decide(key, { ...SUCCEEDED, charged: MONEY });
    expect(await records.resolve(key, VERDICT)).toMatchObject(FOUND);
    expect(await ports.paymentHistory.find(key)).toMatchObject({ state: 'COMPLETED', ...MONEY });
  });
});

test('an outcome of a pending payment that was compared is settled without another look-up', async () => {
  const { processor, records, ...process } = compose();
  const { key } = await process.pendingPayment();
  processor.decide(key, { ...SUCCEEDED, charged: MONEY });
  expect(await records.resolve(key, VERDICT)).toMatchObject(FOUND);
  expect(processor.lookUps).toEqual([key]);
});

/**
 * Bug: an operator declined a payment although the processor had just answered that it is pending. Cause: that answer was dropped, so that
 * the row had an end that was expected before, or did not know at all that it is pending. Fix: the row gets the answer first.
 */
describe('a payment that the processor calls pending when an operator resolves it', () => {
  const PENDING = () => ({ state: 'pending', untilMs: Date.now() + 24 * HOUR_MS }) as const;
  const TOO_EARLY = { state: 'too early', isPending: true };

  /** A payment whose end was expected so long ago that an operator may resolve it. */
  async function givenPastUntil() {
    const process = compose();
    const { key } = await given.pending(
      { processor: process.processor.traits.name },
      { pendingUntilMs: Date.now() - 2 * HOUR_MS },
    );
    return { ...process, key };
  }

  test('is not resolved before the end that is expected now', async () => {
    const { key, records, processor } = await givenPastUntil();
    const pending = PENDING();
    processor.planLookUp(pending);
    expect(await records.resolve(key, VERDICT)).toMatchObject(TOO_EARLY);
    expect(await ports.paymentHistory.find(key)).toMatchObject({ state: 'PROCESSING', pendingUntil: pending.untilMs });
  });

  test('is not resolved if the end that is expected now could not be written', async () => {
    const { key, records, processor, ledger } = await givenPastUntil();
    processor.planLookUp(PENDING());
    ledger.failAll('movePending', DOWN);
    await expect(records.resolve(key, VERDICT)).rejects.toBe(DOWN);
    expect(await ports.paymentHistory.find(key)).toMatchObject({ state: 'PROCESSING' });
  });

  test('is resolved an hour after the end that is expected still', async () => {
    const { key, records, processor, owners } = await givenPastUntil();
    processor.planLookUp({ state: 'pending', untilMs: Date.now() - 2 * HOUR_MS });
    expect(await records.resolve(key, VERDICT)).toMatchObject({ state: 'resolved' });
    expect(owners, 'it is not taken over').toHaveLength(1);
  });

  test('becomes pending, also if the reply that said so was lost', async () => {
    const { key, records, processor, payments } = await givenUnknown('pending');
    expect(await records.resolve(key, VERDICT)).toMatchObject(TOO_EARLY);
    expect((await ports.ledger.find(key)).state).toBe('pending');
    processor.decide(key, SUCCEEDED);
    expect(await records.resolve(key, VERDICT)).toMatchObject(FOUND);
    inState(await payments.pay({ key }, MONEY), 'replayed');
    expect(processor.chargesOf(key)).toHaveLength(1);
  });

  test.each([
    ['does not answer again', AWAY_THERE],
    ['has no record any more', { state: 'no record' }],
  ] as const)('is not resolved if it does not become pending because the processor %s', async (_, said) => {
    const { key, records, processor, unknown } = await givenUnknown();
    processor.planLookUp(PENDING(), said);
    expect(await records.resolve(key, VERDICT)).toEqual(REPEAT_SOON);
    expect((await ports.ledger.find(key)).state).toBe('abandoned');
    expect(unknown).toMatchObject([{ key }]);
  });
});

/** Bug: the processor's "succeeded" met a payment that an operator had declined, and nobody was told. Fix: an alarm. */
describe('an outcome at the processor', () => {
  const told = { succeeded: 'COMPLETED', declined: 'DECLINED' } as const;
  const cases = [
    ['succeeded', 'DECLINED', 'an alarm that names the transaction'],
    ['declined', 'COMPLETED', 'an alarm that names the transaction'],
    ['succeeded', 'COMPLETED', 'no alarm'],
    ['declined', 'DECLINED', 'no alarm'],
  ] as const;

  test.each(cases)('that is "%s" after its payment was resolved as %s is %s', async (outcome, state, alarm) => {
    const owner = compose();
    const operator = owner.another({ dedupMs: 0 });
    const { key, answer, finish } = await owner.chargingPayment(outcome);
    // As if the lease had ended, at the moment that the test chooses.
    expect(await ports.ledger.abandon({ key, epoch: 1, owner: owner.owners.at(-1) ?? '' }, 0)).toBe(true);
    expect(await operator.records.resolve(key, { ...VERDICT, state })).toMatchObject({ state: 'resolved' });
    finish();
    expect(await answer).toMatchObject({ state: 'replayed', final: { outcome: { state } } });
    const { transactionId } = owner.processor.charges[0] ?? {};
    const contradiction = { transactionId, told: told[outcome], kept: state };
    expect(owner.contradictions).toEqual(alarm === 'no alarm' ? [] : [contradiction]);
    // An alert is raised by the count.
    expect(owner.counts.contradictions).toBe(owner.contradictions.length);
    expect(operator.contradictions).toEqual([]);
  });

  test.each(cases)('that is looked up as "%s" while another operator resolves it as %s is %s', async (...row) => {
    const [outcome, state, alarm] = row;
    const { key, processor, records, contradictions, another } = await givenUnknown();
    const other = another({ dedupMs: 0 });
    processor.planLookUp(async () => {
      await other.records.resolve(key, { ...VERDICT, state });
      return outcome === 'succeeded' ? SUCCEEDED : { state: outcome, reason: 'no funds' };
    });
    await records.resolve(key, { ...VERDICT, state: told[outcome] });
    expect(contradictions).toMatchObject(alarm === 'no alarm' ? [] : [{ told: told[outcome], kept: state }]);
  });

  /**
   * Bug: an operator declined a pending payment while the processor was asked, the processor answered "succeeded", and nobody was told. Cause:
   * a pending payment has no lease, so the one that asked did not get it any more, and was silent. Fix: it reads the row and compares.
   */
  describe.each(['recovery', 'a repeat'] as const)('that %s hears of a pending payment', (asker) => {
    test.each(cases)('as "%s" while an operator resolves it as %s is %s', async (outcome, state, alarm) => {
      const process = compose();
      const { processor, payments, recovery, contradictions } = process;
      const operator = process.another();
      const isPast = { pendingUntilMs: Date.now() - 2 * HOUR_MS };
      const { key, transactionId } = await given.pending({ processor: processor.traits.name }, isPast);
      processor.planLookUp(async () => {
        inState(await operator.records.resolve(key, { ...VERDICT, state }), 'resolved');
        return outcome === 'succeeded' ? SUCCEEDED : { state: outcome, reason: 'no funds' };
      }, AWAY_THERE);
      if (asker === 'recovery') expect(await recovery.runOnce()).toBe(0);
      const replayed = { state: 'replayed', final: { outcome: { state } } };
      expect(await payments.pay({ key }, MONEY)).toMatchObject(replayed);
      const contradiction = { transactionId, told: told[outcome], kept: state };
      expect(contradictions).toEqual(alarm === 'no alarm' ? [] : [contradiction]);
      expect(operator.contradictions).toEqual([]);
      expect(processor.lookUps).toHaveLength(2);
    });
  });

  test.each([
    ['succeeded', 'an alarm that names the transaction'],
    ['declined', 'no alarm'],
  ] as const)('that is "%s", after the row was lost and cancelled, is %s', async (outcome, alarm) => {
    const { key, transactionId, processor } = claimAttempt();
    inState(await ports.ledger.cancel(cancellation({ key })), 'cancelled');
    const times = { executions: 1, claimedAt: 1, settledAt: undefined, reason: undefined, resolution: undefined };
    const content = { description: undefined, metadata: undefined };
    const lost = { state: 'PROCESSING', key, transactionId, processor, ...MONEY, ...times, ...content } as const;
    let reads = 0;
    const paymentHistory = decorated(ports.paymentHistory, {
      find: (next) => async (asked) => {
        reads += 1;
        const found = { ...lost, processor: operator.processor.traits.name, reference: undefined, attempt: undefined };
        return reads === 1 ? { ...found, client: undefined } : next(asked);
      },
    });
    const operator = composeOver({ ...ports, paymentHistory });
    operator.processor.planLookUp(outcome === 'succeeded' ? SUCCEEDED : { state: outcome, reason: 'no funds' });
    await operator.records.resolve(key, VERDICT);
    const contradiction = { transactionId, told: 'COMPLETED', kept: 'CANCELLED' };
    expect(operator.contradictions).toEqual(alarm === 'no alarm' ? [] : [contradiction]);
  });

  test('is no alarm while the attempt of the payment is in progress', async () => {
    const owner = compose();
    const { key, answer, finish } = await owner.chargingPayment();
    const operator = owner.another({ dedupMs: 0 });
    owner.processor.planLookUp(SUCCEEDED);
    expect(await operator.records.resolve(key, VERDICT)).toMatchObject({ state: 'in progress' });
    expect(operator.contradictions).toEqual([]);
    finish();
    expect(await answer).toMatchObject({ state: 'processed' });
  });
});
