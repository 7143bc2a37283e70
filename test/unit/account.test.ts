import { describe, expect, test } from 'vitest';
import { accountProblem, canBeAccount } from '#idempay/transactions/account.js';

describe('an account reference', () => {
  test.each([
    ['one letter', 'A'],
    ['64 letters', 'a'.repeat(64)],
    ['64 code points of two code units each', '\u{1f4b3}'.repeat(64)],
    ['white space', ' '],
    ['quotes, commas and a backslash', '",\\\''],
    ['letters of any script', 'Łódź 東京'],
    ['a line separator, which is no control character', '\u2028'],
  ])('%s is one', (_what, account) => {
    expect(accountProblem('fromAccount', account)).toBeUndefined();
    expect(canBeAccount(account)).toBe(true);
  });

  test.each([
    ['nothing', ''],
    ['65 letters', 'a'.repeat(65)],
    ['65 code points of two code units each', '\u{1f4b3}'.repeat(65)],
  ])('%s has the wrong length', (_what, account) => {
    expect(accountProblem('toAccount', account)).toBe("'toAccount' must have 1 to 64 characters.");
    expect(canBeAccount(account)).toBe(false);
  });

  test.each([
    ['a NUL', 'a\0b'],
    ['a line end', 'a\n'],
    ['a delete character', '\x7f'],
    ['a control character beyond ASCII', '\x85'],
    ['half a surrogate pair', 'a\ud83d'],
    ['a surrogate pair the wrong way round', '\udcb3\ud83d'],
  ])('%s is refused by name', (_what, account) => {
    expect(accountProblem('fromAccount', account)).toBe(
      "'fromAccount' must be well-formed Unicode without control characters.",
    );
  });
});
