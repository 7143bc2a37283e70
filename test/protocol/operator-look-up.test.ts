import { describe, expect, test } from 'vitest';
import { inState, newProcessorName, SHORT_MS } from '../../testkit/protocol/payment-attempts.js';
import { compose, MONEY } from '../../testkit/protocol/payment-composition.js';
import { sharePorts } from '../../testkit/protocol/ports.js';
import { RecordingProcessor } from '../../testkit/protocol/recording-processor.js';
import { untilPast } from '../../testkit/time/until-past.js';

const VERDICT = { state: 'DECLINED', reason: 'not on the statement' } as const;
const UNKNOWN = { state: 'unknown', cause: 'the processor is away' } as const;

const ports = sharePorts();

async function givenUnknown(outcome: 'none' | 'not sent' = 'none') {
  const process = compose(ports, { dedupMs: SHORT_MS }, new RecordingProcessor(newProcessorName(), 0));
  const key = await process.payments.issueKey();
  process.processor.plan({ outcome });
  inState(await process.payments.pay(key, MONEY), outcome === 'none' ? 'unknown' : 'not sent');
  await untilPast(SHORT_MS);
  return { ...process, key };
}

/** What the processor knows counts more than a verdict, so it is asked first. */
describe("an operator's question to the processor", () => {
  test('is not asked for a final payment, nor for one of another processor', async () => {
    const { key, records, processor } = await givenUnknown();
    const elsewhere = compose(ports);
    await elsewhere.records.resolve(key, VERDICT);
    expect(elsewhere.processor.lookUps).toEqual([]);
    for (let time = 0; time < 2; time += 1) await records.resolve(key, VERDICT);
    expect(processor.lookUps).toEqual([key]);
  });

  test('that the processor does not answer leaves the row to the verdict', async () => {
    const { key, records, processor, owners } = await givenUnknown();
    processor.planLookUp(async () => UNKNOWN);
    const before = owners.length;
    expect(await records.resolve(key, VERDICT)).toMatchObject({ state: 'resolved' });
    expect([processor.lookUps, owners.length - before]).toEqual([[key], 1]);
  });

  test.each(['none', 'not sent'] as const)(
    'that is answered once and not again is logged as unknown (%s)',
    async (outcome) => {
      const { key, records, processor, unknown } = await givenUnknown(outcome);
      const before = unknown.length;
      processor.planLookUp(async () => ({ state: 'succeeded' }));
      processor.planLookUp(async () => UNKNOWN);
      await records.resolve(key, VERDICT);
      expect(unknown.slice(before)).toMatchObject([{ key, cause: UNKNOWN.cause }]);
    },
  );

  test('whose answer finishes the payment is not logged as unknown', async () => {
    const { key, records, processor, unknown } = await givenUnknown();
    const before = unknown.length;
    for (let time = 0; time < 2; time += 1) processor.planLookUp(async () => ({ state: 'succeeded' }));
    expect(await records.resolve(key, VERDICT)).toMatchObject({ state: 'final', payment: { state: 'COMPLETED' } });
    expect(unknown).toHaveLength(before);
  });

  test.each([
    ['succeeded', 'COMPLETED'],
    ['declined', 'DECLINED'],
  ] as const)('that is answered "%s" is no alarm when another operator wrote %s meanwhile', async (answered, state) => {
    const { key, processor, records, contradictions, another } = await givenUnknown();
    const other = another({ dedupMs: 0 });
    processor.planLookUp(async () => {
      await other.records.resolve(key, { ...VERDICT, state });
      return answered === 'succeeded' ? { state: answered } : { state: answered, reason: 'no funds' };
    });
    await records.resolve(key, { ...VERDICT, state });
    expect(contradictions).toEqual([]);
  });

  test('is no alarm while the attempt of the payment is in progress', async () => {
    const owner = compose(ports);
    const { key, answer, finish } = await owner.chargingPayment();
    const operator = owner.another({ dedupMs: 0 });
    owner.processor.planLookUp(async () => ({ state: 'succeeded' }));
    expect(await operator.records.resolve(key, VERDICT)).toMatchObject({ state: 'in progress' });
    expect(operator.contradictions).toEqual([]);
    finish();
    expect(await answer).toMatchObject({ state: 'processed' });
  });
});
