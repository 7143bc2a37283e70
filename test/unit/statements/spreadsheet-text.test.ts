import { stringify } from 'csv-stringify/sync';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { spreadsheetText } from '#idempay/statements/spreadsheet-text.js';

const FORMULA = /^[=+\-@\t\r\uff0b\uff0d\uff1d\uff20]/;
const SEPARATORS = [',', ';', '\t', '|'];

/** As lenient as a spreadsheet: a cell in quotes may go on after them, and one that is never closed goes on to the end. */
function cellsIn(file: string, delimiter: string): string[] {
  const end = delimiter === '|' ? '\\|' : delimiter;
  const cell = new RegExp(`(?:"((?:[^"]|"")*)(?:"|$))?([^\\r\\n${end}]*)(?:[\\r\\n${end}]|$)`, 'gy');
  return [...file.matchAll(cell)].map(([, quoted = '', rest = '']) => quoted.replaceAll('""', '"') + rest);
}

describe('the text of a spreadsheet cell', () => {
  it.each([
    ['=1+1', "'=1+1"],
    ['x;=1+1', "x;'=1+1"],
    ['x,=1+1', "x,'=1+1"],
    ['x|+1', "x|'+1"],
    ['x\t@a', "x\t'@a"],
    ['x\n-2', "x\n'-2"],
    ['x\r\n=1', "x\r\n'=1"],
    ['\t=1', "'\t'=1"],
    ['\r', "'\r"],
    [';;=1', ";;'=1"],
    ['=1;=2;x=3', "'=1;'=2;x=3"],
    ['x;"=1+1"', 'x;\'"=1+1"'],
    ['\uff1d1', "'\uff1d1"],
    ['a;\uff0b1', "a;'\uff0b1"],
    ['\uff20a|\uff0d1', "'\uff20a|'\uff0d1"],
    ['-5.00x', "'-5.00x"],
    ['--5', "'--5"],
    ['-5,00', "'-5,00"],
  ])('of %j is %j', (text, safe) => {
    expect(spreadsheetText(text)).toBe(safe);
  });

  it.each(['', '-5.00', '12', '-7', 'alice', 'a=b', 'a - b', 'a; b', 'anna@example.com', '2026-11-20T13:00:00Z', "'x"])(
    'stays as it is: %j',
    (text) => {
      expect(spreadsheetText(text)).toBe(text);
    },
  );

  it('is no formula, whichever separator a spreadsheet takes, in a file of any cells', () => {
    const text = fc
      .array(fc.constantFrom('=', '+', '-', '@', '\t', '\r', '\n', ',', ';', '|', '"', "'", ' ', 'x', '1', '\uff1d'))
      .map((pieces) => pieces.join(''))
      .filter((made) => !/^-?\d+$/.test(made));
    fc.assert(
      fc.property(fc.array(text, { minLength: 1, maxLength: 4 }), (cells) => {
        const file = stringify([['1', ...cells.map(spreadsheetText)]]);
        for (const delimiter of SEPARATORS) {
          for (const cell of cellsIn(file, delimiter))
            expect(cell, `${JSON.stringify(file)} by ${delimiter}`).not.toMatch(FORMULA);
        }
      }),
      { numRuns: 2_000, seed: 33 },
    );
  });
});
