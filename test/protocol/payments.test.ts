import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { PayAnswer } from '#idempay/payments/answers.js';
import { LONG_MS, newKey, newOwner, newProcessorName, SHORT_MS } from '../../testkit/protocol/payment-attempts.js';
import { type Composition, compose } from '../../testkit/protocol/payment-composition.js';
import { openEmbeddedPorts, type Ports } from '../../testkit/protocol/ports.js';
import { RecordingProcessor } from '../../testkit/protocol/recording-processor.js';
import { until } from '../../testkit/time/until.js';
import { untilPast } from '../../testkit/time/until-past.js';

/**
 * The payment protocol over real stores, with a processor that the test owns: who pays, who repeats, who takes over, and
 * that no reference is ever charged twice. Two compositions over the same ports are two processes.
 */

const MONEY = { amount: '100.50', currency: 'USD' };
const OTHER_MONEY = { amount: '9.00', currency: 'EUR' };
const DEADLINE_MS = 10_000;
/** Of a key that is used before it expires, also on a busy machine. */
const SHORT_LIFE_MS = 15 * SHORT_MS;

let ports: Ports;
/** A key store that has never heard of any key: what is left after all of it was lost. */
let forgetful: Ports;

beforeAll(async () => {
  [ports, forgetful] = await Promise.all([openEmbeddedPorts(), openEmbeddedPorts()]);
});
afterAll(() => Promise.all([ports.close(), forgetful.close()]));

function newProcessor(dedupMs?: number): RecordingProcessor {
  return new RecordingProcessor(newProcessorName(), dedupMs);
}

/** A moment that a test lets happen. */
function gate(): { readonly opened: Promise<void>; open(): void } {
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}

/** The transaction id of an answer that has one; fails for every other answer. */
function idOf(answer: PayAnswer): string {
  if ('final' in answer && answer.final.outcome.state === 'COMPLETED') return answer.final.outcome.transactionId;
  throw new Error(`the answer names no transaction: ${JSON.stringify(answer)}`);
}

/** Issues a key and leaves its payment PROCESSING under nobody: its first attempt ended without knowing the outcome. */
async function givenUnknown(processor: RecordingProcessor, outcome: 'succeeded' | 'declined' | 'none') {
  const first = compose(ports, processor);
  const key = await first.payments.issueKey();
  processor.plan({ outcome, answerLost: true });
  expect(await first.payments.pay(key, MONEY)).toEqual({ state: 'unknown' });
  return key;
}

describe('a payment that meets nobody', () => {
  test('a first payment is processed and charged once, and every repeat replays it', async () => {
    const processor = newProcessor();
    const { payments } = compose(ports, processor);
    const key = await payments.issueKey();
    const first = await payments.pay(key, MONEY);
    expect(first.state).toBe('processed');
    expect(processor.chargesOf(key)).toEqual([{ reference: key, transactionId: idOf(first), ...MONEY }]);
    for (let repeat = 0; repeat < 3; repeat += 1) {
      expect(await payments.pay(key, MONEY)).toEqual({ ...first, state: 'replayed' });
    }
    expect(await payments.outcome(key)).toEqual('final' in first && first.final);
    expect(processor.charges).toHaveLength(1);
    expect(processor.lookUps).toEqual([]);
  });

  test('a decline is final: it is processed once, and every repeat replays the same reason', async () => {
    const processor = newProcessor();
    const { payments } = compose(ports, processor);
    const key = await payments.issueKey();
    processor.plan({ outcome: 'declined' });
    const first = await payments.pay(key, MONEY);
    expect(first).toMatchObject({
      state: 'processed',
      final: { outcome: { state: 'DECLINED', reason: 'insufficient funds' } },
    });
    expect(await payments.pay(key, MONEY)).toEqual({ ...first, state: 'replayed' });
    expect(processor.charges).toHaveLength(1);
  });

  test('a key that nobody issued is invalid, and nothing is charged or claimed', async () => {
    const processor = newProcessor();
    const { payments } = compose(ports, processor);
    const key = newKey();
    expect(await payments.pay(key, MONEY)).toEqual({ state: 'invalid key' });
    expect(processor.charges).toEqual([]);
    expect(await ports.ledger.find(key)).toEqual({ state: 'absent' });
  });

  test('an expired key is invalid for ever, and so is one whose outcome has expired', async () => {
    const processor = newProcessor();
    const { payments } = compose(ports, processor, { idempotencyTtlMs: SHORT_LIFE_MS });
    const unused = await payments.issueKey();
    const paid = await payments.issueKey();
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
  test('while the processor works, a repeat and an outcome find the payment in progress', async () => {
    const processor = newProcessor();
    const { payments } = compose(ports, processor);
    const key = await payments.issueKey();
    const work = gate();
    processor.plan({ outcome: 'succeeded', after: work.opened });
    const first = payments.pay(key, MONEY);
    await until('the charge to be sent', DEADLINE_MS, () => processor.charges.length === 1);
    expect(await payments.pay(key, MONEY)).toMatchObject({ state: 'in progress' });
    expect(await payments.outcome(key)).toBeUndefined();
    work.open();
    expect(idOf(await payments.pay(key, MONEY).then(async () => first))).toBe(processor.charges[0]?.transactionId);
    expect(processor.charges).toHaveLength(1);
  });

  test('when the lock is lost, the row still says that the payment is under way, and the new lock is given back', async () => {
    const processor = newProcessor();
    const { payments, owners } = compose(ports, processor);
    const key = await payments.issueKey();
    const work = gate();
    processor.plan({ outcome: 'succeeded', after: work.opened });
    const first = payments.pay(key, MONEY);
    await until('the charge to be sent', DEADLINE_MS, () => processor.charges.length === 1);
    await ports.keys.release(key, owners[0] ?? '');
    expect(await payments.pay(key, MONEY)).toMatchObject({ state: 'in progress' });
    expect(await ports.keys.look(key)).toMatchObject({ state: 'generated' });
    work.open();
    expect(await first).toMatchObject({ state: 'processed' });
    expect(processor.charges).toHaveLength(1);
  });

  test('of fifty payments at once on two processes one is processed, one charge is sent, and all name one id', async () => {
    const processor = newProcessor();
    const processes = [compose(ports, processor), compose(ports, processor)] as const;
    const key = await processes[0].payments.issueKey();
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, index) => (processes[index % 2] ?? processes[0]).payments.pay(key, MONEY)),
    );
    const processed = answers.filter(({ state }) => state === 'processed');
    expect(processed).toHaveLength(1);
    expect(answers.filter(({ state }) => state === 'in progress' || state === 'replayed')).toHaveLength(49);
    expect(processor.charges).toHaveLength(1);
    expect(await processes[1].payments.outcome(key)).toEqual(
      processed[0] && 'final' in processed[0] && processed[0].final,
    );
  });
});

