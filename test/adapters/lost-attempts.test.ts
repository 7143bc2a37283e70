import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { LONG_MS, newKeyOf, newProcessorName, newReference } from '../../testkit/protocol/payment-attempts.js';
import { type Composition, compose, MONEY, OTHER_MONEY, orderOf } from '../../testkit/protocol/payment-composition.js';
import { openDistributedPortsOn, openSqlStores } from '../../testkit/protocol/ports.js';
import { RecordingProcessor } from '../../testkit/protocol/recording-processor.js';
import { LOST_LONG_AGO, openRestoredFolder, type Restored } from '../../testkit/protocol/restored-folder.js';
import { changeStored } from '../../testkit/protocol/stored-rows.js';
import { HOUR_MS } from '../../testkit/time/retention-time.js';
import { until } from '../../testkit/time/until.js';

/**
 * Orders whose rows were lost a moment ago, with a failover or a restore, so that only the processor knows of the charges. Bugs: an
 * operator had declined the first attempt at an order, and the second one was charged. A request for the first charged it again, and a
 * cancellation of the first succeeded. A repeat of the paid second attempt was refused as never made. Cause: only the row of the attempt
 * itself counted as lost. Fix: the next attempt is looked up as well, and an attempt is looked up before its turn is judged.
 */

const SEEN_DEADLINE_MS = 10_000;
/** A key of this age was generated before the rows were lost, also in a slow run. */
const BEFORE_LOSS_MS = 300_000;
const NO_ANSWER = { state: 'unknown', cause: 'no answer' } as const;

/** How much time was lost, a moment ago. */
const lostFor = (ms: number) => ({
  embedded: `UPDATE deployment SET lost_ms = ${ms}`,
  distributed: `UPDATE idempay.deployment SET lost_ms = ${ms}`,
});

async function openReplacedDatabase(change = LOST_LONG_AGO): Promise<Restored> {
  const stores = await openSqlStores();
  const ports = await openDistributedPortsOn(stores);
  await stores.client.query("UPDATE idempay.deployment SET timeline = 'FFFFFFFF'");
  await until('the new timeline to be seen', SEEN_DEADLINE_MS, async () => {
    const { rows } = await stores.client.query('SELECT timeline FROM idempay.deployment');
    return rows[0].timeline !== 'FFFFFFFF';
  });
  await changeStored({ environment: { DATABASE_URL: stores.databaseUrl } }, change);
  return {
    ports,
    async close() {
      await ports.close();
      await stores.close();
    },
  };
}

const WAYS = [
  ['embedded', openRestoredFolder],
  ['distributed', openReplacedDatabase],
] as const;

/**
 * Bug: an operator had declined attempt 1, attempt 2 was on its way to the processor, and rows were lost: a request for attempt 1 was charged,
 * and attempt 2 arrived. Cause: the processor deduplicates, so nothing waited, but its promise holds for one attempt only. Fix: an order
 * waits if the loss was as long as the time after which an operator may decline, which is never so in a failover that lost seconds.
 */
describe.each(WAYS)('a moment after rows were lost (%s)', (_, openRestored) => {
  test.each([
    [HOUR_MS - 1, 'processed'],
    [HOUR_MS, 'too soon'],
  ])('at a processor that deduplicates for an hour, after a loss of %i ms, an order is %s', async (lostMs, state) => {
    const restored = await openRestored(lostFor(lostMs));
    onTestFinished(() => restored.close());
    const processor = new RecordingProcessor(newProcessorName(), HOUR_MS);
    const { payments } = compose(restored.ports, { leaseMs: LONG_MS, idempotencyTtlMs: 2 * HOUR_MS }, processor);
    expect((await payments.pay(orderOf(), MONEY)).state).toBe(state);
    expect(processor.charges).toHaveLength(state === 'processed' ? 1 : 0);
  });
});

