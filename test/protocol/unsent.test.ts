import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { StoreUnavailable } from '#idempay/faults.js';
import { LONG_MS, newProcessorName, SHORT_MS } from '../../testkit/protocol/payment-attempts.js';
import { compose } from '../../testkit/protocol/payment-composition.js';
import { openEmbeddedPorts, type Ports } from '../../testkit/protocol/ports.js';
import { RecordingProcessor } from '../../testkit/protocol/recording-processor.js';
import { untilPast } from '../../testkit/time/until-past.js';

/**
 * Bug: a payment whose charge never left the process, because there was no connection for it, was unknown like any other.
 * With PROCESSOR_DEDUP_SECONDS=0 nobody sent it any more, and it stayed PROCESSING for an operator. Fix: the row says that
 * nothing was sent, and whoever takes it over next sends it (decisions P15).
 */

const MONEY = { amount: '100.50', currency: 'USD' };
const FULL = new StoreUnavailable('unchanged', 'the disk is full');
/** Of a key that a test outlives. */
const SHORT_LIFE_MS = 15 * SHORT_MS;

let ports: Ports;

beforeAll(async () => {
  ports = await openEmbeddedPorts();
});
afterAll(() => ports.close());

/** A processor that does not recognise a repeat: nothing that may have been sent is ever sent again. */
function given(settings: Parameters<typeof compose>[2] = {}) {
  const processor = new RecordingProcessor(newProcessorName(), 0);
  return { processor, ...compose(ports, processor, settings) };
}

/** A payment whose first charge did not leave the process. */
async function givenUnsent({ payments, processor }: ReturnType<typeof given>): Promise<string> {
  const key = await payments.issueKey();
  processor.plan({ outcome: 'not sent' });
  expect(await payments.pay(key, MONEY)).toEqual({ state: 'not sent' });
  return key;
}

describe('a payment whose charge was not sent', () => {
  test('is looked up and sent by a repeat, once, also to a processor that recognises no repeats', async () => {
    const process = given();
    const { payments, processor } = process;
    const key = await givenUnsent(process);
    expect(await payments.outcome(key)).toBeUndefined();
    expect(await payments.pay(key, MONEY)).toMatchObject({ state: 'processed' });
    expect(await payments.pay(key, MONEY)).toMatchObject({ state: 'replayed' });
    expect([processor.lookUps, processor.charges]).toMatchObject([[key], [{ reference: key, ...MONEY }]]);
  });

  test('is sent by recovery, once', async () => {
    const process = given();
    const key = await givenUnsent(process);
    expect(await process.recovery.runOnce()).toBe(1);
    expect(await process.payments.pay(key, MONEY)).toMatchObject({ state: 'replayed' });
    expect(process.processor.charges).toHaveLength(1);
  });

  test('stays unsent through takeovers that cannot ask or cannot send, and is sent by the one that can', async () => {
    const process = given();
    const { payments, processor, recovery } = process;
    const key = await givenUnsent(process);
    processor.planLookUp(async () => ({ state: 'unknown', cause: 'connection refused' }));
    expect(await payments.pay(key, MONEY)).toEqual({ state: 'not sent' });
    processor.plan({ outcome: 'not sent' });
    expect(await recovery.runOnce()).toBe(0);
    expect(await payments.pay(key, MONEY)).toMatchObject({ state: 'processed' });
    expect(processor.charges).toHaveLength(1);
  });

  test('is finished by what a look-up finds all the same, and not sent', async () => {
    const process = given();
    const key = await givenUnsent(process);
    process.processor.planLookUp(async () => ({ state: 'succeeded' }));
    expect(await process.payments.pay(key, MONEY)).toMatchObject({ state: 'processed' });
    expect(process.processor.charges).toEqual([]);
  });

  test('is sent by recovery for as long as a key lives, and after that by a repeat only', async () => {
    const process = given({ idempotencyTtlMs: SHORT_LIFE_MS });
    const { payments, processor, recovery } = process;
    const key = await givenUnsent(process);
    await untilPast(SHORT_LIFE_MS);
    expect(await recovery.runOnce()).toBe(0);
    expect(processor.charges).toEqual([]);
    expect(await payments.pay(key, MONEY)).toMatchObject({ state: 'processed' });
    expect(processor.charges).toHaveLength(1);
  });

  test("is an operator's when recovery does not send it any more, and not before", async () => {
    const process = given({ idempotencyTtlMs: SHORT_LIFE_MS, dedupMs: 0 });
    const verdict = { state: 'DECLINED', reason: 'cancelled by the payer' } as const;
    const key = await givenUnsent(process);
    expect(await process.records.resolve(key, verdict)).toMatchObject({ state: 'too early' });
    await untilPast(SHORT_LIFE_MS);
    expect(await process.records.resolve(key, verdict)).toMatchObject({ state: 'resolved' });
    expect(await process.payments.pay(key, MONEY)).toMatchObject({ final: { outcome: { state: 'DECLINED' } } });
    expect(process.processor.charges).toEqual([]);
  });

  test('is told as unknown where the row could not be marked, and is then looked up only', async () => {
    const process = given({ leaseMs: SHORT_LIFE_MS });
    const { payments, processor, ledger } = process;
    const key = await payments.issueKey();
    processor.plan({ outcome: 'not sent' });
    ledger.failNext('abandon', FULL);
    expect(await payments.pay(key, MONEY)).toEqual({ state: 'unknown' });
    await untilPast(SHORT_LIFE_MS);
    expect(await payments.pay(key, MONEY)).toEqual({ state: 'unknown' });
    expect(processor.charges).toEqual([]);
  });

  test('is told as unknown where the reply to the mark was lost', async () => {
    const { payments, processor, ledger } = given();
    const key = await payments.issueKey();
    processor.plan({ outcome: 'not sent' });
    ledger.loseNextAnswer('abandon', new StoreUnavailable('unknown', 'the reply was lost'));
    expect(await payments.pay(key, MONEY)).toEqual({ state: 'unknown' });
    expect(await payments.pay(key, MONEY)).toMatchObject({ state: 'processed' });
    expect(processor.charges).toHaveLength(1);
  });
});

