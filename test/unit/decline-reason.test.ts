import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { cleanReason } from '#idempay/payments/processors/decline-reason.js';

describe('the reason of a decline', () => {
  test.each([
    ['insufficient funds', 'insufficient funds'],
    ['  card blocked\n', 'card blocked'],
    ['line\r\nline\ttab\u0000nul\u0085nel\u007fdel', 'line  line tab nul nel del'],
    ['', 'no reason given'],
    [' \u0000\n ', 'no reason given'],
    ['half a \ud83d pair', 'half a \uFFFD pair'],
    ['Karte gesperrt 🚫', 'Karte gesperrt 🚫'],
  ])('%j is kept as %j', (text, kept) => {
    expect(cleanReason(text)).toBe(kept);
  });

  test('is cut after 500 code points, never within one', () => {
    expect(cleanReason('🚫'.repeat(500))).toBe('🚫'.repeat(500));
    expect(cleanReason('🚫'.repeat(501))).toBe('🚫'.repeat(500));
    expect(cleanReason(`${'x'.repeat(499)} more`)).toBe('x'.repeat(499));
  });

  test('can be stored and shown whatever the processor wrote, and stays as it is when it is cleaned again', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 600 }), (text) => {
        const reason = cleanReason(text);
        expect(reason).not.toBe('');
        expect(reason.isWellFormed()).toBe(true);
        expect(reason).not.toMatch(/\p{Cc}/u);
        expect(Array.from(reason).length).toBeLessThanOrEqual(500);
        expect(cleanReason(reason)).toBe(reason);
      }),
    );
  });
});
