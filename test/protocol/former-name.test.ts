import { expect, test } from 'vitest';
import { newProcessorName, SHORT_MS } from '../../testkit/protocol/payment-attempts.js';
import { compose, MONEY } from '../../testkit/protocol/payment-composition.js';
import { paymentSteps } from '../../testkit/protocol/payment-steps.js';
import { sharePorts } from '../../testkit/protocol/ports.js';
import { RecordingProcessor } from '../../testkit/protocol/recording-processor.js';
import { untilPast } from '../../testkit/time/until-past.js';

/**
 * Bug: a row named its processor without the account, so an instance with another account took it over, found no record
 * there, and charged the second account. Fix: names have the account (decision P14). Rows of the time before have a name
 * without it: they are looked up, and never sent again.
 */

const ports = sharePorts();
const { abandoned } = paymentSteps(ports);

/** A payment that a version without accounts has claimed and given up; `charged`: at account a. */
async function givenFormer({ charged, claimedFor = '' }: { charged: boolean; claimedFor?: string }) {
  const formerName = newProcessorName();
  const processor = new RecordingProcessor(`${formerName}?account=a`, undefined, formerName);
  const claim = await abandoned({ processor: formerName + claimedFor });
  const { key, transactionId } = claim;
  if (charged) await processor.charge({ reference: key, ...claim });
  return { ...compose(ports, { dedupMs: SHORT_MS }, processor), key, transactionId };
}

test.each(['a repeat', 'recovery'])(
  'a payment under the former name is finished by %s when the processor has a record of it',
  async (by) => {
    const { payments, recovery, processor, key, transactionId } = await givenFormer({ charged: true });
    if (by === 'recovery') expect(await recovery.runOnce()).toBe(1);
    else expect(await payments.pay(key, MONEY)).toMatchObject({ state: 'processed' });
    expect(await payments.outcome(key)).toMatchObject({ outcome: { transactionId } });
    expect(processor.charges).toHaveLength(1);
  },
);

test('a payment under the former name without a record is never sent again, by a repeat or by recovery', async () => {
  const { recovery, payments, processor, key, unknown } = await givenFormer({ charged: false });
  expect(await payments.pay(key, MONEY)).toEqual({ state: 'unknown' });
  expect(await recovery.runOnce()).toBe(0);
  expect(processor.lookUps).toEqual([key, key]);
  expect(processor.charges).toEqual([]);
  expect(unknown[0]?.cause).toContain('before rows named the account');
});

test('a payment under the former name is looked up before an operator resolves it', async () => {
  const verdict = { state: 'DECLINED', reason: 'not on the statement' } as const;
  const [charged, unsent] = [await givenFormer({ charged: true }), await givenFormer({ charged: false })];
  await untilPast(SHORT_MS);
  const kept = { state: 'final', payment: { state: 'COMPLETED' } };
  expect(await charged.records.resolve(charged.key, verdict)).toMatchObject(kept);
  expect(await unsent.records.resolve(unsent.key, verdict)).toMatchObject({ state: 'resolved' });
});

test('a payment of another account is not even looked up', async () => {
  const { recovery, payments, processor, key } = await givenFormer({ charged: false, claimedFor: '?account=b' });
  expect(await payments.pay(key, MONEY)).toMatchObject({ state: 'in progress' });
  expect(await recovery.runOnce()).toBe(0);
  expect([processor.lookUps, processor.charges]).toEqual([[], []]);
});
