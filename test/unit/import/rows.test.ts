import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { columnsOf, csvRows } from '#idempay/commands/import/csv.js';
import { type Line, linesOf } from '#idempay/commands/import/lines.js';
import { type Row, readNdjsonRow } from '#idempay/commands/import/rows.js';

async function* chunksOf(text: Buffer, size: number): AsyncGenerator<Buffer> {
  for (let at = 0; at < text.length; at += size) yield text.subarray(at, at + size);
}

async function readCsv(
  text: string | Buffer,
  { delimiter = ',', ignored = [] as string[], chunk = 5 } = {},
): Promise<Row[]> {
  const bytes = Buffer.from(text);
  const lines = linesOf(chunksOf(bytes, chunk));
  const header = (await lines.next()).value as Line;
  const rows: Row[] = [];
  for await (const row of csvRows(lines, columnsOf(header, delimiter, ignored), delimiter)) rows.push(row);
  expect(rows.at(-1)?.end ?? header.end).toBe(bytes.length);
  return rows;
}

const summary = (rows: readonly Row[]) =>
  rows.map(({ line, content }) => [
    line,
    content.state === 'good' ? content.transaction.fromAccount : content.state === 'rejected' ? content.reason : '',
  ]);

const HEADER = 'fromAccount,toAccount,amount,note\n';
const NOTE = { ignored: ['note'] };
const WRONG_QUOTES = expect.stringContaining('quotes are wrong');

describe('CSV', () => {
  it.each<[string, string, unknown[][]]>([
    [
      'with a quote in the middle of a cell, rejects this line only',
      'a,b,1,x"y\nc,d,2,\n',
      [
        [2, WRONG_QUOTES],
        [3, 'c'],
      ],
    ],
    [
      'with a quote that is never closed, rejects this line only',
      '"a,b,1,\nc,d,2,\n',
      [
        [2, WRONG_QUOTES],
        [3, 'c'],
      ],
    ],
    [
      'with a quote that the next line seems to close, rejects both',
      '"a,b,1,\n"c",d,2,\ne,f,3,\n',
      [
        [2, WRONG_QUOTES],
        [3, 'c'],
        [4, 'e'],
      ],
    ],
    [
      'with text after a quote, rejects this line only',
      '"a"x,b,1,\nc,d,2,\n',
      [
        [2, WRONG_QUOTES],
        [3, 'c'],
      ],
    ],
    [
      'with a note of several lines, reads no row in the note',
      'a,b,1,"x\nevil,thief,1000,\ny"\nc,d,2,\n',
      [
        [2, 'a'],
        [5, 'c'],
      ],
    ],
    ['with doubled quotes reads them', '"a""b",c,1,\n', [[2, 'a"b']]],
    [
      'with CRLF, an empty line and no last line break',
      'a,b,1,\r\n\r\nc,d,2,',
      [
        [2, 'a'],
        [3, ''],
        [4, 'c'],
      ],
    ],
    [
      'with too few cells rejects the row',
      'a,b,1\nc,d,2,\n',
      [
        [2, 'It has 3 cells, and the header has 4.'],
        [3, 'c'],
      ],
    ],
  ])('%s', async (_what, rows, expected) => {
    for (const chunk of [1, 5, 1000]) {
      expect(summary(await readCsv(HEADER + rows, { ...NOTE, chunk }))).toEqual(expected);
    }
  });

  it('with a byte order mark, semicolons and other columns of an export is read', async () => {
    const text = '\ufefftransactionId;fromAccount;toAccount;amount;status;createdAt\n1;a;b;100.50;;x\n';
    expect((await readCsv(text, { delimiter: ';' })).map(({ content }) => content)).toEqual([
      { state: 'good', transaction: { fromAccount: 'a', toAccount: 'b', amount: '100.5', status: 'PENDING' } },
    ]);
  });

  it('that is not UTF-8 is rejected line by line', async () => {
    const text = Buffer.concat([Buffer.from(HEADER), Buffer.from([0xff]), Buffer.from(',b,1,\nc,d,2,\n')]);
    expect(summary(await readCsv(text, NOTE))).toEqual([
      [2, 'It is not valid UTF-8.'],
      [3, 'c'],
    ]);
  });

  it.each([
    ['lacks a column', 'fromAccount,amount\n', /lacks toAccount/],
    ['has a misspelt column', 'fromAccount,toAccount,amount,stauts\n', /'stauts' is not known.*--ignore/],
    ['names a column twice', 'fromAccount,toAccount,amount,amount\n', /'amount' twice/],
    ['has other delimiters', 'fromAccount;toAccount;amount\n', /--delimiter/],
  ])('whose header %s is refused', async (_what, text, sentence) => {
    await expect(readCsv(text)).rejects.toThrow(sentence);
  });

  it('written by the rules gives back every account, whatever is in it', async () => {
    const account = fc
      .string({ minLength: 1, maxLength: 20, unit: 'grapheme' })
      .filter((text) => !/\p{Cc}/u.test(text));
    const quoted = (text: string) => `"${text.replaceAll('"', '""')}"`;
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(account, fc.string({ unit: 'binary' }))), async (rows) => {
        const text = rows.map(([name, note]) => `${quoted(name)},to the other,1,${quoted(note)}\n`).join('');
        const read = await readCsv(HEADER + text, NOTE);
        expect(summary(read).map(([, name]) => name)).toEqual(rows.map(([name]) => name));
      }),
      { numRuns: 200 },
    );
  });
});

describe('NDJSON', () => {
  const read = (text: string, ignored: string[] = []) => readNdjsonRow(Buffer.from(text), ignored);
  const row = (amount: string, more = '') => `{"fromAccount":"a","toAccount":"b","amount":${amount}${more}}`;

  it.each([
    ['12345678901.2345', '12345678901.2345'],
    ['100.50', '100.5'],
    ['"100.50"', '100.5'],
    ['1.0E7', '10000000'],
    ['99999999999999.9', '99999999999999.9'],
  ])('keeps the amount %s exactly', (sent, kept) => {
    expect(read(row(sent))).toMatchObject({ state: 'good', transaction: { amount: kept } });
  });

  it.each([
    ['more digits than a transaction holds', row('9007199254740993'), /15 in all/],
    ['a member twice', row('1', ',"amount":2'), /amount/],
    ['an unknown member', row('1', ',"stauts":"FLAGGED"'), /'stauts' is no member.*--ignore stauts/],
    ['half of a line', '{"fromAccount":"a"', /cannot be read/],
    ['no object', '[1]', /object/],
    ['an unknown status', row('1', ',"status":"DONE"'), /one of PENDING/],
  ])('with %s is rejected', (_what, text, reason) => {
    expect(read(text)).toEqual({ state: 'rejected', reason: expect.stringMatching(reason) });
  });

  it('leaves out what is ignored', () => {
    expect(read(row('1', ',"note":{"a":[1]}'), ['note'])).toMatchObject({ state: 'good' });
  });
});
