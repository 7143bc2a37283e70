import { describe, expect, test } from 'vitest';
import type { PayAnswer } from '#idempay/payments/answers.js';
import { LONG_MS, newKey, SHORT_MS } from '../../testkit/protocol/payment-attempts.js';
import { MONEY, shareProtocol } from '../../testkit/protocol/payment-composition.js';
import { sharePorts } from '../../testkit/protocol/ports.js';
import { untilPast } from '../../testkit/time/until.js';

/**
 * The payment protocol over real stores, with a processor that the test owns: a first payment, its repeats, and that no
 * reference is ever charged twice. Two compositions over the same ports are two processes.
 */

const { compose, composeWithKey, statesOf } = await shareProtocol();
/** A key store that has never heard of any key: what is left after all of it was lost. */
const { keys: forgetful } = await sharePorts();

const finalOf = (answer: PayAnswer) => 'final' in answer && answer.final;

describe('a payment with a key of its own', () => {
  test.each(['succeeded', 'declined'] as const)(
    'is charged once when the charge has %s, and every repeat replays the outcome',
    async (outcome) => {
      const { payments, processor, key } = await composeWithKey();
      processor.plan({ outcome });
      const first = await payments.pay({ key }, MONEY);
      const [{ transactionId } = { transactionId: '' }] = processor.charges;
      expect(processor.charges).toEqual([{ key, transactionId, ...MONEY }]);
      const completed = { state: 'COMPLETED', transactionId: expect.stringMatching(/^TXN\d+$/) };
      const expected = outcome === 'succeeded' ? completed : { state: 'DECLINED', reason: 'insufficient funds' };
      expect(first).toMatchObject({ state: 'processed', final: { outcome: expected } });
      if (outcome === 'succeeded') expect(finalOf(first)).toMatchObject({ outcome: { transactionId } });
      for (let repeat = 0; repeat < 3; repeat += 1)
        expect(await payments.pay({ key }, MONEY)).toEqual({ ...first, state: 'replayed' });
      expect(await payments.outcome(key)).toEqual(finalOf(first));
      expect([processor.charges.length, processor.lookUps]).toEqual([1, []]);
    },
  );

  test('is invalid with a key that was never issued or has expired, unused or with its outcome', async () => {
    const { another, processor, key: paid } = await composeWithKey();
    const { payments } = another({ idempotencyTtlMs: SHORT_MS });
    const [unused, never] = [await payments.issueKey(), newKey()];
    expect(await payments.pay({ key: paid }, MONEY)).toMatchObject({ state: 'processed' });
    await untilPast(SHORT_MS);
    for (const key of [never, unused, paid]) {
      expect(await payments.pay({ key }, MONEY)).toEqual({ state: 'invalid key' });
      expect(await payments.outcome(key)).toBeUndefined();
    }
    expect([await statesOf(never), processor.charges.length]).toEqual([['absent', 'absent'], 1]);
  });

  test('is one of fifty at once on two processes: one is processed, one charge is sent, and all name one id', async () => {
    const { payments, processor, another, key } = await composeWithKey();
    const both = [payments, another().payments];
    const answers = await Promise.all(
      Array.from({ length: 25 }, () => both.map((each) => each.pay({ key }, MONEY))).flat(),
    );
    const [processed, ...others] = answers.filter(({ state }) => state === 'processed') as [PayAnswer];
    expect(others).toEqual([]);
    expect(answers.filter(({ state }) => state === 'in progress' || state === 'replayed')).toHaveLength(49);
    expect(processor.charges).toHaveLength(1);
    expect(await another().payments.outcome(key)).toEqual(finalOf(processed));
  });
});

describe('a key store that has lost everything', () => {
  test.each([
    ['replays a final payment from its row', false],
    ['and has a key as generated again replays a final payment that the claim finds', true],
  ])('%s, and has the record put back', async (_title, reissued) => {
    const { key, ...before } = await composeWithKey();
    const first = await before.payments.pay({ key }, MONEY);
    if (reissued) await forgetful.issue(key, LONG_MS);
    const { payments, processor } = before.another({}, forgetful);
    expect(await payments.outcome(key)).toEqual(finalOf(first));
    expect(await payments.pay({ key }, MONEY)).toEqual({ ...first, state: 'replayed' });
    expect(await forgetful.look(key)).toMatchObject({ state: 'final' });
    expect(processor.charges).toHaveLength(1);
  });

  test('leaves a payment under way in progress, and one without an owner is finished under its id', async () => {
    const before = compose();
    const { key, answer, finish } = await before.chargingPayment();
    const { payments, processor } = before.another({}, forgetful);
    expect(await payments.pay({ key }, MONEY)).toMatchObject({ state: 'in progress' });
    finish();
    await answer;
    const abandoned = await before.unknownPayment('succeeded');
    const finished = await payments.pay({ key: abandoned }, MONEY);
    const [{ transactionId } = { transactionId: '' }, ...others] = processor.chargesOf(abandoned);
    expect(finished).toMatchObject({ state: 'processed', final: { outcome: { transactionId } } });
    expect(others).toEqual([]);
  });

  test('and has a key as generated again after the outcome has expired: it is refused, and its lock given back', async () => {
    const { key, ...before } = await composeWithKey();
    const { payments: short } = before.another({ idempotencyTtlMs: SHORT_MS });
    expect(await short.pay({ key }, MONEY)).toMatchObject({ state: 'processed' });
    await untilPast(SHORT_MS);
    await forgetful.issue(key, LONG_MS);
    const { payments, processor } = before.another({}, forgetful);
    expect(await payments.pay({ key }, MONEY)).toEqual({ state: 'invalid key' });
    expect(await forgetful.look(key)).toMatchObject({ state: 'generated' });
    expect(processor.charges).toHaveLength(1);
  });

  test('answers a repeat that comes too late to take a payment over with the outcome of the takeover', async () => {
    const { payments, processor, another, unknownPayment } = compose();
    const key = await unknownPayment('succeeded');
    const late = another({}, forgetful);
    late.ledger.interruptNext('takeOver', async (proceed) => {
      expect(await payments.pay({ key }, MONEY)).toMatchObject({ state: 'processed' });
      return proceed();
    });
    expect(await late.payments.pay({ key }, MONEY)).toMatchObject({ state: 'replayed' });
    expect(processor.charges).toHaveLength(1);
  });
});
