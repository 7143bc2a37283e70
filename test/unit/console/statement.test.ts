import { stringify } from 'csv-stringify/sync';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { amountOf, readAmount } from '../../../console/src/reconciliation/amounts.js';
import { recognisedColumns } from '../../../console/src/reconciliation/columns.js';
import { linesOf } from '../../../console/src/reconciliation/lines.js';
import { readHead, recordsOf } from '../../../console/src/reconciliation/statement-format.js';
import type { StatementRecord } from '../../../console/src/reconciliation/statement-records.js';
import { readStatementRow } from '../../../console/src/reconciliation/statement-row.js';

async function* chunksOf(bytes: Uint8Array, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

async function read(content: string | Uint8Array, chunk = 7): Promise<StatementRecord[]> {
  const bytes = Buffer.from(content);
  const { format } = readHead(bytes.toString().split('\n'));
  const reader = recordsOf(format);
  const records: StatementRecord[] = [];
  for await (const lines of linesOf(chunksOf(bytes, chunk))) records.push(...lines.flatMap(reader.add));
  return [...records, ...reader.end()];
}

const fieldsOf = (records: readonly StatementRecord[]) =>
  records.map((record) => ('fields' in record ? record.fields : [record.line, record.problem]));

describe('an amount', () => {
  const plain = fc
    .tuple(fc.boolean(), fc.bigInt(0n, 999_999_999_999_999_999n), fc.stringMatching(/^\d{0,8}$/))
    .map(([negative, whole, decimals]) => `${negative ? '-' : ''}${whole}${decimals === '' ? '' : `.${decimals}`}`);

  it('is the same however many zeros stand at its ends', () => {
    fc.assert(
      fc.property(plain, fc.nat(5), fc.nat(5), (text, before, after) => {
        const [sign, digits] = text.startsWith('-') ? ['-', text.slice(1)] : ['', text];
        const point = after > 0 && !digits.includes('.') ? '.' : '';
        const spelled = `${sign}${'0'.repeat(before)}${digits}${point}${'0'.repeat(after)}`;
        expect(readAmount(spelled)).toEqual(readAmount(text));
      }),
    );
  });

  it('is written as it was read, and is exact where a binary fraction is not', () => {
    fc.assert(
      fc.property(plain, (text) => {
        const read = readAmount(text) as { units: bigint };
        expect(readAmount(amountOf(read.units))).toEqual(read);
      }),
    );
    const sum = ['0.1', '0.2', '9007199254740993'].map((text) => (readAmount(text) as { units: bigint }).units);
    expect(amountOf(sum.reduce((one, other) => one + other))).toBe('9007199254740993.3');
    expect(amountOf((readAmount('100.5') as { units: bigint }).units, 2)).toBe('100.50');
  });

  it.each([
    ['', 'no amount'],
    ['1,000', 'thousands separators'],
    ['1,000.50', 'thousands separators'],
    ['1.000,50', 'thousands separators'],
    ['1.000.000', 'thousands separators'],
    ["1'000.00", 'thousands separators'],
    ['1\u202f000.00', 'thousands separators'],
    ['100,50', 'decimal point'],
    ['1e3', 'not a plain decimal'],
    ['+5', 'not a plain decimal'],
    ['5.', 'not a plain decimal'],
    ['.5', 'not a plain decimal'],
    ['$5', 'not a plain decimal'],
    ['٥', 'not a plain decimal'],
    ['0.123456789', 'decimals'],
    ['1234567890123456789', 'digits'],
  ])('%j is refused with a sentence', (text, sentence) => {
    expect(readAmount(text)).toEqual({ problem: expect.stringContaining(sentence) });
  });
});

describe('a statement', () => {
  const cell = fc.oneof(
    fc.string({ maxLength: 8 }),
    fc.stringMatching(/^[",;\n\r\t' a]{0,6}$/),
    fc.string({ unit: 'grapheme', maxLength: 4 }),
  );
  const rows = fc.array(fc.tuple(cell, cell, cell), { maxLength: 8 });

  it('in CSV is read as another program wrote it, wherever its bytes are cut', async () => {
    await fc.assert(
      fc.asyncProperty(
        rows,
        fc.constantFrom(',', ';', '\t', '|'),
        fc.constantFrom('\n', '\r\n'),
        fc.boolean(),
        fc.integer({ min: 1, max: 40 }),
        async (cells, delimiter, lineEnd, bom, chunk) => {
          // A line break of a cell is a line feed here; the rows are never blank, because one cell is not.
          const given = cells.map(([one, two, three]) => ['x', one, two, three].map((text) => text.replace(/\r/g, '')));
          const text = stringify(given, {
            header: true,
            columns: ['id', 'amount', 'currency', 'note'],
            delimiter,
            record_delimiter: lineEnd,
            bom,
            quoted_match: /[\n,;\t|]/,
          });
          expect(fieldsOf(await read(text, chunk))).toEqual(given);
        },
      ),
    );
  });

  it('in NDJSON keeps the digits of numbers', async () => {
    const text = '{"id":"a","amount":100.50}\n{"id":"b\\"1","amount":9007199254740993.10}\n\n{"id":null,"amount":-1E2}';
    expect(fieldsOf(await read(text))).toEqual([
      ['a', '100.50'],
      ['b"1', '9007199254740993.10'],
      ['', '-1E2'],
    ]);
  });

  it('names the line that is broken, and reads the next', async () => {
    const csv =
      'key;amount;currency\n1;2;EUR\n1;2\n"1;2;EUR\n2;3;EUR\n\n3;"4";EUR;;\n4;5;EUR;x\n"5";x"y;EUR\n6;7;EUR\n';
    expect(fieldsOf(await read(csv))).toEqual([
      ['1', '2', 'EUR'],
      [3, 'It has 2 fields, and the first line has 3.'],
      [4, expect.stringContaining('quote')],
      ['2', '3', 'EUR'],
      ['3', '4', 'EUR', '', ''],
      [8, 'It has 4 fields, and the first line has 3.'],
      [9, expect.stringContaining('quote')],
      ['6', '7', 'EUR'],
    ]);
    expect(fieldsOf(await read('{"a":1}\n{"a":\n[1]\n{"a":2}'))).toEqual([
      ['1'],
      [2, 'It is not one whole JSON object.'],
      [3, 'It is not one whole JSON object.'],
      ['2'],
    ]);
  });

  it('with a quote that is never closed loses one line, not the rest', async () => {
    const many = Array.from({ length: 300 }, (_, index) => `k${index},1,EUR`);
    const records = await read(['key,amount,currency', '"open,1,EUR', ...many].join('\n'));
    expect(records.filter((record) => 'problem' in record)).toEqual([{ line: 2, problem: expect.any(String) }]);
    expect(records).toHaveLength(301);
  });

  it.each([
    ['', 'empty'],
    ['[{"amount":1}]', 'one JSON text'],
    ['{"amount":', 'no whole JSON object'],
    ['just a sentence', 'no names of columns'],
  ])('%j is refused with a sentence', (text, sentence) => {
    expect(() => readHead([text])).toThrow(sentence);
  });

  it('that is not UTF-8 is refused with a sentence', async () => {
    const latin = Buffer.from('key,amount,currency\nJos\xe9,1,EUR\n', 'latin1');
    await expect(read(latin)).rejects.toThrow('not text in UTF-8');
  });

  it.each([
    [
      'Transaction ID,Amount,Currency,Idempotency-Key,Status',
      { transactionId: 0, amount: 1, currency: 2, reference: 3, status: 4 },
    ],
    [
      'reference,transactionId,amount,currency,status,at',
      { reference: 0, transactionId: 1, amount: 2, currency: 3, status: 4 },
    ],
    ['Net,Gross amount,CCY,merchant_reference', { amount: 1, currency: 2, reference: 3 }],
    ['Betrag,Währung', {}],
  ])('recognises the columns of %s', (header, columns) => {
    expect(recognisedColumns(header.split(','))).toEqual({
      reference: undefined,
      transactionId: undefined,
      amount: undefined,
      currency: undefined,
      status: undefined,
      ...columns,
    });
  });
});

describe('a row', () => {
  const columns = { reference: 0, transactionId: 1, amount: 2, currency: 3, status: 4 };

  it('is read whatever the case, and another party’s transaction id says nothing', () => {
    expect(readStatementRow(2, [' ABC ', 'ch_1', '5.0', 'eur', 'Paid'], columns)).toEqual({
      line: 2,
      reference: 'abc',
      transactionId: '',
      amount: '5.0',
      units: 500_000_000n,
      currency: 'EUR',
      status: 'Paid',
      state: 'COMPLETED',
    });
  });

  it.each([
    [['', '', '1', 'EUR', ''], 'neither'],
    [['', 'ch_1', '1', 'EUR', ''], '“ch_1” is no transaction id of ours'],
    [['a', '', '1', '€', ''], 'three letters'],
    [['a', '', '1,000', 'EUR', ''], 'thousands'],
  ])('%j is refused with a sentence', (fields, problem) => {
    expect(readStatementRow(1, fields, columns)).toEqual({ problem: expect.stringContaining(problem) });
  });

  it.each([
    ['', 'COMPLETED'],
    ['SUCCEEDED', 'COMPLETED'],
    ['Declined', 'DECLINED'],
    ['refunded', 'OTHER'],
    ['constructor', 'OTHER'],
  ])('with the status %j is %s', (status, state) => {
    expect(readStatementRow(1, ['a', '', '1', 'EUR', status], columns)).toMatchObject({ state });
  });
});
