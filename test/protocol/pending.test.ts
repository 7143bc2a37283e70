import { describe, expect, test } from 'vitest';
import { ABANDONED_PLACES, RECOVERY_CONCURRENCY } from '#idempay/payments/recovery.js';
import { gate } from '../../testkit/concurrency.js';
import { inState, LONG_MS } from '../../testkit/protocol/payment-attempts.js';
import {
  DOWN,
  MONEY,
  NO_MONEY,
  OTHER_MONEY,
  orderOf,
  type Settings,
  shareProtocol,
} from '../../testkit/protocol/payment-composition.js';
import { ACTION } from '../../testkit/protocol/recording-processor.js';
import { HandClock } from '../../testkit/time/hand-clock.js';
import { until } from '../../testkit/time/until.js';

/** A payment that waits at the processor is answered as pending, asked about, and never sent again (rule P24). */

const SECOND_MS = 1_000;
/** The time between two rounds of recovery. */
const ROUND_MS = 3_000;
const DEADLINE_MS = 15_000;
const NO_ANSWER = { state: 'unknown', cause: 'no answer' } as const;
const SUCCEEDED = { state: 'succeeded', charged: MONEY } as const;
const REFUSED = { state: 'declined', reason: 'the payer refused' } as const;

const { ports, compose, ...given } = await shareProtocol();

async function givenPending(settings: Settings = {}) {
  const clock = new HandClock(Date.now());
  const process = compose({ clock, ...settings });
  const order = await process.pendingPayment();
  return { ...process, clock, order };
}

const stateOf = async (key: string) => (await ports.ledger.find(key)).state;

