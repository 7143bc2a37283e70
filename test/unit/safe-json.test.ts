import fc from 'fast-check';
import { expect, test } from 'vitest';
import { safeJson } from '#idempay/platform/safe-json.js';

test('safe JSON means the same, on one line for every reader, and nothing of it is executed or turned around', () => {
  const anything = fc.jsonValue({ stringUnit: 'binary' });
  const examples = [['\u007f\u0085\u009b31m\u2028\u2029\u202e\u2066\u200f\u061c é \u{1f45f}']] as [unknown][];
  fc.assert(
    fc.property(anything, (value) => {
      const text = safeJson(value);
      expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)));
      expect(text).not.toMatch(/[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/u);
    }),
    { examples: examples as never, numRuns: 500 },
  );
  expect(safeJson({ text: 'Überweisung \u{1f45f}' })).toBe('{"text":"Überweisung \u{1f45f}"}');
});
