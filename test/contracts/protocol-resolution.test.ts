import { afterAll, beforeAll, expect, test } from 'vitest';
import { newProcessorName, SHORT_MS } from '../support/payment-attempts.js';
import { compose } from '../support/payment-composition.js';
import { openEmbeddedPorts, type Ports } from '../support/ports.js';
import { RecordingProcessor } from '../support/recording-processor.js';
import { untilPast } from '../support/until-past.js';

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
  const { payments, records } = compose(ports, processor, { resolvableAfterMs: SHORT_MS });
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
