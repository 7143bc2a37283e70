import { expect, test } from 'vitest';
import { LONG_MS, newProcessorName } from '../../testkit/protocol/payment-attempts.js';
import { MONEY, shareProtocol } from '../../testkit/protocol/payment-composition.js';
import { RecordingProcessor } from '../../testkit/protocol/recording-processor.js';

/**
 * A processor that has another name now (rule P14): `PROCESSOR_FORMER_NAMES` says that it is the same account. A payment that was claimed under
 * an earlier name is looked up here and never sent, because nobody knows whether what the adapter deduplicates by has moved with it.
 */

const { compose, statesOf, pending } = await shareProtocol();

/** A payment under way of an adapter that is gone, and the adapter that took its place. */
async function givenMoved(outcome: 'succeeded' | 'none') {
  const before = compose({ dedupMs: LONG_MS });
  const key = await before.unknownPayment(outcome);
  const formerName = before.processor.traits.name;
  const moved = new RecordingProcessor(newProcessorName(), LONG_MS, 5, [newProcessorName(), formerName]);
  const stranger = new RecordingProcessor(newProcessorName(), LONG_MS);
  if (outcome === 'succeeded') moved.planLookUp({ state: outcome, charged: MONEY });
  return { key, formerName, moved, stranger, process: compose({}, moved), other: compose({}, stranger) };
}

test.each(['recovery', 'a repeat'])('%s settles what its look-up finds, and no other processor does', async (who) => {
  const { key, moved, stranger, process, other } = await givenMoved('succeeded');
  const go = ({ payments, recovery }: typeof process) =>
    who === 'recovery' ? recovery.runOnce() : payments.pay({ key }, MONEY);
  await go(other);
  expect((await statesOf(key))[1]).toBe('abandoned');
  await go(process);
  expect((await statesOf(key))[1]).toBe('final');
  expect([stranger.lookUps, moved.lookUps, moved.charges]).toEqual([[], [key], []]);
});

test.each(['recovery', 'a repeat', 'an operator'])('%s sends nothing that has no record', async (who) => {
  const { key, formerName, moved, process } = await givenMoved('none');
  if (who === 'recovery') await process.recovery.runOnce();
  else if (who === 'a repeat') expect(await process.payments.pay({ key }, MONEY)).toEqual({ state: 'unknown' });
  else expect(await process.askProcessor(key)).toMatchObject({ state: 'answered', answer: 'no record' });
  expect(moved.lookUps).toEqual([key]);
  expect(moved.charges).toEqual([]);
  if (who !== 'an operator')
    expect(process.unknown).toEqual([
      { key, cause: expect.stringContaining(`claimed under a former name, ${formerName}`) },
    ]);
  const { next } = (await process.findTimeline(key)) as { next: { text: string } };
  expect(next.text).toMatch(/^Recovery asks the processor again/);
});

test.each(['recovery', 'a repeat'])('%s settles a payment that is pending', async (who) => {
  const formerName = newProcessorName();
  const { key } = await pending({ processor: formerName });
  const moved = new RecordingProcessor(newProcessorName(), LONG_MS, 5, [newProcessorName(), formerName]);
  moved.decide(key, { state: 'succeeded', charged: MONEY });
  const { recovery, payments } = compose({}, moved);
  if (who === 'recovery') expect(await recovery.runOnce()).toBe(1);
  else expect(await payments.pay({ key }, MONEY)).toMatchObject({ state: 'processed' });
  expect((await statesOf(key))[1]).toBe('final');
  expect([moved.lookUps, moved.charges]).toEqual([[key], []]);
});

test('what was surely never sent is not sent either', async () => {
  const before = compose({ dedupMs: LONG_MS });
  before.processor.plan({ outcome: 'not sent' });
  const key = await before.payments.issueKey();
  expect(await before.payments.pay({ key }, MONEY)).toEqual({ state: 'not sent' });
  const moved = new RecordingProcessor(newProcessorName(), LONG_MS, 5, [before.processor.traits.name]);
  // Not 'not sent', which promises that it will be.
  expect(await compose({}, moved).payments.pay({ key }, MONEY)).toEqual({ state: 'unknown' });
  expect([moved.lookUps, moved.charges]).toEqual([[key], []]);
});

/**
 * Bug: an order was acknowledged as cancelled although a charge on its way to the former adapter could still come. Cause: the ending was asked for
 * at an adapter that may not deduplicate by what the former one did. Fix: only a charge that has come is ended.
 */
test.each([
  ['pending', { state: 'pending', untilMs: Date.now() + LONG_MS }, 'cancelled', 1],
  ['of no record', { state: 'no record' }, 'cannot be ended', 0],
] as const)(
  'a cancellation ends no payment that may still be on its way: it is %s',
  async (_, found, answer, endings) => {
    const { key, moved, process } = await givenMoved('none');
    moved.planLookUp(found);
    expect(await process.payments.cancel({ key })).toMatchObject({ state: answer });
    expect([moved.endings.length, moved.charges]).toEqual([endings, []]);
  },
);
