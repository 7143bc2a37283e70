import { describe, expect, test } from 'vitest';
import type { PayAnswer } from '#idempay/payments/answers.js';
import { LONG_MS, newKey, newOwner, newProcessorName, SHORT_MS } from '../../testkit/protocol/payment-attempts.js';
import { type Composition, compose, MONEY, OTHER_MONEY } from '../../testkit/protocol/payment-composition.js';
import { sharePorts } from '../../testkit/protocol/ports.js';
import { RecordingProcessor } from '../../testkit/protocol/recording-processor.js';
import { untilPast } from '../../testkit/time/until-past.js';

/**
 * The payment protocol over real stores, with a processor that the test owns: a first payment, its repeats, takeovers, and
 * that no reference is ever charged twice. Two compositions over the same ports are two processes.
 */

/** Of a key that is used before it expires, also on a busy machine. */
const SHORT_LIFE_MS = 15 * SHORT_MS;

const ports = sharePorts();
/** A key store that has never heard of any key: what is left after all of it was lost. */
const forgetful = sharePorts();

/** The transaction id of an answer that has one; fails for every other answer. */
function idOf(answer: PayAnswer): string {
  if ('final' in answer && answer.final.outcome.state === 'COMPLETED') return answer.final.outcome.transactionId;
  throw new Error(`the answer names no transaction: ${JSON.stringify(answer)}`);
}

const finalOf = (answer: PayAnswer) => 'final' in answer && answer.final;

async function newPayment(settings: Parameters<typeof compose>[1] = {}) {
  const process = compose(ports, settings);
  return { ...process, key: await process.payments.issueKey() };
}

describe('a payment with a key of its own', () => {
  test('is processed and charged once, and every repeat replays it', async () => {
    const { payments, processor, key } = await newPayment();
    const first = await payments.pay(key, MONEY);
    expect(first.state).toBe('processed');
    expect(processor.charges).toEqual([{ reference: key, transactionId: idOf(first), ...MONEY }]);
    for (let repeat = 0; repeat < 3; repeat += 1)
      expect(await payments.pay(key, MONEY)).toEqual({ ...first, state: 'replayed' });
    expect(await payments.outcome(key)).toEqual(finalOf(first));
    expect([processor.charges.length, processor.lookUps]).toEqual([1, []]);
  });

  test('is final when it is declined: every repeat replays the same reason', async () => {
    const { payments, processor, key } = await newPayment();
    processor.plan({ outcome: 'declined' });
    const first = await payments.pay(key, MONEY);
    const outcome = { state: 'DECLINED', reason: 'insufficient funds' };
    expect(first).toMatchObject({ state: 'processed', final: { outcome } });
    expect(await payments.pay(key, MONEY)).toEqual({ ...first, state: 'replayed' });
    expect(processor.charges).toHaveLength(1);
  });

  test('is invalid with a key that was never issued, and nothing is charged or claimed', async () => {
    const { payments, processor } = compose(ports);
    const key = newKey();
    expect(await payments.pay(key, MONEY)).toEqual({ state: 'invalid key' });
    expect(processor.charges).toEqual([]);
    expect(await ports.ledger.find(key)).toEqual({ state: 'absent' });
  });

  test('is invalid for ever with a key that expired, unused or with its outcome', async () => {
    const { payments, processor, key: paid } = await newPayment({ idempotencyTtlMs: SHORT_LIFE_MS });
    const unused = await payments.issueKey();
    expect(await payments.pay(paid, MONEY)).toMatchObject({ state: 'processed' });
    await untilPast(SHORT_LIFE_MS);
    for (const key of [unused, paid]) {
      expect(await payments.pay(key, MONEY)).toEqual({ state: 'invalid key' });
      expect(await payments.outcome(key)).toBeUndefined();
    }
    expect(processor.charges).toHaveLength(1);
  });
});