describe('a payment that an earlier attempt may have sent', () => {
  test('is not made unsent by a later charge that was not', async () => {
    const processor = new RecordingProcessor(newProcessorName(), LONG_MS);
    const patient = compose(ports, processor);
    const key = await patient.payments.issueKey();
    processor.plan({ outcome: 'none' }, { outcome: 'not sent' });
    expect(await patient.payments.pay(key, MONEY)).toEqual({ state: 'unknown' });
    expect(await patient.payments.pay(key, MONEY)).toEqual({ state: 'unknown' });

    const once = compose(ports, new RecordingProcessor(processor.name, 0));
    expect(await once.payments.pay(key, MONEY)).toEqual({ state: 'unknown' });
    expect(processor.charges).toEqual([]);
  });

  test('is not made unsent by a look-up that fails', async () => {
    const { payments, processor } = given();
    const key = await payments.issueKey();
    processor.plan({ outcome: 'none' });
    expect(await payments.pay(key, MONEY)).toEqual({ state: 'unknown' });
    processor.planLookUp(async () => ({ state: 'unknown', cause: 'connection refused' }));
    expect(await payments.pay(key, MONEY)).toEqual({ state: 'unknown' });
    expect(await payments.pay(key, MONEY)).toEqual({ state: 'unknown' });
    expect(processor.charges).toEqual([]);
  });

  test('because an unsent one was sent, is only looked up', async () => {
    const process = given();
    const { payments, processor } = process;
    const key = await givenUnsent(process);
    processor.plan({ outcome: 'none' });
    expect(await payments.pay(key, MONEY)).toEqual({ state: 'unknown' });
    expect(await payments.pay(key, MONEY)).toEqual({ state: 'unknown' });
    expect(processor.charges).toEqual([]);
  });

  test('because whoever took the unsent one over died, is only looked up', async () => {
    const process = given();
    const { payments, processor } = process;
    const key = await givenUnsent(process);
    await ports.ledger.takeOver({ key, processor: processor.name, owner: 'dead', leaseMs: SHORT_MS });
    await untilPast(SHORT_MS);
    expect(await payments.pay(key, MONEY)).toEqual({ state: 'unknown' });
    expect(processor.charges).toEqual([]);
  });
});
