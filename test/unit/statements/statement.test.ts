import { stringify } from 'csv-stringify/sync';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { amountOf, type DecimalMark, problemOfCurrency, readAmount } from '#idempay/statements/amounts.js';
import { MEMBERS, recognisedColumns, repeatedMembers } from '#idempay/statements/columns.js';
import { currencyOfAmounts, readHead, recordsOf } from '#idempay/statements/format.js';
import { linesOf } from '#idempay/statements/lines.js';
import type { StatementRecord } from '#idempay/statements/records.js';
import { readStatementRow, resolved } from '#idempay/statements/row.js';

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

/** Those that were read, and those that were not, with their line. */
const fieldsOf = (records: readonly StatementRecord[]) =>
  records.flatMap((record): (readonly (string | number)[])[] => {
    if ('fields' in record) return [record.fields];
    return 'problem' in record ? [[record.line, record.problem]] : [];
  });

describe('an amount', () => {
  const plain = fc
    .tuple(fc.boolean(), fc.bigInt(0n, 999_999_999_999_999_999n), fc.stringMatching(/^\d{0,8}$/))
    .map(([negative, whole, decimals]) => `${negative ? '-' : ''}${whole}${decimals === '' ? '' : `.${decimals}`}`);
  const unitsOf = (text: string) => (readAmount(text, '.') as { units: bigint }).units;

  it('is the same however many zeros stand at its ends', () => {
    fc.assert(
      fc.property(plain, fc.nat(5), fc.nat(5), (text, before, after) => {
        const [sign, digits] = text.startsWith('-') ? ['-', text.slice(1)] : ['', text];
        const point = after > 0 && !digits.includes('.') ? '.' : '';
        expect(unitsOf(`${sign}${'0'.repeat(before)}${digits}${point}${'0'.repeat(after)}`)).toBe(unitsOf(text));
      }),
    );
  });

  it('is written as it was read, and is exact where a binary fraction is not', () => {
    fc.assert(
      fc.property(plain, fc.constantFrom('USD', 'JPY', 'KWD'), (text, currency) => {
        expect(unitsOf(amountOf(unitsOf(text), currency))).toBe(unitsOf(text));
      }),
    );
    const sum = ['0.1', '0.2', '9007199254740993'].map(unitsOf).reduce((one, other) => one + other);
    expect(amountOf(sum, 'USD')).toBe('9007199254740993.30');
    expect(amountOf(unitsOf('100.5'), 'USD')).toBe('100.50');
    expect(amountOf(unitsOf('1000'), 'JPY')).toBe('1000');
  });

  it.each([
    ['100.5', '100.50'],
    ['1,000.50', '1000.50'],
    ['1.000,50', '1000.50'],
    ['1.000.000', '1000000.00'],
    ['1,00,000.00', '100000.00'],
    ["1'000.00", '1000.00'],
    ['1\u202f000.00', '1000.00'],
    ['1 000', '1000.00'],
    ['100,50', '100.50'],
    ['0.500', '0.50'],
    ['1234.500', '1234.50'],
    ['+5', '5.00'],
    ['5,00-', '-5.00'],
    ['\u22125.00', '-5.00'],
    ['(5.00)', '-5.00'],
    ['$1,234.50', '1234.50'],
    ['-$5.00', '-5.00'],
    ['($5.00)', '-5.00'],
    ['5,00 €', '5.00'],
    ['EUR 5.00', '5.00'],
  ])('%j can be read in one way, as %s', (text, amount) => {
    const read = readAmount(text);
    expect('units' in read && amountOf(read.units, 'EUR')).toBe(amount);
  });

  it.each(['1,000', '1.000', '-12.345', '999,999'])('%j may be read in two ways', (text) => {
    expect(readAmount(text)).toHaveProperty('either');
    const [point, comma] = ['.', ','].map((mark) => readAmount(text, mark as DecimalMark)) as { units: bigint }[];
    expect(point?.units === (comma?.units ?? 0n) * 1000n || comma?.units === (point?.units ?? 0n) * 1000n).toBe(true);
  });

  it.each([
    ['100,00 USD', 'EUR', 'USD'],
    ['EUR 5.00', 'USD', 'EUR'],
    ['$100.00', 'EUR', '$'],
    ['-$1.000,00', 'GBP', '$'],
    ['$100', 'JPY', '$'],
    ['$100.00', 'CHF', '$'],
    ['5,00 €', 'USD', '€'],
    ['(£5.00)', 'EUR', '£'],
    ['$5.00 CAD', 'USD', 'CAD'],
    ['₹5.00', 'EUR', '₹'],
  ])('%j in a line in %s is in another currency', (text, currency, mark) => {
    expect(problemOfCurrency(text, currency)).toBe(`The amount “${text}” is in ${mark}, and its line in ${currency}.`);
  });

  it.each([
    ['100,00 USD', 'USD'],
    ['$1,234.50', 'CAD'],
    ['$5', 'MXN'],
    ['$5.00 CAD', 'CAD'],
    ['R$5,00', 'BRL'],
    ['$5,00', 'BRL'],
    ['5,00 €', 'EUR'],
    ['£5.00', 'GBP'],
    ['¥500', 'JPY'],
    ['¥5.00', 'CNY'],
    ['￥500', 'JPY'],
    ['₨ 500', 'PKR'],
    ['﷼ 500', 'SAR'],
    ['5.00', 'EUR'],
  ])('%j in a line in %s may be in its currency', (text, currency) => {
    expect(problemOfCurrency(text, currency)).toBeUndefined();
  });

  it.each([
    ['', 'no amount'],
    ['1e3', 'no decimal number'],
    ['5.', 'no decimal number'],
    ['.5', 'no decimal number'],
    ['US$5', 'no decimal number'],
    ['\u0665', 'no decimal number'],
    ['1,00,00', 'no decimal number'],
    ['1.000,000.00', 'no decimal number'],
    ['--5', 'no decimal number'],
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
      [3, 'It has 2 fields, and the line of the names has 3.'],
      [4, expect.stringContaining('quote')],
      ['2', '3', 'EUR'],
      ['3', '4', 'EUR', '', ''],
      [8, 'It has 4 fields, and the line of the names has 3.'],
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
    expect(records.filter((record) => 'problem' in record)).toMatchObject([{ line: 2 }]);
    expect(fieldsOf(records)).toHaveLength(301);
  });

  /** Bug: two stray quotes hid the payments between them. Cause: each text between two quotes was one cell. */
  it.each([
    ['two lines', ['K1,1,EUR,"a,x', 'K2,2,EUR,"a,x'], [2, 3], []],
    ['the end of one and the begin of the next', ['K1,1,EUR,"a', 'K2,2,EUR,b"'], [2, 3], []],
    [
      'two lines with one between them',
      ['K1,1,EUR,"a', 'K2,2,EUR,b', 'K3,3,EUR,c"', 'K4,4,EUR,d'],
      [2, 4],
      ['K2', 'K4'],
    ],
    ['cells that are followed by others', ['K1,1,EUR,"a,x', 'K2,2,EUR,b",x'], [2, 3], []],
    ['lines that end with a delimiter', ['K1,1,EUR,"a,', 'K2,2,EUR,b,', 'K3,3,EUR,c",'], [2, 4], ['K2']],
  ])('with stray quotes in %s loses these lines alone', async (_where, lines, refused, kept) => {
    const [names, last] = lines[0]?.endsWith('x')
      ? ['key,amount,currency,note,memo', 'K9,9,EUR,z,x']
      : ['key,amount,currency,note', 'K9,9,EUR,z'];
    const records = await read([names, ...lines, last].join('\n'));
    expect(records.flatMap((record) => ('problem' in record ? [record.line] : []))).toEqual(refused);
    expect(records.flatMap((record) => ('fields' in record ? [record.fields[0]] : []))).toEqual([...kept, 'K9']);
  });

  it('whose first cell takes a payment into its quotes is refused there', async () => {
    const records = await read('note,key,amount,currency\n"a,K1,1,EUR\nb",K2,2,EUR\nc,K3,3,EUR');
    expect(fieldsOf(records)).toEqual([
      [2, expect.stringContaining('A quote that begins')],
      [3, expect.stringContaining('A quote is not closed')],
      ['c', 'K3', '3', 'EUR'],
    ]);
  });

  it.each([
    ['note,key,amount,currency', '"first line\nlast, line",K,5,EUR', 'first line\nlast, line'],
    ['note,key,amount,currency', '"a ""b"", 5, c\n\nd",K,"5.00",EUR', 'a "b", 5, c\n\nd'],
    ['key,amount,currency,note', 'K,"5.00",EUR,"2 shoes, 7 socks\n3 hats, 4, EUR"', 'K'],
    ['key,amount,currency,note', 'K,5,EUR,"a, b, c, d\n1, 2, 3, 4, 5"', 'K'],
  ])('%s with the note of several lines %j is read', async (header, record, first) => {
    const records = await read(`${header}\n${record}\n`);
    expect(fieldsOf(records)).toEqual([[first, ...Array(3).fill(expect.any(String))]]);
  });

  it('with a cell of many lines is read, however long it is, and a problem does not repeat a long text', async () => {
    const long = Array.from({ length: 3 }, () => '""'.repeat(400_000)).join('\n');
    const records = await read(`key,amount,currency\n"${long}",5,EUR\n`, 1_000_000);
    expect(records.at(-1)).toMatchObject({ line: 2, lines: 3 });
    expect(readAmount('x'.repeat(900_000))).toMatchObject({ problem: expect.stringMatching(/^.{0,300}$/) });
  });

  /**
   * Bug: the comparison never ended, and took memory until the process died. Cause: `sep="` made the quote the delimiter, so a
   * field began at the quote that ends another one. Fix: a quote is no delimiter.
   */
  it('whose first line names the quote as its delimiter is read by another one', async () => {
    const records = await read('sep="\nkey,amount,currency\n"" ""x,5,EUR\nK,5,EUR\n');
    expect(fieldsOf(records)).toEqual([
      [3, expect.stringContaining('A quote is not closed')],
      ['K', '5', 'EUR'],
    ]);
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
    ['Betrag,Währung,Soll', { amount: 0, currency: 1, debit: 2 }],
    ['Betrag,Soll/Haben,Währung', { amount: 0, side: 1, currency: 2 }],
    ['Datum,Af Bij,Amount', { side: 1, amount: 2 }],
    ['Verweis,Zustand', {}],
    ['order_id (metadata),payment_metadata[idempay_reference],Amount', { order: 0, reference: 1, amount: 2 }],
  ])('recognises the columns of %s', (header, columns) => {
    const none = Object.fromEntries(MEMBERS.map((member) => [member, undefined]));
    expect(recognisedColumns(header.split(','))).toEqual({ ...none, ...columns });
  });
});

