import { expect, test } from 'vitest';
import { MOST_SOURCE, membersLikeCards, sourceProblem, textProblem } from '#idempay/payments/values/content.js';

/** Rule P19, which `http/payment-content` tests over HTTP. */

test.each([
  '!',
  '~'.repeat(MOST_SOURCE),
  'tok_4242424242424242',
  // One digit off, too short, too long, and a first digit that no card has.
  '4242424242424241',
  '424242424242',
  '42424242424242424242',
  '1234567812345670',
  '0000000000000000',
])('a source may be %s', (source) => {
  expect(sourceProblem(source)).toBeUndefined();
});

test.each(['', 'x'.repeat(MOST_SOURCE + 1), 'tok 1', ' tok', 'tok\n', 'tök', 'tok\0', 'tok\u007f', '\u{1f45f}'])(
  '%j is no source',
  (source) => expect(sourceProblem(source)).toMatch(/visible ASCII/),
);

/** Numbers that card companies publish for tests, of 13 to 19 digits. */
test.each([
  ...['4222222222222', '30569309025904', '378282246310005', '4242424242424242', '6011000990139424'],
  ...['2223003122003222', '6205500000000000004'],
  ...['4242-4242-4242-4242', 'card:4242424242424242', 'PAN:4242-4242-4242-4242', 'cc:378282246310005'],
  ...['3782-822463-10005', '3056-930902-5904', '6205-5000-0000-0000-004'],
])('%s is refused as a card number', (source) => {
  expect(sourceProblem(source)).toMatch(/card number/);
});

test('members with a number like that of a card are named, without the number', () => {
  const content = {
    description: 'paid by 4242424242424242',
    metadata: { order: '4222222222222', note: '4242 4242', a: 'b' },
  };
  expect(membersLikeCards(content)).toEqual(['description', 'metadata.order']);
  expect(membersLikeCards({ source: 'tok_1' })).toEqual([]);
});

/**
 * Bug: only digits without separators were found in a text, which is not how people write a card number; and the name of a member was
 * logged although the name itself was the number.
 */
test.each([
  ['Paid by 4242 4242 4242 4242, valid until 12/29', true],
  ['4242-4242-4242-4242 123', true],
  ['2000 4242 4242 4242 4242', true],
  ['(3782 822463 10005)', true],
  ['tok_4242424242424242', true],
  ['4242 4242 4242 4241', false],
  ['4242 4242-4242 4242', false],
  ['42424242424242424242', false],
  ['0190a000-0000-7000-8000-000000000001', false],
])('%j has a number like that of a card: %s', (text, isLike) => {
  expect(membersLikeCards({ description: text })).toEqual(isLike ? ['description'] : []);
});

test('a name that is a number like that of a card is not told', () => {
  expect(membersLikeCards({ metadata: { '4242424242424242': 'paid', '4242 4242 4242 4242': '1' } })).toEqual([
    'metadata',
  ]);
});

test.each([
  ['\u{1f45f}'.repeat(3), undefined],
  ['', /must have 1 to 3 characters/],
  ['\u{1f45f}'.repeat(4), /must have 1 to 3 characters/],
  ['a\0', /U\+0000/],
  ['\ud83d', /half a character/],
  ['\udc5f', /half a character/],
])('a text of one to three code points is judged by them: %j', (text, problem) => {
  if (problem) expect(textProblem('It', text, 3, 1)).toMatch(problem);
  else expect(textProblem('It', text, 3, 1)).toBeUndefined();
});