describe('a payment whose payer must confirm', () => {
  test('is pending for its first request and for repeats, which get the action and take no lock', async () => {
    const { payments, processor, order, clock, keys } = await givenPending();
    for (const waitMs of [0, SECOND_MS, SECOND_MS]) {
      clock.advance(waitMs);
      const answer = inState(await payments.pay(order, MONEY), 'pending');
      expect(answer).toMatchObject({ action: ACTION, payment: { ...MONEY, key: order.key, processorId: 'pi_1' } });
      expect(answer.retryAfterSeconds).toBe(5);
    }
    expect(processor.chargesOf(order.key)).toHaveLength(1);
    // The first repeat got what the charge said, and the processor was asked once in each second after it.
    expect(processor.lookUps).toHaveLength(2);
    expect(await keys.port.look(order.key)).not.toMatchObject({ state: 'locked' });
    expect(await payments.outcome(order.key)).toBeUndefined();
  });

  /** Bug: such a request settled the payment, and was answered as the one that paid (found by the simulator, payments, seed 3032). */
  test('is neither asked about nor finished by a request without payable content', async () => {
    const clock = new HandClock(Date.now());
    const { payments, processor, pendingPayment } = compose({ clock, payloadMismatch: 'replay' });
    const { key } = await pendingPayment({ key: await payments.issueKey() });
    processor.decide(key, SUCCEEDED);
    clock.advance(SECOND_MS);
    inState(await payments.pay({ key }, { problem: "'amount' is missing." }), 'pending without answer');
    expect(processor.lookUps).toHaveLength(0);
    inState(await payments.pay({ key }, MONEY), 'processed');
  });

  test('is asked about once in a second, however many requests ask', async () => {
    const { payments, processor, order, clock } = await givenPending();
    clock.advance(SECOND_MS);
    const answers = await Promise.all(Array.from({ length: 50 }, () => payments.pay(order, MONEY)));
    for (const answer of answers) expect(answer).toMatchObject({ state: 'pending', action: ACTION });
    expect(processor.lookUps).toHaveLength(1);
  });

  test.each([
    [SUCCEEDED, { state: 'COMPLETED' }],
    [REFUSED, { state: 'DECLINED', reason: REFUSED.reason }],
  ] as const)(
    'that $0.state is settled by the repeat that hears it, once, and the others repeat it',
    async (said, outcome) => {
      const { payments, processor, order, clock, counts } = await givenPending();
      processor.decide(order.key, said);
      clock.advance(SECOND_MS);
      const answers = await Promise.all(Array.from({ length: 20 }, () => payments.pay(order, MONEY)));
      const states = answers.map(({ state }) => state);
      expect(states.filter((state) => state === 'processed')).toHaveLength(1);
      expect(states.every((state) => ['processed', 'replayed', 'pending'].includes(state))).toBe(true);
      expect(await payments.pay(order, MONEY)).toMatchObject({ state: 'replayed', final: { outcome } });
      expect(counts.settled.repeat).toBe(1);
      expect(processor.lookUps).toHaveLength(1);
      expect(processor.chargesOf(order.key)).toHaveLength(1);
      expect(await ports.paymentHistory.find(order.key)).toMatchObject({ ...outcome, processorId: 'pi_1' });
    },
  );

  test('is not answered as anything else if the processor does not answer, and says nothing if it has no record', async () => {
    const { payments, processor, order, clock, forgotten } = await givenPending();
    processor.planLookUp(NO_ANSWER, { state: 'no record' });
    clock.advance(SECOND_MS);
    expect(await payments.pay(order, MONEY)).toEqual({ state: 'pending without answer' });
    clock.advance(SECOND_MS);
    const answers = await Promise.all(Array.from({ length: 3 }, () => payments.pay(order, MONEY)));
    for (const answer of answers) expect(answer).toEqual({ state: 'unknown' });
    expect(forgotten).toEqual([order.key]);
    expect(processor.chargesOf(order.key)).toHaveLength(1);
    clock.advance(SECOND_MS);
    expect(await payments.pay(order, MONEY)).toMatchObject({ state: 'pending' });
  });

  test('is told neither for another amount nor to a request without content', async () => {
    const { payments, order } = await givenPending();
    expect(await payments.pay(order, OTHER_MONEY)).toEqual({ state: 'reference mismatch' });
    expect(await payments.pay(order, NO_MONEY)).toEqual({ state: 'reference mismatch' });
  });

  test('is pending for another process, which asks the processor for the action', async () => {
    const { another, order, processor } = await givenPending();
    expect(await another().payments.pay(order, MONEY)).toMatchObject({ state: 'pending', action: ACTION });
    expect(processor.lookUps).toHaveLength(1);
    expect(await ports.keys.look(order.key)).not.toMatchObject({ state: 'locked' });
  });

  test('is unknown to a process with another processor, which asks nobody', async () => {
    const { order } = await givenPending();
    const { payments, processor } = compose();
    expect(await payments.pay(order, MONEY)).toEqual({ state: 'unknown' });
    expect(processor.questions).toEqual([]);
  });

  test('is read from its row if this process knows it, and not from there any more once it is final', async () => {
    const { payments, processor, order, clock, keys, ledger } = await givenPending();
    keys.failAll('begin', DOWN);
    expect(await payments.pay(order, MONEY)).toMatchObject({ state: 'pending' });
    keys.heal();
    processor.decide(order.key, SUCCEEDED);
    clock.advance(SECOND_MS);
    for (const state of ['processed', 'replayed'] as const) inState(await payments.pay(order, MONEY), state);
    ledger.failAll('find', DOWN);
    expect(await payments.pay(order, MONEY)).toMatchObject({ state: 'replayed' });
  });

  test('is expected when the processor expects it now, and asked about accordingly', async () => {
    const { payments, processor, order, clock } = await givenPending();
    for (const [leftMs, seconds] of [
      [-1, 2],
      [LONG_MS, 2],
      [2 * 3_600_000, 10],
      [30 * 24 * 3_600_000, 60],
    ] as const) {
      clock.advance(SECOND_MS);
      const untilMs = clock.now() + leftMs;
      processor.planLookUp({ state: 'pending', untilMs });
      const answer = await payments.pay(order, MONEY);
      expect(answer).toMatchObject({ state: 'pending', payment: { untilMs }, retryAfterSeconds: seconds });
    }
  });

  test('is not asked about beyond the limit of payments in flight', async () => {
    const process = compose({ maxInFlight: 1 });
    const order = await process.pendingPayment();
    const charging = await process.chargingPayment();
    expect(await process.payments.pay(order, MONEY)).toEqual({ state: 'pending without answer' });
    charging.finish();
    expect(await charging.answer).toMatchObject({ state: 'processed' });
    expect(await process.payments.pay(order, MONEY)).toMatchObject({ state: 'pending' });
  });

  test('is not asked about while its outcome is being written', async () => {
    const { payments, processor, order, clock, ledger, another } = await givenPending();
    processor.decide(order.key, SUCCEEDED);
    clock.advance(SECOND_MS);
    const { opened, open } = gate();
    ledger.interruptNext('settle', (proceed) => opened.then(proceed));
    const settling = payments.pay(order, MONEY);
    await until('the takeover', DEADLINE_MS, async () => (await ports.paymentHistory.findLife(order.key))?.epoch === 2);
    expect(await another().payments.pay(order, MONEY)).toMatchObject({ state: 'pending', action: undefined });
    open();
    expect(await settling).toMatchObject({ state: 'processed' });
    expect(processor.lookUps).toHaveLength(1);
  });

  test('lets no other attempt be made, and says why', async () => {
    const { payments, processor, order } = await givenPending();
    const { text } = order.reference ?? {};
    const second = orderOf(text, 2);
    expect(await payments.pay(second, MONEY)).toMatchObject({ state: 'not its turn', previous: 'pending' });
    expect(processor.chargesOf(second.key)).toEqual([]);
  });

  test('ends the wait of a request that waits for its outcome', async () => {
    const process = compose();
    const charging = await process.chargingPayment('pending');
    const patience = { ms: LONG_MS, gone: new AbortController().signal };
    const waiting = process.payments.pay({ key: charging.key }, MONEY, patience);
    charging.finish();
    expect(await charging.answer).toMatchObject({ state: 'pending' });
    expect(await waiting).toMatchObject({ state: 'pending', waited: true });
  });

  test('is unknown for its first request if its row cannot be written, and pending afterwards', async () => {
    const process = compose();
    const order = orderOf();
    process.processor.plan({ outcome: 'pending' });
    process.ledger.loseNextAnswer('leave', DOWN);
    expect(await process.payments.pay(order, MONEY)).toMatchObject({ state: 'unknown' });
    expect(await process.payments.pay(order, MONEY)).toMatchObject({ state: 'pending' });
    expect(process.processor.chargesOf(order.key)).toHaveLength(1);
  });

  test('that is found pending by a takeover is left so, and not sent again', async () => {
    const { payments, processor, unknownPayment } = compose();
    const key = await unknownPayment('pending');
    expect(await payments.pay({ key }, MONEY)).toMatchObject({ state: 'pending', action: ACTION });
    expect(processor.chargesOf(key)).toHaveLength(1);
    expect(await stateOf(key)).toBe('pending');
  });

  test('that is found pending by a takeover is not told for another amount if that is rejected', async () => {
    const { payments, unknownPayment } = compose({ payloadMismatch: 'reject' });
    const key = await unknownPayment('pending');
    expect(await payments.pay({ key }, OTHER_MONEY)).toEqual({ state: 'mismatch' });
    expect(await stateOf(key)).toBe('pending');
  });

  test('is told as paid by an attempt that lost it, if another one has settled it', async () => {
    const { payments, processor, ledger, another, counts, endLease } = compose();
    const order = orderOf();
    processor.plan({ outcome: 'pending' });
    ledger.interruptNext('leave', async (proceed) => {
      await endLease(order.key);
      processor.decide(order.key, SUCCEEDED);
      inState(await another().payments.pay(order, MONEY), 'processed');
      return proceed();
    });
    expect(await payments.pay(order, MONEY)).toMatchObject({
      state: 'replayed',
      final: { outcome: { state: 'COMPLETED' } },
    });
    expect(counts.fencedOff).toBe(1);
    expect(processor.charges).toHaveLength(1);
  });
});

