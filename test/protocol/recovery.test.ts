import { describe, expect, test } from 'vitest';
import { gate } from '../../testkit/concurrency.js';
import { LONG_MS, newProcessorName, SHORT_MS } from '../../testkit/protocol/payment-attempts.js';
import { AWAY, compose, MONEY } from '../../testkit/protocol/payment-composition.js';
import { paymentSteps } from '../../testkit/protocol/payment-steps.js';
import { sharePorts } from '../../testkit/protocol/ports.js';
import { RecordingProcessor } from '../../testkit/protocol/recording-processor.js';
import { until } from '../../testkit/time/until.js';
import { untilPast } from '../../testkit/time/until-past.js';

/** Recovery: what a dead owner left PROCESSING is finished by a living process, once, under the id it had (protocol, step 6). */

const DEADLINE_MS = 15_000;
/** More than recovery takes over at a time. */
const MANY = 150;

const ports = sharePorts();
const given = paymentSteps(ports);

/** Claims whose owners have died, with nothing charged. */
async function givenAbandoned({ name }: RecordingProcessor, count: number): Promise<string[]> {
  const claims = await Promise.all(Array.from({ length: count }, () => given.abandoned({ processor: name })));
  return claims.map(({ key }) => key).sort();
}

const references = ({ charges }: RecordingProcessor) => charges.map(({ reference }) => reference).sort();
const stateOf = async (key = '') => (await ports.ledger.find(key)).state;

async function untilFinal(key: string): Promise<void> {
  await until('the payment to be finished', DEADLINE_MS, async () => (await stateOf(key)) === 'final');
}

