import { afterAll, beforeAll, expect, test } from 'vitest';
import { givenClaim, newProcessorName, SHORT_MS } from '../../testkit/protocol/payment-attempts.js';
import { compose } from '../../testkit/protocol/payment-composition.js';
import { openEmbeddedPorts, type Ports } from '../../testkit/protocol/ports.js';
import { RecordingProcessor } from '../../testkit/protocol/recording-processor.js';
import { untilPast } from '../../testkit/time/until-past.js';

/**
 * Bug: a row named its processor without the account, so an instance with another account took it over, found no record
 * there, and charged the second account. Fix: names have the account (decisions P14). Rows of the time before have a name
 * without it: they are looked up, and never sent again.
 */

const MONEY = { amount: '100.50', currency: 'USD' };

let ports: Ports;

beforeAll(async () => {
  ports = await openEmbeddedPorts();
});
afterAll(() => ports.close());

/** A payment that a version without accounts has claimed and given up; `charged`: at this account. */
async function givenFormer(charged: boolean) {
  const formerName = newProcessorName();
  const processor = new RecordingProcessor(`${formerName}?account=a`, undefined, formerName);
  const process = compose(ports, processor, { dedupMs: SHORT_MS });
  const claim = await givenClaim(ports.ledger, { processor: formerName });
  if (charged) await processor.charge({ reference: claim.key, ...claim });
  await ports.ledger.abandon(claim, 0);
  return { ...process, processor, claim };
}

test('a payment under the former name is finished by a repeat when the processor has a record of it', async () => {
  const { payments, processor, claim } = await givenFormer(true);
  expect(await payments.pay(claim.key, MONEY)).toMatchObject({
    state: 'processed',
    final: { outcome: { transactionId: claim.transactionId } },
  });
  expect(processor.charges).toHaveLength(1);
});

test('a payment under the former name is finished by recovery when the processor has a record of it', async () => {
  const { recovery, payments, processor, claim } = await givenFormer(true);
  expect(await recovery.runOnce()).toBe(1);
  expect(await payments.outcome(claim.key)).toMatchObject({ outcome: { transactionId: claim.transactionId } });
  expect(processor.charges).toHaveLength(1);
});

test('a payment under the former name without a record is never sent again, by nobody', async () => {
  const { recovery, payments, processor, claim, unknown } = await givenFormer(false);
  expect(await payments.pay(claim.key, MONEY)).toEqual({ state: 'unknown' });
  expect(await recovery.runOnce()).toBe(0);
  expect(processor.lookUps).toEqual([claim.key, claim.key]);
  expect(processor.charges).toEqual([]);
  expect(unknown[0]?.cause).toContain('before rows named the account');
});

test('a payment under the former name is looked up before an operator resolves it', async () => {
  const verdict = { state: 'DECLINED', reason: 'not on the statement' } as const;
  const charged = await givenFormer(true);
  await untilPast(SHORT_MS);
  expect(await charged.records.resolve(charged.claim.key, verdict)).toMatchObject({
    state: 'final',
    payment: { state: 'COMPLETED' },
  });
  const unsent = await givenFormer(false);
  await untilPast(SHORT_MS);
  expect(await unsent.records.resolve(unsent.claim.key, verdict)).toMatchObject({ state: 'resolved' });
});

test('a payment of another account is not even looked up', async () => {
  const formerName = newProcessorName();
  const processor = new RecordingProcessor(`${formerName}?account=b`, undefined, formerName);
  const { recovery, payments } = compose(ports, processor);
  const claim = await givenClaim(ports.ledger, { processor: `${formerName}?account=a` });
  await ports.ledger.abandon(claim, 0);
  expect(await payments.pay(claim.key, MONEY)).toMatchObject({ state: 'in progress' });
  expect(await recovery.runOnce()).toBe(0);
  expect([processor.lookUps, processor.charges]).toEqual([[], []]);
});