describe('recovery', () => {
  test.each([SUCCEEDED, REFUSED])('settles a pending payment that $state, and nobody repeats', async (said) => {
    const { processor, order, recovery } = await givenDue();
    processor.decide(order.key, { ...said, id: 'pi_2' });
    expect(await recovery.runOnce()).toBe(1);
    expect(await stateOf(order.key)).toBe('final');
    expect(await ports.paymentHistory.find(order.key)).toMatchObject({ processorId: 'pi_2' });
    expect(processor.chargesOf(order.key)).toHaveLength(1);
    expect(processor.lookUps).toHaveLength(1);
  });

  test('does not ask about a payment that became pending a moment ago', async () => {
    const { processor, another } = await givenPending();
    // Another process, because this one knows what the processor said.
    expect(await another().recovery.runOnce()).toBe(0);
    expect(processor.lookUps).toEqual([]);
  });

  test('asks about a quarter of its places at once, and about all one after the other', async () => {
    const { processor, recovery } = compose();
    const places = RECOVERY_CONCURRENCY - ABANDONED_PLACES;
    for (let count = 0; count < places + 4; count += 1) await given.pending({ processor: processor.traits.name });
    const { opened, open } = gate();
    const hanging = Array.from({ length: places + 4 }, () => () => opened.then(() => NO_ANSWER));
    processor.planLookUp(...hanging);
    const running = recovery.runOnce();
    await until('the first questions', DEADLINE_MS, () => processor.lookUps.length > 0);
    expect(processor.lookUps).toHaveLength(places);
    open();
    await running;
    expect(processor.lookUps).toHaveLength(places + 4);
  });

  test('begins without the answers, and asks again in its next round', async () => {
    const clock = new HandClock(Date.now());
    const { processor, recovery } = compose({ clock });
    const { opened, open } = gate();
    const hanging = await given.pending({ processor: processor.traits.name });
    processor.planLookUp(() => opened.then(() => NO_ANSWER));
    let isStarted = false;
    void recovery.start(LONG_MS).then(() => {
      isStarted = true;
    });
    await until('the start', DEADLINE_MS, () => isStarted);
    expect(processor.lookUps).toEqual([hanging.key]);
    const later = await given.pending({ processor: processor.traits.name });
    processor.decide(later.key, SUCCEEDED);
    open();
    await until('the next round', DEADLINE_MS, async () => {
      clock.advance(ROUND_MS);
      return (await stateOf(later.key)) === 'final';
    });
    await recovery.stop();
  });

  test('writes nothing for a payment that is expected when it was, or that was expected before now and has no record', async () => {
    const { processor, recovery, ledger, faults, forgotten } = compose();
    const [same, past] = [Date.now() + LONG_MS, Date.now() - LONG_MS];
    await given.pending({ processor: processor.traits.name }, { pendingUntilMs: same });
    processor.planLookUp({ state: 'pending', untilMs: same }, { state: 'no record' });
    ledger.failAll('movePending', DOWN);
    expect(await recovery.runOnce()).toBe(0);
    const { key } = await given.pending({ processor: processor.traits.name }, { pendingUntilMs: past });
    expect(await recovery.runOnce()).toBe(0);
    expect(forgotten).toEqual([key]);
    expect(faults).toEqual([]);
  });

  test('leaves one pending that is still so, writes no event, and moves its expected end', async () => {
    const { processor, order, recovery } = await givenDue();
    const before = await ports.paymentHistory.findLife(order.key);
    const untilMs = Date.now() + 2 * LONG_MS;
    processor.planLookUp({ state: 'pending', untilMs });
    expect(await recovery.runOnce()).toBe(0);
    const after = await ports.paymentHistory.findLife(order.key);
    expect(after?.payment.pendingUntil).toBe(untilMs);
    expect(after?.events).toEqual(before?.events);
    expect(after?.epoch).toBe(before?.epoch);
  });

  test('does not send one that the processor has no record of, and reports it', async () => {
    const { processor, order, recovery, forgotten } = await givenDue();
    processor.planLookUp({ state: 'no record' });
    expect(await recovery.runOnce()).toBe(0);
    expect(forgotten).toEqual([order.key]);
    expect(await stateOf(order.key)).toBe('pending');
    expect(processor.chargesOf(order.key)).toHaveLength(1);
    const { pendingUntil } = (await ports.paymentHistory.find(order.key)) ?? {};
    expect(pendingUntil).toBeLessThanOrEqual(Date.now());
  });

  /** A pending payment whose next question is due at once, because the ledger's contract has no clock that a test could move. */
  async function givenDue() {
    const process = compose();
    const order = orderOf();
    process.processor.plan({ outcome: 'pending', answerLost: true });
    inState(await process.payments.pay(order, MONEY), 'unknown');
    const claim = await ports.ledger.takeOver({
      ...{ key: order.key, owner: `owner-${order.key}`, leaseMs: LONG_MS },
      processor: process.processor.traits.name,
    });
    if (!claim) throw new Error('the payment was not abandoned');
    const left = { recoverAfterMs: 0, pendingUntilMs: Date.now() + LONG_MS };
    await ports.ledger.leave(claim, left, { sent: true });
    return { ...process, order };
  }
});
