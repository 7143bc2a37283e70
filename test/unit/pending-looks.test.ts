import { expect, test } from 'vitest';
import { createPendingLooks } from '#idempay/payments/pending.js';
import { newKey, newProcessorName, newTransactionId } from '../../testkit/protocol/payment-attempts.js';
import { ACTION, RecordingProcessor } from '../../testkit/protocol/recording-processor.js';
import { HandClock } from '../../testkit/time/hand-clock.js';

/** The questions about pending payments, which are kept in memory for a second (rule P24). */

const MONEY = { amount: '100.50', currency: 'USD' };
const MOST = 1_000;

function given() {
  const clock = new HandClock();
  const processor = new RecordingProcessor(newProcessorName());
  const payment = {
    ...{ key: newKey(), transactionId: newTransactionId(), ...MONEY, fingerprint: '100.50 USD', client: undefined },
    ...{ processor: processor.traits.name, processorId: 'pi_1', untilMs: clock.now(), remainingMs: 0 },
  };
  return { clock, processor, payment, looks: createPendingLooks({ processor, clock, events: {} }) };
}

const PENDING = { state: 'pending', untilMs: 0, action: ACTION } as const;

test('an action is given for a second, and to nobody while a cancellation ends the payment', () => {
  const { clock, payment, looks } = given();
  looks.note(payment.key, PENDING);
  expect(looks.answer(payment).action).toEqual(ACTION);
  expect(looks.answer({ ...payment, ending: 'order' }).action).toBeUndefined();
  clock.advance(999);
  expect(looks.answer(payment).action).toEqual(ACTION);
  clock.advance(1);
  expect(looks.answer(payment).action).toBeUndefined();
});

test('a thousand payments are remembered, those that were asked about last', () => {
  const { looks } = given();
  const keys = Array.from({ length: MOST }, () => newKey());
  for (const key of keys) looks.note(key, PENDING);
  const [first = '', second = '', third = ''] = keys;
  looks.note(first, PENDING);
  looks.note(newKey(), PENDING);
  expect([first, second, third].map(looks.mayBePending)).toEqual([true, false, true]);
});

test('a question names the charge, and its money unless the row was claimed after a loss', async () => {
  const { clock, processor, payment, looks } = given();
  await looks.ask(payment);
  clock.advance(1_000);
  await looks.ask({ ...payment, claimedAfterLoss: true });
  const [first, second] = processor.questions;
  expect(first).toMatchObject({ key: payment.key, money: MONEY, open: { id: 'pi_1' } });
  expect(second).toEqual({ key: payment.key, money: undefined, open: { id: 'pi_1' } });
});
