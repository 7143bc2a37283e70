import { expect, test } from 'vitest';
import { newProcessorName, SHORT_MS } from '../../testkit/protocol/payment-attempts.js';
import { AWAY, compose, MONEY } from '../../testkit/protocol/payment-composition.js';
import { sharePorts } from '../../testkit/protocol/ports.js';
import { RecordingProcessor } from '../../testkit/protocol/recording-processor.js';
import { until } from '../../testkit/time/until.js';
import { untilPast } from '../../testkit/time/until-past.js';

const DEADLINE_MS = 10_000;
const NOT_FOUND_THERE = { state: 'DECLINED', reason: 'not on the statement' } as const;

const ports = sharePorts();

/** A payment whose charge was sent once, with this end, and is never sent again. */
async function givenUnknown(outcome: 'succeeded' | 'none') {
  const process = compose(ports, { dedupMs: SHORT_MS }, new RecordingProcessor(newProcessorName(), 0));
  const key = await process.unknownPayment(outcome);
  await untilPast(SHORT_MS);
  return { ...process, key };
}

test("what the processor knows counts more than an operator's verdict", async () => {
  const { key, payments, records } = await givenUnknown('succeeded');
  const kept = { state: 'final', payment: { state: 'COMPLETED' } };
  expect(await records.resolve(key, NOT_FOUND_THERE)).toMatchObject(kept);
  const replayed = { state: 'replayed', final: { outcome: { state: 'COMPLETED' } } };
  expect(await payments.pay(key, MONEY)).toMatchObject(replayed);
});

test('where the processor knows nothing, the verdict is final, and the processor is sent nothing any more', async () => {
  const { key, payments, records, processor } = await givenUnknown('none');
  const resolved = { state: 'resolved', payment: { state: 'DECLINED', resolution: NOT_FOUND_THERE.reason } };
  for (let time = 0; time < 2; time += 1) expect(await records.resolve(key, NOT_FOUND_THERE)).toMatchObject(resolved);
  expect(await records.resolve(key, { ...NOT_FOUND_THERE, state: 'COMPLETED' })).toMatchObject({ state: 'final' });
  const replayed = { state: 'replayed', final: { outcome: { state: 'DECLINED' } } };
  expect(await payments.pay(key, MONEY)).toMatchObject(replayed);
  expect(processor.charges).toEqual([]);
});

/** Bug: the processor's "succeeded" met a payment that an operator had declined, and nobody was told. Fix: an alarm. */
test.each([
  ['succeeds', 'DECLINED', 'is an alarm that names the transaction'],
  ['is declined', 'COMPLETED', 'is an alarm that names the transaction'],
  ['succeeds', 'COMPLETED', 'is no alarm'],
] as const)('a charge that %s after its payment was resolved as %s %s', async (told, state, alarm) => {
  const owner = compose(ports, { leaseMs: SHORT_MS });
  const operator = owner.another({ dedupMs: 0 });
  const { key, answer, finish } = await owner.chargingPayment(told === 'succeeds' ? 'succeeded' : 'declined');
  owner.ledger.failAll('renew', AWAY);
  const verdict = { state, reason: 'not found out otherwise' } as const;
  await until('the lease to end', DEADLINE_MS, async () => {
    return (await operator.records.resolve(key, verdict)).state === 'resolved';
  });
  finish();
  expect(await answer).toMatchObject({ state: 'replayed', final: { outcome: { state } } });
  const { transactionId } = owner.processor.charges[0] ?? {};
  const contradiction = { transactionId, told: told === 'succeeds' ? 'COMPLETED' : 'DECLINED', kept: state };
  expect(owner.contradictions).toEqual(alarm === 'is no alarm' ? [] : [contradiction]);
  expect(operator.contradictions).toEqual([]);
});

test('an outcome that is looked up while another operator resolves otherwise is an alarm', async () => {
  const { key, processor, records, contradictions, another } = await givenUnknown('none');
  const other = another({ dedupMs: 0 });
  processor.planLookUp(async () => {
    await other.records.resolve(key, NOT_FOUND_THERE);
    return { state: 'succeeded' };
  });
  expect(await records.resolve(key, { ...NOT_FOUND_THERE, state: 'COMPLETED' })).toMatchObject({ state: 'final' });
  expect(contradictions).toMatchObject([{ told: 'COMPLETED', kept: 'DECLINED' }]);
});