describe.each(WAYS)('after rows were lost (%s)', (_, openRestored) => {
  let restored: Restored;
  let process: Composition;
  beforeAll(async () => {
    restored = await openRestored();
    process = compose(restored.ports);
  });
  afterAll(() => restored.close());

  const order = (text: string, attempt = 1) => orderOf(text, attempt, 'key:shop');
  type Order = ReturnType<typeof order>;

  /** A charge whose row is lost. */
  async function chargedBefore(
    { key }: Order,
    outcome: 'succeeded' | 'declined' | 'pending' = 'succeeded',
  ): Promise<void> {
    process.processor.plan({ outcome });
    await process.processor.charge({ key, transactionId: 'TXN1', ...MONEY });
  }

  const chargesOf = (...orders: Order[]) => orders.map(({ key }) => process.processor.chargesOf(key).length);
  const record = (named: Order) => restored.ports.paymentHistory.find(named.key);

  test('an attempt whose next one has a record is declined without a charge, and its answer names the next', async () => {
    for (const outcome of ['succeeded', 'declined'] as const) {
      const text = newReference();
      const [first, second] = [order(text), order(text, 2)];
      await chargedBefore(second, outcome);
      const superseded = { state: 'superseded at processor', attempt: 1, by: 2 };
      expect(await process.payments.pay(first, MONEY)).toEqual(superseded);
      // The lost row may have had another amount.
      expect(await process.payments.pay(first, OTHER_MONEY)).toMatchObject({ state: 'replayed', attempt: 1 });
      const { state, resolution, executions } = (await record(first)) ?? {};
      expect([state, resolution, executions]).toEqual([
        'DECLINED',
        expect.stringContaining('a record of attempt 2'),
        1,
      ]);
      expect(await process.payments.tellCharge(first)).toBe('unknown');
      const paid = await process.payments.pay(second, MONEY);
      expect(paid).toMatchObject({ final: { outcome: { state: outcome === 'succeeded' ? 'COMPLETED' : 'DECLINED' } } });
      expect(chargesOf(first, second)).toEqual([0, 1]);
    }
  });

  test('an attempt whose next one cannot be looked up is not sent, and its repeat decides', async () => {
    const text = newReference();
    const [first, second] = [order(text), order(text, 2)];
    await chargedBefore(second);
    process.processor.planLookUp({ state: 'no record' }, NO_ANSWER);
    expect(await process.payments.pay(first, MONEY)).toEqual({ state: 'unknown' });
    expect(await process.payments.pay(first, MONEY)).toMatchObject({ state: 'superseded at processor', by: 2 });
    expect(chargesOf(first, second)).toEqual([0, 1]);
  });

  test('recovery asks about the next attempt too, also for a claim that died before its look-up', async () => {
    const text = newReference();
    const [first, second] = [order(text), order(text, 2)];
    await chargedBefore(second);
    const dying = compose(restored.ports, {}, process.processor);
    dying.processor.planLookUp({ state: 'no record' }, NO_ANSWER);
    dying.ledger.interruptNext('abandon', async () => {
      const [owner] = dying.owners.slice(-1);
      return restored.ports.ledger.abandon({ key: first.key, epoch: 1, owner: owner ?? '' }, 0);
    });
    expect(await dying.payments.pay(first, MONEY)).toEqual({ state: 'unknown' });
    expect(await process.recovery.runOnce()).toBe(1);
    expect(await record(first)).toMatchObject({ state: 'DECLINED', resolution: expect.stringContaining('attempt 2') });
    expect(chargesOf(first, second)).toEqual([0, 1]);
  });

  test('an attempt is not cancelled if the next one has a record, or cannot be looked up', async () => {
    const text = newReference();
    const [first, second] = [order(text), order(text, 2)];
    await chargedBefore(second);
    const { payments } = process;
    process.processor.planLookUp({ state: 'no record' }, NO_ANSWER);
    expect(await payments.cancel(first)).toEqual({ state: 'unknown' });
    expect(await payments.cancel(first)).toEqual({ state: 'superseded at processor', attempt: 1, by: 2 });
    expect(await payments.cancel(second)).toEqual({ state: 'charged before' });
    expect(await payments.cancel(order(text, 3))).toMatchObject({ state: 'not its turn', previous: 'may be lost' });
    expect([await record(first), await record(second)]).toEqual([undefined, undefined]);
  });

  test('a repeat of a paid attempt is answered as paid, and the attempts before it are declined with it', async () => {
    const text = newReference();
    const [first, second, third, fourth] = [1, 2, 3, 4].map((attempt) => order(text, attempt)) as [
      Order,
      Order,
      Order,
      Order,
    ];
    await chargedBefore(third);
    process.processor.planLookUp(NO_ANSWER);
    expect(await process.payments.pay(third, MONEY)).toEqual({ state: 'unknown' });
    expect(await record(third)).toBeUndefined();
    expect(await process.payments.pay(third, MONEY)).toMatchObject({ final: { outcome: { state: 'COMPLETED' } } });
    for (const before of [first, second]) {
      const known = { state: 'DECLINED', executions: 0, resolution: expect.stringContaining('attempt 3') };
      expect(await record(before)).toMatchObject(known);
      expect(await process.payments.pay(before, MONEY)).toMatchObject({ state: 'superseded', newest: { attempt: 3 } });
      // A computed key speaks of its reference, which attempt 3 paid.
      expect(await process.payments.tellCharge({ key: before.key, client: 'key:shop' })).toBe('made');
    }
    expect(await process.payments.pay(fourth, MONEY)).toMatchObject({ state: 'not its turn', previous: 'completed' });
    expect(await process.payments.newestOutcome(first)).toMatchObject({ key: third.key });
    expect(chargesOf(first, second, third, fourth)).toEqual([0, 0, 1, 0]);
  });

  /**
   * Bug: a repeat of attempt 1, for the amount that it always had, was refused as another amount. Cause: the missing row was inserted with the
   * amount that a request for attempt 2 named after the loss. Fix: nobody knows the amount of a missing row, so it has no fingerprint, and no
   * request is another payment.
   */
  test('a lost attempt is not bound to the amount that was asked for the attempt after it', async () => {
    const text = newReference();
    const [first, second] = [order(text), order(text, 2)];
    await chargedBefore(second);
    expect(await process.payments.pay(second, OTHER_MONEY)).toEqual({ state: 'reference mismatch' });
    for (const money of [MONEY, OTHER_MONEY])
      expect(await process.payments.pay(first, money)).toMatchObject({ state: 'superseded', newest: { attempt: 2 } });
    expect(chargesOf(first, second)).toEqual([0, 1]);
  });

  test('a repeat by the key alone finds its attempt too, after generate-key', async () => {
    const text = newReference();
    const second = order(text, 2);
    await chargedBefore(second);
    expect(await process.payments.issueComputedKey(second.key, second.reference)).toEqual({ state: 'issued' });
    const named = { key: second.key, client: second.client };
    expect(await process.payments.pay(named, MONEY)).toMatchObject({ final: { outcome: { state: 'COMPLETED' } } });
    expect(chargesOf(second)).toEqual([1]);
  });

  test('an attempt out of turn that the processor does not know is refused, and not as one that was never made', async () => {
    const text = newReference();
    const second = order(text, 2);
    const refused = { state: 'not its turn', previous: 'may be lost', attempt: 2 };
    expect(await process.payments.pay(second, MONEY)).toEqual(refused);
    expect(await process.payments.pay(order(text), MONEY)).toMatchObject({ state: 'processed' });
    expect(await process.payments.pay(second, MONEY)).toMatchObject({ previous: 'completed' });
    expect([await record(second), ...chargesOf(order(text), second)]).toEqual([undefined, 1, 0]);
  });

  test('an attempt with a record is not claimed over one before it that is not declined', async () => {
    const text = newReference();
    const [first, third] = [order(text), order(text, 3)];
    await chargedBefore(third);
    expect(await process.payments.pay(first, MONEY)).toMatchObject({ state: 'processed' });
    expect(await process.payments.pay(third, MONEY)).toEqual({ state: 'unknown' });
    expect([await record(third), await record(order(text, 2))]).toEqual([undefined, undefined]);
  });

  /**
   * Bug: a paid attempt whose row was lost was refused as never made. Cause: the first attempt was still under way in the restored rows, so
   * that no row before it could be inserted, and the refusal named the missing one. Fix: its outcome is unknown until the first one is settled.
   */
  test('a paid attempt over a first one that is still under way is unknown, and paid when that is settled', async () => {
    const text = newReference();
    const [first, third] = [order(text), order(text, 3)];
    process.processor.planLookUp({ state: 'no record' }, NO_ANSWER);
    expect(await process.payments.pay(first, MONEY)).toEqual({ state: 'unknown' });
    await chargedBefore(order(text, 2), 'declined');
    await chargedBefore(third);
    expect(await process.payments.pay(third, MONEY)).toEqual({ state: 'unknown' });
    expect(await process.payments.pay(first, MONEY)).toMatchObject({ state: 'superseded at processor', by: 2 });
    expect(await process.payments.pay(third, MONEY)).toMatchObject({ final: { outcome: { state: 'COMPLETED' } } });
    expect(chargesOf(first, third)).toEqual([0, 1]);
  });

  test('several repeats of a paid attempt at once, over one that is claimed at the same time, charge nothing', async () => {
    const text = newReference();
    const [first, second] = [order(text), order(text, 2)];
    await chargedBefore(second);
    const others = [process, process.another(), process.another()];
    const ask = () => others.flatMap(({ payments }) => [payments.pay(second, MONEY), payments.pay(first, MONEY)]);
    await Promise.all(ask());
    expect(await process.payments.pay(second, MONEY)).toMatchObject({ final: { outcome: { state: 'COMPLETED' } } });
    expect(await record(first)).toMatchObject({ state: 'DECLINED' });
    expect(chargesOf(first, second)).toEqual([0, 1]);
  });

  /**
   * Bug: a request for another amount than the one that was charged was answered as paid with its own amount. Cause: the new row had the
   * amount of the request. Fix: a look-up brings what was charged, and the row gets that.
   */
  test('an order that was charged another amount is refused, and its row gets what was charged', async () => {
    const named = order(newReference());
    await chargedBefore(named);
    const { payments } = process;
    expect(await payments.pay(named, OTHER_MONEY)).toEqual({ state: 'reference mismatch' });
    expect(await record(named)).toMatchObject({ state: 'COMPLETED', executions: 1, ...MONEY });
    expect(await payments.pay(named, MONEY)).toMatchObject({ final: { outcome: { state: 'COMPLETED' } } });
    expect(await payments.pay(named, OTHER_MONEY)).toEqual({ state: 'reference mismatch' });
    expect(chargesOf(named)).toEqual([1]);
  });

  /**
   * Bug: a request for another amount than that of a pending charge was answered as pending with its own amount, and its payer would have
   * confirmed the other one. A cancellation was never answered, because the processor's reply named another amount than the row. Cause: only
   * an outcome brought what was charged into the row. Fix: a pending charge does so too.
   */
  test('an order whose pending charge has another amount is refused, its row gets that amount, and it can be ended', async () => {
    const named = order(newReference());
    await chargedBefore(named, 'pending');
    const { payments, processor } = process;
    for (const _ of [1, 2]) expect(await payments.pay(named, OTHER_MONEY)).toEqual({ state: 'reference mismatch' });
    expect(await record(named)).toMatchObject({ state: 'PROCESSING', pendingUntil: expect.any(Number), ...MONEY });
    expect(await payments.pay(named, MONEY)).toMatchObject({ state: 'pending', payment: MONEY });
    expect(await payments.cancel(named)).toEqual({ state: 'cancelled' });
    expect(processor.endings.filter(({ key }) => key === named.key)).toMatchObject([MONEY]);
    expect(await record(named)).toMatchObject({ state: 'DECLINED', ending: 'order', ...MONEY });
    expect(chargesOf(named)).toEqual([1]);
  });

  test('a pending attempt is ended with what the processor says of it, also if an attempt before it is lost', async () => {
    const text = newReference();
    const [first, second] = [order(text), order(text, 2)];
    await chargedBefore(first, 'declined');
    await chargedBefore(second, 'pending');
    const { payments, processor } = process;
    expect(await payments.cancel(second, 'attempt')).toEqual({ state: 'cancelled' });
    expect(processor.endings.filter(({ key }) => key === second.key)).toMatchObject([{ ...MONEY, id: 'pi_1' }]);
    expect(await record(first)).toMatchObject({ state: 'DECLINED', resolution: expect.stringContaining('attempt 2') });
    expect(await record(second)).toMatchObject({ state: 'DECLINED', ending: 'attempt', client: 'key:shop', ...MONEY });
    expect(await payments.cancel(order(text, 3), 'attempt')).toEqual({ state: 'nothing to end' });
    expect(await payments.cancel(order(text, 3))).toEqual({ state: 'cancelled' });
    expect(chargesOf(first, second)).toEqual([1, 1]);
  });

  test('a pending order, or key, is ended, and its order closed', async () => {
    const named = order(newReference());
    const key = newKeyOf(Date.now() - BEFORE_LOSS_MS);
    await chargedBefore(named, 'pending');
    process.processor.plan({ outcome: 'pending' });
    await process.processor.charge({ key, transactionId: 'TXN1', ...MONEY });
    await restored.ports.keys.issue(key, LONG_MS);
    for (const each of [named, { key }])
      for (const _ of [1, 2]) expect(await process.payments.cancel(each)).toEqual({ state: 'cancelled' });
    expect(await record(named)).toMatchObject({ state: 'DECLINED', ending: 'order' });
    expect(await restored.ports.paymentHistory.find(key)).toMatchObject({ state: 'DECLINED', ending: 'order' });
    expect(await record(order(named.reference.text, 2))).toMatchObject({ state: 'CANCELLED' });
  });

  test('a pending order of which the processor does not say the amount is not ended, and nothing is written', async () => {
    const named = order(newReference());
    process.processor.tellsAmounts = false;
    await chargedBefore(named, 'pending');
    process.processor.tellsAmounts = true;
    for (const only of [undefined, 'attempt'] as const)
      expect(await process.payments.cancel(named, only)).toEqual({ state: 'unknown' });
    expect(await record(named)).toBeUndefined();
  });

  /** The processor refuses the new row's charge, as its contract demands. */
  test('an order whose lost row is charged another amount after the look-up is refused, and gets that amount', async () => {
    const named = order(newReference());
    const { payments, processor } = process;
    await chargedBefore(named);
    processor.planLookUp({ state: 'no record' }, { state: 'no record' });
    processor.plan({ outcome: 'none' });
    expect(await payments.pay(named, OTHER_MONEY)).toEqual({ state: 'unknown' });
    expect(await record(named)).toMatchObject({ state: 'PROCESSING', ...OTHER_MONEY });
    expect(await payments.pay(named, OTHER_MONEY)).toEqual({ state: 'reference mismatch' });
    expect(await record(named)).toMatchObject({ state: 'COMPLETED', ...MONEY });
    expect(await payments.pay(named, MONEY)).toMatchObject({ final: { outcome: { state: 'COMPLETED' } } });
    expect(chargesOf(named)).toEqual([1]);
  });

  test.each(['replay', 'reject'] as const)(
    'a key that was charged another amount is answered by P6 (%s)',
    async (payloadMismatch) => {
      const { payments } = compose(restored.ports, { payloadMismatch }, process.processor);
      const key = newKeyOf(Date.now() - BEFORE_LOSS_MS);
      await restored.ports.keys.issue(key, LONG_MS);
      await process.processor.charge({ key, transactionId: 'TXN1', ...MONEY });
      const answer = await payments.pay({ key }, OTHER_MONEY);
      expect(answer).toMatchObject(payloadMismatch === 'replay' ? { state: 'processed' } : { state: 'mismatch' });
      expect(await restored.ports.paymentHistory.find(key)).toMatchObject({ state: 'COMPLETED', ...MONEY });
      expect(process.processor.chargesOf(key)).toHaveLength(1);
    },
  );

  test('a charge whose amount the processor does not say stays unknown, and an operator may resolve it at once', async () => {
    const [paid, declined] = [order(newReference()), order(newReference())];
    process.processor.tellsAmounts = false;
    await chargedBefore(paid);
    await chargedBefore(declined, 'declined');
    process.processor.tellsAmounts = true;
    for (const _ of [1, 2]) expect(await process.payments.pay(paid, OTHER_MONEY)).toEqual({ state: 'unknown' });
    expect(await process.recovery.runOnce()).toBe(0);
    expect(await process.payments.pay(declined, OTHER_MONEY)).toMatchObject({
      final: { outcome: { state: 'DECLINED' } },
    });
    expect(await restored.ports.ledger.countAbandoned(LONG_MS, LONG_MS)).toBeGreaterThan(0);
    const verdict = { state: 'COMPLETED', reason: 'on the statement' } as const;
    expect(await process.records.resolve(paid.key, verdict)).toMatchObject({ state: 'resolved' });
    expect(chargesOf(paid, declined)).toEqual([1, 1]);
  });
});