describe('recovery', () => {
  test.each([
    ['succeeded', 'COMPLETED'],
    ['declined', 'DECLINED'],
  ] as const)(
    'finishes what has %s at the processor without charging again, and repeats replay it',
    async (at, state) => {
      const { payments, recovery, processor, unknownPayment } = compose(ports);
      const key = await unknownPayment(at);
      expect(await recovery.runOnce()).toBe(1);
      const { transactionId } = processor.charges[0] ?? {};
      const outcome = state === 'COMPLETED' ? { state, transactionId } : { state };
      for (let repeat = 0; repeat < 2; repeat += 1)
        expect(await payments.pay(key, MONEY)).toMatchObject({ state: 'replayed', final: { outcome } });
      expect(processor.charges).toHaveLength(1);
    },
  );

  test('sends what never arrived, once, with the transaction id and the money of the row', async () => {
    const { processor, recovery, payments } = compose(ports);
    const money = { amount: '7.00', currency: 'EUR' };
    const { key, transactionId } = await given.abandoned({ processor: processor.name, ...money });
    expect(await recovery.runOnce()).toBe(1);
    expect(processor.lookUps).toEqual([key]);
    expect(processor.charges).toEqual([{ reference: key, transactionId, ...money }]);
    expect(await payments.pay(key, MONEY)).toMatchObject({ state: 'replayed', final: { outcome: { transactionId } } });
  });

  test('leaves payments under a live lease, final ones and those of another processor alone', async () => {
    const { processor, recovery, payments } = compose(ports);
    const living = await given.claim({ processor: processor.name });
    const foreign = await given.abandoned({ processor: newProcessorName() });
    await payments.pay(await payments.issueKey(), MONEY);
    expect(await recovery.runOnce()).toBe(0);
    expect(processor.lookUps).toEqual([]);
    expect([await stateOf(living.key), await stateOf(foreign.key)]).toEqual(['under way', 'abandoned']);
  });

  test('finishes all of many in one run, alone or shared by two processes, each charged once', async () => {
    const { processor, recovery, another } = compose(ports);
    const keys = await givenAbandoned(processor, MANY);
    expect(await recovery.runOnce()).toBe(MANY);
    expect(references(processor)).toEqual(keys);
    expect(await recovery.runOnce()).toBe(0);
    const more = await givenAbandoned(processor, MANY);
    const [one, other] = await Promise.all([recovery.runOnce(), another().recovery.runOnce()]);
    expect(one + other).toBe(MANY);
    expect(references(processor)).toEqual([...keys, ...more].sort());
  });

  test('leaves what is still unclear to the next run, which asks again', async () => {
    const { recovery, processor, unknownPayment } = compose(ports);
    const key = await unknownPayment('succeeded');
    processor.planLookUp(async () => ({ state: 'unknown', cause: 'no answer' }));
    expect(await recovery.runOnce()).toBe(0);
    expect(await stateOf(key)).toBe('abandoned');
    expect(await recovery.runOnce()).toBe(1);
    expect(processor.charges).toHaveLength(1);
  });

  test('leaves a payment alone for as long as its age says, whichever attempt gave it up', async () => {
    const ages: number[] = [];
    const recoverAfterMs = (ageMs: number) => {
      ages.push(ageMs);
      return ages.length < 3 ? 0 : LONG_MS;
    };
    const { payments, recovery, processor, unknownPayment } = compose(ports, { recoverAfterMs });
    const key = await unknownPayment('none');
    await untilPast(SHORT_MS);
    processor.plan({ outcome: 'none' }, { outcome: 'none' });
    expect(await payments.pay(key, MONEY)).toEqual({ state: 'unknown' });
    await untilPast(SHORT_MS);
    expect(await recovery.runOnce()).toBe(0);
    expect(ages).toHaveLength(3);
    expect(ages).toEqual(ages.toSorted((a, b) => a - b));
    expect(ages[1]).toBeGreaterThanOrEqual(SHORT_MS);
    // Recovery is patient now; a repeat of the payer is not kept waiting by that.
    expect(await recovery.runOnce()).toBe(0);
    expect(processor.lookUps).toHaveLength(2);
    expect(await payments.pay(key, MONEY)).toMatchObject({ state: 'processed' });
  });

  // Payments without a record that are too old to be sent again stay unclear until an operator resolves them.
  test('is not kept from the others by payments that stay unclear, however many those are', async () => {
    const processor = new RecordingProcessor(newProcessorName(), SHORT_MS);
    await givenAbandoned(processor, MANY);
    await untilPast(SHORT_MS);
    let patienceMs = LONG_MS;
    const { recovery, unknownPayment } = compose(ports, { recoverAfterMs: () => patienceMs }, processor);
    expect(await recovery.runOnce(), 'finished of those that stay unclear').toBe(0);
    patienceMs = 0;
    const key = await unknownPayment('succeeded');
    for (let run = 0; run < 5; run += 1) await recovery.runOnce();
    expect(await stateOf(key)).toBe('final');
  });

  test('reports a payment whose settle fails, and finishes the others all the same', async () => {
    const { processor, recovery, ledger, faults } = compose(ports);
    const keys = await givenAbandoned(processor, 3);
    ledger.failNext('settle', AWAY);
    expect(await recovery.runOnce()).toBe(2);
    expect(faults).toMatchObject([{ effect: 'unknown', cause: AWAY }]);
    expect(await recovery.runOnce()).toBe(1);
    expect(references(processor)).toEqual(keys);
  });

  test('finishes what is there before start resolves, and begins nothing more after stop', async () => {
    const { processor, recovery } = compose(ports);
    const [key] = await givenAbandoned(processor, 1);
    await recovery.start(LONG_MS);
    expect(await stateOf(key)).toBe('final');
    await recovery.stop();
    await givenAbandoned(processor, 1);
    expect(await recovery.runOnce()).toBe(0);
  });

  test('waits at its start for a slow processor no longer than it is told, and the round goes on behind it', async () => {
    const { processor, recovery } = compose(ports);
    const [key = ''] = await givenAbandoned(processor, 1);
    const answer = gate();
    processor.plan({ outcome: 'succeeded', after: answer.opened });
    await recovery.start(SHORT_MS);
    expect(await stateOf(key)).toBe('under way');
    answer.open();
    await untilFinal(key);
    await recovery.stop();
  });

  test('reports a round that fails, and begins the next one by itself', async () => {
    const { processor, recovery, ledger, faults } = compose(ports);
    const [key = ''] = await givenAbandoned(processor, 1);
    ledger.failNext('takeOverAbandoned', AWAY);
    await recovery.start(LONG_MS);
    expect(faults).toEqual([AWAY]);
    await untilFinal(key);
    await recovery.stop();
    expect(processor.charges).toHaveLength(1);
  });
});