describe('an outcome that is not known', () => {
  test('ends lease and lock at once, and stays under its transaction id', async () => {
    const processor = newProcessor();
    const key = await givenUnknown(processor, 'none');
    expect(await ports.ledger.find(key)).toMatchObject({ state: 'abandoned' });
    expect(await ports.keys.look(key)).toMatchObject({ state: 'generated' });
  });

  test('a charge that the processor has is looked up by the next repeat, and never sent again', async () => {
    const processor = newProcessor();
    const key = await givenUnknown(processor, 'succeeded');
    const { payments } = compose(ports, processor);
    const second = await payments.pay(key, MONEY);
    expect(second.state).toBe('processed');
    expect(processor.chargesOf(key)).toMatchObject([{ transactionId: idOf(second) }]);
    expect(processor.lookUps).toEqual([key]);
    expect(idOf(await payments.pay(key, MONEY))).toBe(idOf(second));
  });

  test('a decline that the processor has is looked up as well', async () => {
    const processor = newProcessor();
    const key = await givenUnknown(processor, 'declined');
    const answer = await compose(ports, processor).payments.pay(key, MONEY);
    expect(answer).toMatchObject({ state: 'processed', final: { outcome: { state: 'DECLINED' } } });
    expect(processor.charges).toHaveLength(1);
  });

  test('a charge that never arrived is sent once by the next repeat, with the id and the money of the row', async () => {
    const processor = newProcessor();
    const key = await givenUnknown(processor, 'none');
    const answer = await compose(ports, processor).payments.pay(key, OTHER_MONEY);
    expect(processor.charges).toEqual([{ reference: key, transactionId: idOf(answer), ...MONEY }]);
    expect('final' in answer && answer.final.fingerprint).toBe('100.50 USD');
  });

  test('where a mismatch is rejected, the repeat with another amount finishes the payment and is told so', async () => {
    const processor = newProcessor();
    const key = await givenUnknown(processor, 'none');
    const { payments } = compose(ports, processor, { payloadMismatch: 'reject' });
    expect(await payments.pay(key, OTHER_MONEY)).toEqual({ state: 'mismatch' });
    expect(processor.charges).toMatchObject([MONEY]);
    expect(await payments.pay(key, MONEY)).toMatchObject({ state: 'replayed' });
  });

  test('a look-up that is unclear too leaves the payment unknown, and nothing is sent', async () => {
    const processor = newProcessor();
    const key = await givenUnknown(processor, 'none');
    processor.planLookUp(async () => ({ state: 'unknown', cause: 'no answer' }));
    const { payments } = compose(ports, processor);
    expect(await payments.pay(key, MONEY)).toEqual({ state: 'unknown' });
    expect(processor.charges).toEqual([]);
    expect(await payments.pay(key, MONEY)).toMatchObject({ state: 'processed' });
  });

  test('a charge without a record that is older than the processor deduplicates is never sent again', async () => {
    const processor = newProcessor(SHORT_MS);
    const key = await givenUnknown(processor, 'none');
    await untilPast(SHORT_MS);
    const { payments } = compose(ports, processor);
    expect(await payments.pay(key, MONEY)).toEqual({ state: 'unknown' });
    expect(processor.charges).toEqual([]);
    expect(processor.lookUps).toEqual([key]);
  });

  test('an instance with another processor leaves the payment alone', async () => {
    const processor = newProcessor();
    const key = await givenUnknown(processor, 'succeeded');
    const stranger = newProcessor();
    expect(await compose(ports, stranger).payments.pay(key, MONEY)).toMatchObject({ state: 'in progress' });
    expect([stranger.charges, stranger.lookUps]).toEqual([[], []]);
    expect(await compose(ports, processor).payments.pay(key, MONEY)).toMatchObject({ state: 'processed' });
  });

  test('a payment under way outlives its key: after the key has expired it is finished under its id', async () => {
    const processor = newProcessor();
    const key = newKey();
    await ports.keys.issue(key, SHORT_LIFE_MS);
    processor.plan({ outcome: 'succeeded', answerLost: true });
    const { payments } = compose(ports, processor);
    expect(await payments.pay(key, MONEY)).toEqual({ state: 'unknown' });
    await untilPast(SHORT_LIFE_MS);
    expect(await ports.keys.look(key)).toMatchObject({ state: 'absent' });
    const answer = await payments.pay(key, MONEY);
    expect(idOf(answer)).toBe(processor.charges[0]?.transactionId);
    expect(processor.charges).toHaveLength(1);
    expect(await payments.pay(key, MONEY)).toMatchObject({ state: 'replayed' });
  });
});