describe('a payment that meets another attempt', () => {
  test('is in progress while the processor works, also when the lock is lost, and gives a new lock back', async () => {
    const { payments, processor, owners, chargingPayment } = compose(ports);
    const { key, answer, finish } = await chargingPayment();
    expect(await payments.pay(key, MONEY)).toMatchObject({ state: 'in progress' });
    expect(await payments.outcome(key)).toBeUndefined();
    await ports.keys.release(key, owners[0] ?? '');
    expect(await payments.pay(key, MONEY)).toMatchObject({ state: 'in progress' });
    expect(await ports.keys.look(key)).toMatchObject({ state: 'generated' });
    finish();
    expect(idOf(await answer)).toBe(processor.charges[0]?.transactionId);
    expect(processor.charges).toHaveLength(1);
  });

  test('is one of fifty at once on two processes: one is processed, one charge is sent, and all name one id', async () => {
    const { payments, processor, another, key } = await newPayment();
    const both = [payments, another().payments] as const;
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, index) => both[index % 2 === 0 ? 0 : 1].pay(key, MONEY)),
    );
    const [processed, ...others] = answers.filter(({ state }) => state === 'processed') as [PayAnswer];
    expect(others).toEqual([]);
    expect(answers.filter(({ state }) => state === 'in progress' || state === 'replayed')).toHaveLength(49);
    expect(processor.charges).toHaveLength(1);
    expect(await both[1].outcome(key)).toEqual(finalOf(processed));
  });
});

describe('an outcome that is not known', () => {
  test('ends lease and lock at once, and stays under its transaction id', async () => {
    const key = await compose(ports).unknownPayment('none');
    expect(await ports.ledger.find(key)).toMatchObject({ state: 'abandoned' });
    expect(await ports.keys.look(key)).toMatchObject({ state: 'generated' });
  });

  test('is looked up by the next repeat where the processor has it, charged or declined, and never sent again', async () => {
    const { payments, processor, unknownPayment } = compose(ports);
    const key = await unknownPayment('succeeded');
    const second = await payments.pay(key, MONEY);
    expect(second.state).toBe('processed');
    expect(processor.charges).toMatchObject([{ transactionId: idOf(second) }]);
    expect(processor.lookUps).toEqual([key]);
    expect(idOf(await payments.pay(key, MONEY))).toBe(idOf(second));
    const declined = await payments.pay(await unknownPayment('declined'), MONEY);
    expect(declined).toMatchObject({ state: 'processed', final: { outcome: { state: 'DECLINED' } } });
    expect(processor.charges).toHaveLength(2);
  });

  test('of a charge that never arrived: it is sent once by the next repeat, with the id and the money of the row', async () => {
    const { payments, processor, unknownPayment } = compose(ports);
    const key = await unknownPayment('none');
    const answer = await payments.pay(key, OTHER_MONEY);
    expect(processor.charges).toEqual([{ reference: key, transactionId: idOf(answer), ...MONEY }]);
    expect(finalOf(answer)).toMatchObject({ fingerprint: '100.50 USD' });
  });

  test('is finished by a repeat with another amount, which is a mismatch where that is rejected', async () => {
    const { payments, processor, unknownPayment } = compose(ports, { payloadMismatch: 'reject' });
    const key = await unknownPayment('none');
    expect(await payments.pay(key, OTHER_MONEY)).toEqual({ state: 'mismatch' });
    expect(processor.charges).toMatchObject([MONEY]);
    expect(await payments.pay(key, MONEY)).toMatchObject({ state: 'replayed' });
  });

  test('stays unknown when the look-up is unclear too, and nothing is sent', async () => {
    const { payments, processor, unknownPayment } = compose(ports);
    const key = await unknownPayment('none');
    processor.planLookUp(async () => ({ state: 'unknown', cause: 'no answer' }));
    expect(await payments.pay(key, MONEY)).toEqual({ state: 'unknown' });
    expect(processor.charges).toEqual([]);
    expect(await payments.pay(key, MONEY)).toMatchObject({ state: 'processed' });
  });

  test('without a record stays unknown once it is older than the processor deduplicates, and nothing is sent', async () => {
    const processor = new RecordingProcessor(newProcessorName(), SHORT_MS);
    const { payments, unknownPayment } = compose(ports, {}, processor);
    const key = await unknownPayment('none');
    await untilPast(SHORT_MS);
    expect(await payments.pay(key, MONEY)).toEqual({ state: 'unknown' });
    expect([processor.charges, processor.lookUps]).toEqual([[], [key]]);
  });

  test('is left alone by an instance with another processor', async () => {
    const { payments, unknownPayment } = compose(ports);
    const key = await unknownPayment('succeeded');
    const stranger = compose(ports);
    expect(await stranger.payments.pay(key, MONEY)).toMatchObject({ state: 'in progress' });
    expect([stranger.processor.charges, stranger.processor.lookUps]).toEqual([[], []]);
    expect(await payments.pay(key, MONEY)).toMatchObject({ state: 'processed' });
  });

  test('outlives its key: after that has expired the payment is finished under its id', async () => {
    const { payments, processor, unknownPayment } = compose(ports);
    const key = newKey();
    await ports.keys.issue(key, SHORT_LIFE_MS);
    await unknownPayment('succeeded', key);
    await untilPast(SHORT_LIFE_MS);
    expect(await ports.keys.look(key)).toMatchObject({ state: 'absent' });
    expect(idOf(await payments.pay(key, MONEY))).toBe(processor.charges[0]?.transactionId);
    expect(processor.charges).toHaveLength(1);
    expect(await payments.pay(key, MONEY)).toMatchObject({ state: 'replayed' });
  });
});

