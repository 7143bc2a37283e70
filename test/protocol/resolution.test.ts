import { afterAll, beforeAll, expect, test } from 'vitest';
import { StoreUnavailable } from '#idempay/faults.js';
import { newProcessorName, SHORT_MS } from '../../testkit/protocol/payment-attempts.js';
import { compose } from '../../testkit/protocol/payment-composition.js';
import { openEmbeddedPorts, type Ports } from '../../testkit/protocol/ports.js';
import { RecordingProcessor } from '../../testkit/protocol/recording-processor.js';
import { until } from '../../testkit/time/until.js';
import { untilPast } from '../../testkit/time/until-past.js';

const DEADLINE_MS = 10_000;
const MONEY = { amount: '100.50', currency: 'USD' };
const NOT_FOUND_THERE = { state: 'DECLINED', reason: 'not on the statement' } as const;

let ports: Ports;

beforeAll(async () => {
  ports = await openEmbeddedPorts();
});
afterAll(() => ports.close());

/** A payment whose charge was sent once, with this end, and is never sent again. */
async function givenUnknown(outcome: 'succeeded' | 'none') {
  const processor = new RecordingProcessor(newProcessorName(), 0);
  const { payments, records } = compose(ports, processor, { dedupMs: SHORT_MS });
  const key = await payments.issueKey();
  processor.plan({ outcome, answerLost: true });
  expect(await payments.pay(key, MONEY)).toEqual({ state: 'unknown' });
  await untilPast(SHORT_MS);
  return { key, payments, records, processor };
}

test("what the processor knows counts more than an operator's verdict", async () => {
  const { key, payments, records } = await givenUnknown('succeeded');
  expect(await records.resolve(key, NOT_FOUND_THERE)).toMatchObject({
    state: 'final',
    payment: { state: 'COMPLETED' },
  });
  expect(await payments.pay(key, MONEY)).toMatchObject({
    state: 'replayed',
    final: { outcome: { state: 'COMPLETED' } },
  });
});

test('where the processor knows nothing, the verdict is final, and the processor is sent nothing any more', async () => {
  const { key, payments, records, processor } = await givenUnknown('none');
  const resolved = { state: 'resolved', payment: { state: 'DECLINED', resolution: NOT_FOUND_THERE.reason } };
  expect(await records.resolve(key, NOT_FOUND_THERE)).toMatchObject(resolved);
  expect(await records.resolve(key, NOT_FOUND_THERE)).toMatchObject(resolved);
  expect(await records.resolve(key, { ...NOT_FOUND_THERE, state: 'COMPLETED' })).toMatchObject({ state: 'final' });
  expect(await payments.pay(key, MONEY)).toMatchObject({
    state: 'replayed',
    final: { outcome: { state: 'DECLINED' } },
  });
  expect(processor.charges).toEqual([]);
});

/** An owner whose lease has ended while the processor works, and an operator who resolved its payment meanwhile. */
async function givenResolvedDuringCharge(outcome: 'succeeded' | 'declined', state: 'COMPLETED' | 'DECLINED') {
  const processor = new RecordingProcessor(newProcessorName());
  const owner = compose(ports, processor, { leaseMs: SHORT_MS });
  const operator = compose(ports, processor, { dedupMs: 0 });
  const key = await owner.payments.issueKey();
  let answer = () => {};
  const after = new Promise<void>((resolve) => {
    answer = resolve;
  });
  processor.plan({ outcome, after });
  const paying = owner.payments.pay(key, MONEY);
  await until('the charge to be sent', DEADLINE_MS, () => processor.charges.length === 1);
  owner.ledger.failAll('renew', new StoreUnavailable('unchanged', 'the process stands still'));
  const verdict = { state, reason: 'not found out otherwise' } as const;
  await until(
    'the lease to end',
    DEADLINE_MS,
    async () => (await operator.records.resolve(key, verdict)).state === 'resolved',
  );
  answer();
  expect(await paying).toMatchObject({ state: 'replayed', final: { outcome: { state } } });
  return { owner, operator, transactionId: processor.charges[0]?.transactionId };
}

/** Bug: the processor's "succeeded" met a payment that an operator had declined, and nobody was told. Fix: an alarm. */
test('a charge that succeeds after its payment was resolved as declined is an alarm that names the transaction', async () => {
  const { owner, operator, transactionId } = await givenResolvedDuringCharge('succeeded', 'DECLINED');
  expect(owner.contradictions).toEqual([{ transactionId, told: 'COMPLETED', kept: 'DECLINED' }]);
  expect(operator.contradictions).toEqual([]);
});

test('a charge that is declined after its payment was resolved as completed is an alarm', async () => {
  const { owner, transactionId } = await givenResolvedDuringCharge('declined', 'COMPLETED');
  expect(owner.contradictions).toEqual([{ transactionId, told: 'DECLINED', kept: 'COMPLETED' }]);
});

test('an outcome that an operator found out as well is no alarm', async () => {
  const { owner } = await givenResolvedDuringCharge('succeeded', 'COMPLETED');
  expect(owner.contradictions).toEqual([]);
});

test('an outcome that is looked up while another operator resolves otherwise is an alarm', async () => {
  const processor = new RecordingProcessor(newProcessorName(), 0);
  const [one, other] = [compose(ports, processor, { dedupMs: 0 }), compose(ports, processor, { dedupMs: 0 })];
  const key = await one.payments.issueKey();
  processor.plan({ outcome: 'none' });
  expect(await one.payments.pay(key, MONEY)).toEqual({ state: 'unknown' });
  processor.planLookUp(async () => {
    await other.records.resolve(key, NOT_FOUND_THERE);
    return { state: 'succeeded' };
  });
  expect(await one.records.resolve(key, { ...NOT_FOUND_THERE, state: 'COMPLETED' })).toMatchObject({ state: 'final' });
  expect(one.contradictions).toMatchObject([{ told: 'COMPLETED', kept: 'DECLINED' }]);
});
