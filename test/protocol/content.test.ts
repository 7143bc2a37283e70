import { expect, test } from 'vitest';
import { textOf } from '../../testkit/protocol/contents.js';
import { inState } from '../../testkit/protocol/payment-attempts.js';
import { MONEY, orderOf, shareProtocol } from '../../testkit/protocol/payment-composition.js';

/** The content of a charge, in every send (rule P19). */

const CONTENT = { source: 'tok_1', description: 'Shoes \u{1f45f}', metadata: { b: '1', a: '2' } };
const OTHER = { source: 'tok_2', description: 'Hat', metadata: {} };
const FIRST = { ...MONEY, content: CONTENT };
const REPEAT = { ...MONEY, content: OTHER };

const { compose, composeWithKey } = await shareProtocol();

test('a charge has the content of its request, and the order that the client named', async () => {
  const { payments, processor } = compose();
  const named = orderOf();
  inState(await payments.pay(named, FIRST), 'processed');
  const [charge] = processor.charges;
  expect(charge).toMatchObject({ key: named.key, order: named.reference.text, ...MONEY });
  expect(textOf(charge?.content)).toBe(textOf(CONTENT));
});

test('a charge that its client did not describe has no content and no order', async () => {
  const { payments, processor, key } = await composeWithKey();
  inState(await payments.pay({ key }, MONEY), 'processed');
  expect(processor.charges).toMatchObject([{ order: undefined, content: undefined }]);
});

test.each([
  ['a repeat', REPEAT],
  ['a repeat with nothing', MONEY],
  ['a repeat with a bad source', { problem: 'no source', money: MONEY }],
  ['recovery', undefined],
])('%s that takes over sends the content of the first claim again', async (_who, request) => {
  const { payments, processor, recovery, key } = await composeWithKey();
  processor.plan({ outcome: 'none' });
  inState(await payments.pay({ key }, FIRST), 'unknown');
  if (request) inState(await payments.pay({ key }, request), 'processed');
  else expect(await recovery.runOnce()).toBe(1);
  expect(processor.charges.map(({ content }) => textOf(content))).toEqual([textOf(CONTENT)]);
});

test('a payment whose first claim had no content gets none from a repeat', async () => {
  const { payments, processor, key } = await composeWithKey();
  processor.plan({ outcome: 'none' });
  inState(await payments.pay({ key }, MONEY), 'unknown');
  inState(await payments.pay({ key }, REPEAT), 'processed');
  expect(processor.charges.map(({ content }) => content)).toEqual([undefined]);
});

test('a repeat with other content is the same payment, also where one with another amount is a mismatch', async () => {
  const { payments, processor, key } = await composeWithKey({ payloadMismatch: 'reject' });
  inState(await payments.pay({ key }, FIRST), 'processed');
  inState(await payments.pay({ key }, REPEAT), 'replayed');
  inState(await payments.pay({ key }, { ...REPEAT, amount: '1.00' }), 'mismatch');
  expect(processor.charges).toHaveLength(1);
});

test.each(['the charge', 'a look-up'])(
  'a decline whose reason quotes the source, by %s, is kept without it',
  async (by) => {
    const { payments, processor, key } = await composeWithKey();
    processor.plan({ outcome: 'declined', answerLost: by === 'a look-up' });
    const request = { ...MONEY, content: { source: 'funds' } };
    if (by === 'a look-up') inState(await payments.pay({ key }, request), 'unknown');
    const { final } = inState(await payments.pay({ key }, request), 'processed');
    expect(final.outcome).toEqual({ state: 'DECLINED', reason: 'insufficient (the source)' });
  },
);