describe('a key store that has lost everything', () => {
  /** A process whose key store knows nothing of the keys of the other one, beside the same ledger. */
  const afterTheLoss = ({ processor }: Composition) => compose({ ...ports, keys: forgetful.keys }, {}, processor);

  test('replays a final payment from its row, and has the record put back', async () => {
    const before = await newPayment();
    const { key } = before;
    const first = await before.payments.pay(key, MONEY);
    const { payments, processor } = afterTheLoss(before);
    expect(await payments.outcome(key)).toEqual(finalOf(first));
    expect(await payments.pay(key, MONEY)).toEqual({ ...first, state: 'replayed' });
    expect(await forgetful.keys.look(key)).toMatchObject({ state: 'final' });
    expect(processor.charges).toHaveLength(1);
  });

  test('leaves a payment under way in progress, and one without an owner is finished', async () => {
    const before = compose(ports);
    const { key, answer: first, finish } = await before.chargingPayment();
    const { payments, processor } = afterTheLoss(before);
    expect(await payments.pay(key, MONEY)).toMatchObject({ state: 'in progress' });
    finish();
    await first;
    const abandoned = await before.unknownPayment('succeeded');
    const answer = await payments.pay(abandoned, MONEY);
    expect(answer.state).toBe('processed');
    expect(processor.chargesOf(abandoned)).toMatchObject([{ transactionId: idOf(answer) }]);
  });

  test('and has a key as generated again is corrected by the row when the payment is claimed', async () => {
    const before = await newPayment();
    const { key } = before;
    const first = await before.payments.pay(key, MONEY);
    await forgetful.keys.issue(key, LONG_MS);
    const { payments, processor } = afterTheLoss(before);
    expect(await payments.pay(key, MONEY)).toEqual({ ...first, state: 'replayed' });
    const begun = await forgetful.keys.begin({ key, owner: newOwner(), leaseMs: LONG_MS, fingerprint: '' });
    expect(begun).toMatchObject({ state: 'final' });
    expect(processor.charges).toHaveLength(1);
  });

  test('and has a key as generated again after the outcome has expired: it is refused, and its lock given back', async () => {
    const before = await newPayment({ idempotencyTtlMs: SHORT_LIFE_MS });
    const { key } = before;
    expect(await before.payments.pay(key, MONEY)).toMatchObject({ state: 'processed' });
    await untilPast(SHORT_LIFE_MS);
    await forgetful.keys.issue(key, LONG_MS);
    const { payments, processor } = afterTheLoss(before);
    expect(await payments.pay(key, MONEY)).toEqual({ state: 'invalid key' });
    expect(await forgetful.keys.look(key)).toMatchObject({ state: 'generated' });
    expect(processor.charges).toHaveLength(1);
  });
});