it.each([
  ['Betrag (€)', 'EUR'],
  ['Amount (USD)', 'USD'],
  ['Amount', undefined],
  ['Amount (NET)', undefined],
])('the column %s has amounts in %s', (name, currency) => {
  const { format, columns } = readHead([`Reference,${name}`, 'a,1']);
  expect(currencyOfAmounts(format, columns)).toBe(currency);
});

it.each([
  [' ', ['S', 'H'], 2],
  [' ', ['H', ''], 2],
  ['', ['', ''], undefined],
  ['', ['S', 'x'], undefined],
  ['Note', ['S', 'H'], undefined],
])('the last column %j with %j says which way the money went: %s', (name, values, side) => {
  const rows = values.map((value) => ['a', '1', value]);
  expect(recognisedColumns(['Reference', 'Umsatz', name], rows).side).toBe(side);
});

it.each([
  [['Umsatz gebucht', 'Umsatz vorgemerkt', ''], 2],
  [['Umsatz gebucht', 'call back'], undefined],
  [['', ''], undefined],
  [[], undefined],
])('the column Info with %j is the status: %s', (values, status) => {
  const rows = values.map((value) => ['a', '1', value]);
  expect(recognisedColumns(['Kundenreferenz', 'Betrag', 'Info'], rows).status).toBe(status);
});

