import { execFileSync } from 'node:child_process';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ignoreOption, nameOf } from '#idempay/commands/import/columns.js';
import { cellsOf, csvRows } from '#idempay/commands/import/csv.js';
import { linesOf } from '#idempay/commands/import/lines.js';
import { type Row, readNdjsonRow } from '#idempay/commands/import/rows.js';

async function* chunksOf(text: Buffer, size: number): AsyncGenerator<Buffer> {
  for (let at = 0; at < text.length; at += size) yield text.subarray(at, at + size);
}

async function readCsv(
  text: string | Buffer,
  { delimiter = ',', ignored = [] as string[], chunk = 5 } = {},
): Promise<Row[]> {
  const bytes = Buffer.from(text);
  const rows: Row[] = [];
  for await (const row of csvRows(linesOf(chunksOf(bytes, chunk)), { delimiter, ignored })) rows.push(row);
  expect(rows.at(-1)?.end).toBe(bytes.length);
  return rows.filter(({ content }) => content.state !== 'no row');
}

const summary = (rows: readonly Row[]) =>
  rows.map(({ line, content }) => [
    line,
    content.state === 'good' ? content.transaction.fromAccount : 'reason' in content ? content.reason : '',
  ]);

/** The option as a shell and the command read it. */
function ignoredBy(option: string): string[] {
  const words = execFileSync('sh', ['-c', `printf '%s\\0' ${option}`], { encoding: 'utf8' }).split('\0');
  return cellsOf(Buffer.from(words[1] ?? ''), ',')?.map(nameOf) ?? [];
}