describe('a key store that has lost everything', () => {
  /** A process whose key store knows nothing of the keys of the others, beside the same ledger. */
  const afterTheLoss = (processor: RecordingProcessor): Composition =>
    compose({ ...ports, keys: forgetful.keys }, processor);

  test('a final payment is replayed from its row, and the record is put back', async () => {
    const processor = newProcessor();
    const before = compose(ports, processor);
    const key = await before.payments.issueKey();
    const first = await before.payments.pay(key, MONEY);
    const { payments } = afterTheLoss(processor);
    expect(await payments.outcome(key)).toEqual('final' in first && first.final);
    expect(await payments.pay(key, MONEY)).toEqual({ ...first, state: 'replayed' });
    expect(await forgetful.keys.look(key)).toMatchObject({ state: 'final' });
    expect(processor.charges).toHaveLength(1);
  });

  test('a payment under way is still in progress, and one without an owner is finished', async () => {
    const processor = newProcessor();
    const before = compose(ports, processor);
    const running = await before.payments.issueKey();
    const work = gate();
    processor.plan({ outcome: 'succeeded', after: work.opened });
    const first = before.payments.pay(running, MONEY);
    await until('the charge to be sent', DEADLINE_MS, () => processor.charges.length === 1);
    const { payments } = afterTheLoss(processor);
    expect(await payments.pay(running, MONEY)).toMatchObject({ state: 'in progress' });
    work.open();
    await first;

    const abandoned = await givenUnknown(processor, 'succeeded');
    const answer = await payments.pay(abandoned, MONEY);
    expect(answer.state).toBe('processed');
    expect(processor.chargesOf(abandoned)).toMatchObject([{ transactionId: idOf(answer) }]);
  });

  test('a record that came back as generated is corrected by the row when the payment is claimed', async () => {
    const processor = newProcessor();
    const before = compose(ports, processor);
    const key = await before.payments.issueKey();
    const first = await before.payments.pay(key, MONEY);
    await forgetful.keys.issue(key, LONG_MS);
    const { payments } = afterTheLoss(processor);
    expect(await payments.pay(key, MONEY)).toEqual({ ...first, state: 'replayed' });
    expect(await forgetful.keys.begin({ key, owner: newOwner(), leaseMs: LONG_MS, fingerprint: '' })).toMatchObject({
      state: 'final',
    });
    expect(processor.charges).toHaveLength(1);
  });

  test('a record that came back as generated after the outcome has expired is refused, and its lock is given back', async () => {
    const processor = newProcessor();
    const before = compose(ports, processor, { idempotencyTtlMs: SHORT_LIFE_MS });
    const key = await before.payments.issueKey();
    expect(await before.payments.pay(key, MONEY)).toMatchObject({ state: 'processed' });
    await untilPast(SHORT_LIFE_MS);
    await forgetful.keys.issue(key, LONG_MS);
    const { payments } = afterTheLoss(processor);
    expect(await payments.pay(key, MONEY)).toEqual({ state: 'invalid key' });
    expect(await forgetful.keys.look(key)).toMatchObject({ state: 'generated' });
    expect(processor.charges).toHaveLength(1);
  });
});
