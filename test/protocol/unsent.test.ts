import { describe, expect, test } from 'vitest';
import { inState, LONG_MS, SHORT_MS } from '../../testkit/protocol/payment-attempts.js';
import { DOWN, MONEY, type Settings, shareProtocol } from '../../testkit/protocol/payment-composition.js';
import { sharePorts } from '../../testkit/protocol/ports.js';
import { RecordingProcessor } from '../../testkit/protocol/recording-processor.js';
import { untilPast } from '../../testkit/time/until.js';

/**
 * Bug: a payment whose charge never left the process, because there was no connection for it, was unknown like any other.
 * With PROCESSOR_DEDUP_SECONDS=0 nobody sent it any more, and it stayed PROCESSING for an operator. Fix: the row says that
 * nothing was sent, and the next takeover sends it (rule P15).
 */

const NO_ANSWER = { state: 'unknown', cause: 'connection refused' } as const;

const { ports, compose, composeWithKey } = await shareProtocol();
/** A key store that has never heard of any key, as after the life of all of them. */
const { keys: emptyKeys } = await sharePorts();

/** With a processor that does not recognise a repeat: nothing that may have been sent is ever sent again. */
const newPayment = () => composeWithKey({ dedupMs: 0 });

/** Its first charge did not leave the process. The life of keys in `settings` is of processes that come later. */
async function givenUnsent(settings?: Settings) {
  const { processor, payments, another, key } = await newPayment();
  processor.plan({ outcome: 'not sent' });
  inState(await payments.pay({ key }, MONEY), 'not sent');
  return { ...another({ dedupMs: 0, ...settings }), key };
}

describe('a payment whose charge was not sent', () => {
  test('is looked up and sent by a repeat, once, also to a processor that recognises no repeats', async () => {
    const { payments, processor, key } = await givenUnsent();
    expect(await payments.outcome(key)).toBeUndefined();
    expect(await payments.pay({ key }, MONEY)).toMatchObject({ state: 'processed' });
    expect(await payments.pay({ key }, MONEY)).toMatchObject({ state: 'replayed' });
    expect([processor.lookUps, processor.charges]).toMatchObject([[key], [{ key, ...MONEY }]]);
  });

  test('stays unsent through takeovers that cannot ask or cannot send, and is sent by recovery once it can', async () => {
    const { payments, processor, recovery, key } = await givenUnsent();
    processor.planLookUp(NO_ANSWER);
    expect(await payments.pay({ key }, MONEY)).toEqual({ state: 'not sent' });
    processor.plan({ outcome: 'not sent' });
    expect(await recovery.runOnce()).toBe(0);
    expect(await recovery.runOnce()).toBe(1);
    expect(await payments.pay({ key }, MONEY)).toMatchObject({ state: 'replayed' });
    expect(processor.charges).toHaveLength(1);
  });

  test('is sent by recovery for as long as a key lives, and after that by a repeat only', async () => {
    const { another, processor, recovery, key } = await givenUnsent({ idempotencyTtlMs: SHORT_MS });
    await untilPast(SHORT_MS);
    expect(await recovery.runOnce()).toBe(0);
    expect(processor.charges).toEqual([]);
    const { payments } = another({ dedupMs: 0 }, emptyKeys);
    expect(await payments.pay({ key }, MONEY)).toMatchObject({ state: 'processed' });
    expect(processor.charges).toHaveLength(1);
  });

  test('is resolved by an operator when recovery does not send it any more, and not before', async () => {
    const { another, processor, records, key } = await givenUnsent({ idempotencyTtlMs: LONG_MS });
    const verdict = { state: 'DECLINED', reason: 'cancelled by the payer' } as const;
    expect(await records.resolve(key, verdict)).toMatchObject({ state: 'too early' });
    await untilPast(SHORT_MS);
    const { records: late, payments } = another({ dedupMs: 0, idempotencyTtlMs: SHORT_MS });
    expect(await late.resolve(key, verdict)).toMatchObject({ state: 'resolved' });
    // The outcome lives as short as a key there, so its row is read, which has no life.
    expect(await ports.paymentHistory.find(key)).toMatchObject({ state: 'DECLINED' });
    await payments.pay({ key }, MONEY);
    expect(processor.charges).toEqual([]);
  });

  test.each([
    ['the row could not be marked, and is then looked up only', 'failNext', 'unknown', 0],
    ['the reply to the mark was lost, and is sent by the next repeat', 'loseNextAnswer', 'processed', 1],
  ] as const)('is unknown where %s', async (_, fail, next, charges) => {
    const { payments, processor, ledger, endLease, key } = await newPayment();
    processor.plan({ outcome: 'not sent' });
    ledger[fail]('abandon', DOWN);
    expect(await payments.pay({ key }, MONEY)).toEqual({ state: 'unknown' });
    await endLease(key);
    expect(await payments.pay({ key }, MONEY)).toMatchObject({ state: next });
    expect(processor.charges).toHaveLength(charges);
  });
});

describe('a payment that an earlier attempt may have sent', () => {
  test('is not made unsent by a later charge that was not, nor by a look-up that fails', async () => {
    const patient = compose({ dedupMs: LONG_MS });
    const key = await patient.unknownPayment('none');
    patient.processor.plan({ outcome: 'not sent' });
    expect(await patient.payments.pay({ key }, MONEY)).toEqual({ state: 'unknown' });
    const once = compose({}, new RecordingProcessor(patient.processor.traits.name, 0));
    once.processor.planLookUp(NO_ANSWER);
    for (let repeat = 0; repeat < 2; repeat += 1)
      expect(await once.payments.pay({ key }, MONEY)).toEqual({ state: 'unknown' });
    expect([...patient.processor.charges, ...once.processor.charges]).toEqual([]);
  });

  test.each(['was sent', 'was taken over by a process that died'])(
    'because an unsent one %s, is only looked up',
    async (before) => {
      const { payments, processor, key } = await givenUnsent();
      processor.plan({ outcome: 'none' });
      if (before === 'was sent') expect(await payments.pay({ key }, MONEY)).toEqual({ state: 'unknown' });
      else await ports.ledger.takeOver({ key, processor: processor.traits.name, owner: 'dead', leaseMs: SHORT_MS });
      await untilPast(SHORT_MS);
      expect(await payments.pay({ key }, MONEY)).toEqual({ state: 'unknown' });
      expect(processor.charges).toEqual([]);
    },
  );
});