async function messageOf(refused: Promise<unknown>): Promise<string> {
  const error = await refused.then(
    () => new Error('It was not refused.'),
    (refusal: Error) => refusal,
  );
  expect(error.name, error.message).toBe('UsageError');
  return error.message;
}

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
        [4, 'c'],
      ],
    ],
    [
      'with lines that end with CR alone, and some with CRLF or LF, reads each',
      'a,b,1,\rc,d,2,\r\ne,f,3,\n\rg,h,4,"x\ry"\ri,j,5,',
      [
        [2, 'a'],
        [3, 'c'],
        [4, 'e'],
        [6, 'g'],
        [8, 'i'],
      ],
    ],
    [
      'with lines of blanks, of separators and of empty quotes skips them',
      'a,b,1,\n   \n,,,\n , ,\t,\n,,,,,,\n"","","",""\nc,d,2,\n,,,',
      [
        [2, 'a'],
        [8, 'c'],
      ],
    ],
    [
      'with a quote after text, in a cell that is left out too, rejects this line only',
      'Smith "Bob" Robert,b,2,\na,b,1,5" x 3" screen\na,"b""c" ,1,\nc,d,2,\n',
      [
        [2, WRONG_QUOTES],
        [3, WRONG_QUOTES],
        [4, WRONG_QUOTES],
        [5, 'c'],
      ],
    ],
    [
      'with a blank before a cell in quotes, rejects this line only',
      'a, "b",1,\nc,d,2,\n',
      [
        [2, WRONG_QUOTES],
        [3, 'c'],
      ],
    ],
    [
      'with a quote that more than 100 lines do not close, rejects this line only',
      `"a,b,1,\n${'c,d,2,\n'.repeat(150)}`,
      [[2, WRONG_QUOTES], ...Array.from({ length: 150 }, (_, row) => [row + 3, 'c'])],
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
      {
        state: 'good',
        transaction: { fromAccount: 'a', toAccount: 'b', amount: '100.5', status: 'PENDING' },
        mark: 'points',
      },
    ]);
  });

  it('with a line of more than 1 MiB is refused, however it is cut into chunks', async () => {
    const file = (length: number) => `${HEADER}a,b,1,${'x'.repeat(length - 7)}\n`;
    for (const chunk of [1_000, 300_000, 5_000_000]) {
      expect(summary(await readCsv(file(1024 * 1024), { ...NOTE, chunk }))).toEqual([[2, 'a']]);
      await expect(readCsv(file(1024 * 1024 + 1), { ...NOTE, chunk })).rejects.toThrow(/Line 2 is longer/);
    }
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
    ['names a column twice in another case', 'fromAccount,toAccount,amount,Amount\n', /'amount' twice.*Rename/],
    ['has other delimiters', 'fromAccount;toAccount;amount\n', /--delimiter/],
    ['has a blank before quotes', 'fromAccount, "toAccount",amount\n', /Line 1 is no header.*quotes are wrong/],
    ['has a quote after text', 'fromAccount,toAccount,amount,5" x 3"\n', /Line 1 is no header.*quotes are wrong/],
    ['has an open quote', '\n"fromAccount,toAccount,amount\n', /Line 2 is no header.*quotes are wrong/],
    ['is UTF-16', Buffer.from('\ufefffromAccount,toAccount,amount\n', 'utf16le'), /no header in CSV and UTF-8/],
    ['is UTF-16 without a mark', Buffer.from('fromAccount,toAccount,amount\n', 'utf16le'), /UTF-16/],
    ['is missing', '', /is empty/],
    ['is missing among blank lines', '\r\n,,,\r\n', /is empty/],
  ])('whose header %s is refused', async (_what, text, sentence) => {
    expect(await messageOf(readCsv(text))).toMatch(sentence);
  });

  it('reads names without regard to case, blanks, line breaks and a mark, after blank lines', async () => {
    const text = '\ufeff\r\n;;;\r\n FROMACCOUNT ;"toaccount";Amount ;"Status\n";TransactionID\r\na;b;1;FLAGGED;x\r\n';
    expect((await readCsv(text, { delimiter: ';' })).map(({ line, content }) => [line, content])).toEqual([
      [5, { state: 'good', transaction: { fromAccount: 'a', toAccount: 'b', amount: '1', status: 'FLAGGED' } }],
    ]);
  });

  it('is read without the blanks around cells; an account in quotes keeps them', async () => {
    const text = 'fromAccount,toAccount,amount,status\n a , b\t,\u00a01.50 , FLAGGED \n" a ",b," 2 "," "\n';
    const [first, second] = (await readCsv(text)).map(({ content }) => content);
    expect(first).toMatchObject({
      transaction: { fromAccount: 'a', toAccount: 'b', amount: '1.5', status: 'FLAGGED' },
    });
    expect(second).toMatchObject({ transaction: { fromAccount: ' a ', amount: '2', status: 'PENDING' } });
  });

  it.each([
    ['a comma', '"Fee, EUR"'],
    ['quotes', '"Size ""L"""'],
    ['an apostrophe', "Bob's note"],
    ['an apostrophe, quotes and a comma', `"it's ""so"", no"`],
    ['a line break', '"Booked\n(UTC)"'],
    ['a dollar sign and a backtick', '$(echo x)`y`'],
    ['a dash in front', '-note'],
    ['nothing, twice', ','],
    ['a name that stands twice', 'note,NOTE,note'],
    ['words of another language', 'Empfänger,Größe'],
  ])('whose columns are named with %s is read with the option of its own error', async (_what, names) => {
    const header = `fromAccount,toAccount,amount,${names}\n`;
    const columns = cellsOf(Buffer.from(names), ',')?.length ?? 0;
    const [option = ''] = /--ignore .*$/.exec(await messageOf(readCsv(header))) ?? [];
    const rows = await readCsv(`${header}a,b,1${',x'.repeat(columns)}\n`, { ignored: ignoredBy(option) });
    expect(rows.map(({ content }) => content.state)).toEqual(['good']);
  });

  it('leaves out a column that could be read, and one of its members only under another name', async () => {
    const text = 'fromAccount,toAccount,amount,status\na,b,1,unclear\n';
    expect(summary(await readCsv(text, { ignored: ignoredBy(ignoreOption(['Status'])) }))).toEqual([[2, 'a']]);
    await expect(readCsv(text, { ignored: ['amount'] })).rejects.toThrow(/lacks amount/);
  });

  it('names every unknown column in one advice, with those that are left out already', async () => {
    const refused = readCsv('fromAccount,toAccount,amount,note,booked,,note\n', { ignored: ['booked'] });
    await expect(refused).rejects.toThrow(/columns 'note', without a name are not known.*: --ignore booked,note,$/);
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
    expect(read(row('1', ',"Note":1,"Note":2,"status":"FLAGGED"'), ['note', 'status'])).toMatchObject({
      state: 'good',
      transaction: { status: 'PENDING' },
    });
  });
});