/** Bug: the company's own `order_id` hid the one that the shop had put into the metadata. Cause: the first of equal names counted. */
it.each([
  ['order_id,payment_metadata[order_id]', ['or_1,order-1'], 1],
  ['order_id (metadata),order_id', ['order-1,or_1'], 0],
  ['Order ID,order_id', [',order-1'], 1],
  ['Order ID,order_id', ['order-2,order-1'], 0],
  ['order_id (metadata),idempay_order (metadata)', ['a,order-1'], 1],
])('takes the order number of %s with %j from column %s', (header, lines, order) => {
  const rows = lines.map((line) => line.split(','));
  expect(recognisedColumns(header.split(','), rows).order).toBe(order);
});

/** Bug: a payment that was declined agreed. Cause: an empty column won over a filled one whose name stands later in the list of names. */
it.each([
  ['Order,Amount,State,Payment Status', ['order-1,1,,Declined'], 'status', 3],
  ['Order,Amount,State,Payment Status', ['order-1,1,CA,Declined'], 'status', 3],
  ['Order,Amount,Status,Payment Status', ['order-1,1,Paid,Declined'], 'status', 2],
  ['Order,Amount,Status,Payment Status', ['order-1,1,,', 'order-2,1,,Declined'], 'status', 3],
  ['Order,Amount,Type,Transaction Type', ['order-1,1,,Authorisation only'], 'type', 3],
  ['Order,Amount,Gross', ['order-1,,1'], 'amount', 2],
  ['Order,Amount,Status,State', ['order-1,1,,'], 'status', 2],
] as const)('takes of %s with %j the filled column for the %s', (header, lines, member, column) => {
  const rows = lines.map((line) => line.split(','));
  expect(recognisedColumns(header.split(','), rows)[member]).toBe(column);
});

it.each([
  ['Reference,Amount,Currency,Amount,Currency', ['amount', 'currency']],
  ['Reference,Status,Amount, status ', ['status']],
  ['Reference,Note,Note,Amount', []],
  ['Reference,Amount,Amount (USD)', []],
])('knows the members of %s whose column has the name of another one', (header, members) => {
  const names = header.split(',');
  expect(repeatedMembers(recognisedColumns(names), names)).toEqual(members);
});

it('does not take the processor’s transaction ids for ours', () => {
  const names = ['Transaction ID', 'Amount'];
  expect(recognisedColumns(names, [['ch_1', '1']]).transactionId).toBeUndefined();
  expect(
    recognisedColumns(names, [
      ['ch_1', '1'],
      ['TXN1', '1'],
    ]).transactionId,
  ).toBe(0);
});

describe('a row', () => {
  const columns = { reference: 0, transactionId: 1, amount: 2, currency: 3, status: 4, type: 5 };
  const readRow = (fields: readonly string[], reading = {}) => {
    const read = readStatementRow(2, fields, { columns, ...reading });
    if ('problem' in read) return read;
    return 'refunded' in read ? resolved(read, undefined) : read.row;
  };

  it('is read whatever the case, and another party’s transaction id says nothing', () => {
    const key = '0190A000-0000-7000-8000-00000000000a';
    expect(readRow([` ${key} `, 'ch_1', '5.0', 'eur', 'Paid', ''])).toEqual({
      line: 2,
      reference: key,
      order: '',
      refund: '',
      transactionId: '',
      amount: '5.00',
      units: 500_000_000n,
      currency: 'EUR',
      status: 'Paid',
      state: 'COMPLETED',
      type: '',
      kind: 'payment',
      isFailedRefund: false,
      isUntypedDebit: false,
      refundedUnits: 0n,
    });
  });

  /** Bug: references of others were lower-cased, and `ch_3AbC` and `ch_3aBc` were one. */
  it('keeps the case of a reference that is no key', () => {
    expect(readRow(['ch_3AbC', '', '5', 'EUR', '', ''])).toMatchObject({ reference: 'ch_3AbC' });
  });

  it.each([
    [['', '', '1', 'EUR', ''], 'neither'],
    [['', 'ch_1', '1', 'EUR', ''], '“ch_1” is no transaction id of ours'],
    [['a', '', '1', '€', ''], 'three letters'],
    [['a', '', '1,000', 'EUR', ''], 'thousands separator or three decimals'],
  ])('%j is refused with a sentence', (fields, problem) => {
    expect(readRow(fields)).toMatchObject({ line: 2, problem: expect.stringContaining(problem) });
  });

  it.each([
    ['', 'COMPLETED'],
    ['SUCCEEDED', 'COMPLETED'],
    ['Declined', 'DECLINED'],
    ['refunded', 'COMPLETED'],
    ['Partially refunded', 'COMPLETED'],
    ['Canceled', 'DECLINED'],
    ['Expired', 'DECLINED'],
    ['requires_payment_method', 'DECLINED'],
    ['Incomplete', 'DECLINED'],
    ['Abgebrochen', 'DECLINED'],
    ['pending', 'OTHER'],
    ['Umsatz gebucht', 'COMPLETED'],
    ['Booked', 'COMPLETED'],
    ['BOOK', 'COMPLETED'],
    ['Posted', 'COMPLETED'],
    ['Settled Successfully', 'COMPLETED'],
    ['paid_out', 'COMPLETED'],
    ['Processed', 'COMPLETED'],
    ['Cleared', 'COMPLETED'],
    ['Umsatz vorgemerkt', 'OTHER'],
    ['constructor', 'OTHER'],
  ])('with the status %j is %s', (status, state) => {
    expect(readRow(['a', '', '1', 'EUR', status])).toMatchObject({ state });
  });

  it.each([
    ['charge', '1', 'payment'],
    ['', '1', 'payment'],
    ['', '-1', 'other'],
    ['charge', '-1', 'other'],
    ['Payment Refund', '-1', 'refund'],
    ['refund', '1', 'refund'],
    ['dispute', '-1', 'chargeback'],
    ['Chargeback Fee', '-1', 'fee'],
    ['Stripe_fee', '-1', 'fee'],
    ['payout', '-1', 'other'],
    // Each is another line of an order, besides the one of its payment.
    ['General Authorization', '1', 'other'],
    ['General hold release', '1', 'other'],
    ['Payment Release', '1', 'other'],
    ['General Currency Conversion', '1', 'other'],
    ['Währungsumrechnung', '1', 'other'],
    ['Rückzahlung', '-1', 'refund'],
    // Money that was held, or comes from the company's own account, is none of the payer.
    ['General Hold', '-1', 'other'],
    ['Reversal of General Account Hold', '1', 'other'],
    ['Allgemeine Einbehaltung', '-1', 'other'],
    ['Rückbuchung allgemeiner Einbehaltung', '1', 'other'],
    ['Freigabe allgemeiner Einbehaltung', '1', 'other'],
    ['payout_reversal', '1', 'other'],
    ['Payment Reversal', '-1', 'refund'],
    ['Rueckbuchung', '-1', 'refund'],
    ['ACH Credit', '1', 'payment'],
    ['payout_failure', '-1', 'other'],
    ['Transfer', '-1', 'other'],
    ['ManagementFee', '-1', 'fee'],
    ['Entgelt', '-1', 'fee'],
    ['GEBUEHREN', '-1', 'fee'],
    ['Frais', '-1', 'fee'],
  ])('of the type %j with %s is a %s', (type, amount, kind) => {
    expect(readRow(['a', '', amount, 'EUR', '', type])).toMatchObject({ kind });
  });

  /** Bug: an authorization, and a payment that was refused, counted as paid. Cause: only a column of the status was read. */
  it.each([
    ['Authorised', 'other', 'COMPLETED'],
    ['Authorized', 'other', 'COMPLETED'],
    ['Auth Only', 'other', 'COMPLETED'],
    ['AUTH', 'other', 'COMPLETED'],
    ['pre-auth', 'other', 'COMPLETED'],
    ['PreAuth', 'other', 'COMPLETED'],
    ['Void', 'other', 'COMPLETED'],
    ['Voided', 'other', 'COMPLETED'],
    ['auth_capture', 'payment', 'COMPLETED'],
    ['Authorization and Capture', 'payment', 'COMPLETED'],
    ['Prior Authorization Capture', 'payment', 'COMPLETED'],
    ['Capture of an authorisation', 'payment', 'COMPLETED'],
    ['Authorization and Capture failed', 'payment', 'DECLINED'],
    ['Authorization without capture', 'other', 'COMPLETED'],
    ['authorized, not captured', 'other', 'COMPLETED'],
    ['auth_uncaptured', 'other', 'COMPLETED'],
    ['Refused', 'payment', 'DECLINED'],
    ['Cancelled', 'payment', 'DECLINED'],
    ['CaptureFailed', 'payment', 'DECLINED'],
    ['payment_canceled', 'payment', 'DECLINED'],
    ['Payment failed', 'payment', 'DECLINED'],
    ['Zahlung abgelehnt', 'payment', 'DECLINED'],
    ['Refund cancelled', 'refund', 'DECLINED'],
    ['failed payments team', 'payment', 'COMPLETED'],
    ['payout_failed', 'other', 'COMPLETED'],
  ])('of the type %j is a %s that is %s', (type, kind, state) => {
    expect(readRow(['a', '', '1', 'EUR', 'Approved', type])).toMatchObject({ kind, state });
  });

  it.each(['NOTPROVIDED', 'n/a', '-', 'null'])('has no reference where the bank writes %s', (text) => {
    expect(readRow([text, '', '1', 'EUR'])).toMatchObject({ problem: expect.stringContaining('neither') });
  });

  it('may have our transaction id in the column of the reference', () => {
    expect(readRow(['txn17', '', '1', 'EUR'])).toMatchObject({ reference: '', transactionId: 'TXN17' });
  });

  it('that names a payment is one, whatever brought the money', () => {
    expect(readRow(['a', '', '1', 'EUR', '', 'Transfer'])).toMatchObject({ kind: 'payment' });
  });

  it.each([
    ['payout', '-12.00'],
    ['Reversal of ACH Deposit', '-12.00'],
    ['topup_reversal', '-12.00'],
    ['Bankgutschrift auf PayPal-Konto', '12.00'],
    ['Rückbuchung von ACH-Gutschrift', '-12.00'],
  ])('of the type %j without a reference is no problem, because it is no payment', (type, amount) => {
    expect(readRow(['', '', amount, 'EUR', '', type])).toMatchObject({ kind: 'other' });
  });

  it('without an amount is counted if it is never compared, and else refused', () => {
    const none = { amount: '', units: 0n, currency: '' };
    expect(readRow(['a', '', '', '', '', 'Fee'])).toMatchObject({ kind: 'fee', ...none });
    expect(readRow(['', '', '', 'EUR', '', 'MerchantPayout'])).toMatchObject({ kind: 'other', ...none });
    for (const type of ['', 'charge', 'refund', 'Transfer', 'chargeback']) {
      expect(readRow(['a', '', '', 'EUR', '', type]), type).toMatchObject({ problem: 'It has no amount.' });
    }
  });

  it.each([
    ['Paid', 'false', 'OTHER', 'Paid (not captured)'],
    ['', 'No', 'OTHER', '(not captured)'],
    ['Paid', 'true', 'COMPLETED', 'Paid'],
    ['Paid', '', 'COMPLETED', 'Paid'],
    ['Failed', 'false', 'DECLINED', 'Failed'],
  ])('with the status %j and captured %j is %s', (status, captured, state, shown) => {
    const more = { columns: { reference: 0, amount: 1, status: 2, captured: 3 }, currency: 'EUR' };
    expect(readRow(['a', '1', status, captured], more)).toMatchObject({ state, status: shown });
  });

  it('says how much of its payment was given back', () => {
    const more = { columns: { reference: 0, amount: 1, refunded: 2 }, currency: 'EUR' };
    expect(readRow(['a', '50.00', '20.00'], more)).toMatchObject({ amount: '50.00', refundedUnits: 2_000_000_000n });
    for (const none of ['', '0.00', '-']) expect(readRow(['a', '5', none], more)).toMatchObject({ refundedUnits: 0n });
    expect(readRow(['a', '50.00', 'all'], more)).toMatchObject({ problem: expect.stringContaining('“all”') });
    const either = expect.stringContaining('“1.000” may have a thousands separator');
    expect(readRow(['a', '2000', '1.000'], more)).toMatchObject({ problem: either });
    expect(readRow(['a', '1.000', '5.00'], more)).toMatchObject({ problem: either });
    const yen = { ...more, currency: 'JPY' };
    expect(readRow(['a', '2.000', '1.000'], yen)).toMatchObject({ amount: '2000', refundedUnits: 100_000_000_000n });
  });

  it('has its amount in a column of credits or of debits, and a currency that is typed', () => {
    const two = { columns: { reference: 0, credit: 1, debit: 2 }, currency: 'eur' };
    expect(readRow(['a', '5.00', ''], two)).toMatchObject({ amount: '5.00', currency: 'EUR', kind: 'payment' });
    expect(readRow(['a', '0.00', '5.00'], two)).toMatchObject({ amount: '-5.00', kind: 'other' });
    expect(readRow(['a', '', '-5.00'], two)).toMatchObject({ amount: '-5.00' });
    expect(readRow(['a', '0.00', ''], two)).toMatchObject({ amount: '0.00' });
    expect(readRow(['a', '5.00', '5.00'], two)).toMatchObject({ problem: 'It has a credit and a debit.' });
    expect(readRow(['a', '5,00 €', '0,00 €'], two)).toMatchObject({ amount: '5.00' });
    expect(readRow(['a', '-', '(5.00)'], two)).toMatchObject({ amount: '-5.00' });
  });

  /** Bug: a debit without a sign was read as a payment. Cause: only the sign of an amount was looked at. */
  it.each([
    ['5.00', 'S', '-5.00'],
    ['5,00', 'soll', '-5.00'],
    ['5.00', 'DR', '-5.00'],
    ['-5.00', 'Debit', '-5.00'],
    ['1.000', 'd', '-1000'],
    ['5.00', 'Af', '-5.00'],
    ['5.00', 'H', '5.00'],
    ['5.00', 'Credit', '5.00'],
    ['-5.00', 'bij', '-5.00'],
  ])('of %s on the side %j has the amount %s', (amount, side, signed) => {
    const currency = signed.includes('.') ? 'EUR' : 'JPY';
    const sided = { columns: { reference: 0, amount: 1, side: 2 }, currency };
    expect(readRow(['a', amount, side], sided)).toMatchObject({ amount: signed });
  });

  it.each(['', 'x', 'Debit card'])('on the side %j is refused', (side) => {
    const sided = { columns: { reference: 0, amount: 1, side: 2 }, currency: 'EUR' };
    expect(readRow(['a', '5.00', side], sided)).toEqual({
      ...{ line: 2, ids: ['a'], problem: `“${side}” says neither debit nor credit.` },
    });
  });

  it.each([
    ['Debit', '5.00', '', '', '-5.00'],
    ['dr', '5.00', '', '', '-5.00'],
    ['Debit', '5.00', '5.00', '', '5.00'],
    ['Debit card', '5.00', '', '', '5.00'],
    ['adjustment', '5.00', '0.00', '5.00', '-5.00'],
    ['payment', '5.00', '5.00', '0.00', '5.00'],
  ])(
    'of the type %j with %s, the credit %j and the debit %j has the amount %s',
    (type, amount, credit, debit, signed) => {
      const all = { columns: { reference: 0, type: 1, amount: 2, credit: 3, debit: 4 }, currency: 'EUR' };
      expect(readRow(['a', type, amount, credit, debit], all)).toMatchObject({ amount: signed });
    },
  );
});
