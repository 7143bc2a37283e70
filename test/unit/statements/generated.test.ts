/** Any file is read or refused with a sentence, and every one of its lines is accounted for. */
import { expect, it } from 'vitest';
import { readHead } from '#idempay/statements/format.js';
import { linesOf } from '#idempay/statements/lines.js';
import { readStatement } from '#idempay/statements/statement.js';
import { StatementError } from '#idempay/statements/statement-error.js';
import { casesOf } from '../../../testkit/cases.js';
import { type Random, seededRandom, seedFrom } from '../../../testkit/random.js';

const FILES = casesOf(5_000);
const CELLS = [
  ...[
    '',
    ' ',
    'order-1',
    'K',
    '0190a000-0000-7000-8000-000000000001',
    'TXN1',
    'ch_1',
    '="K"',
    '"="',
    "'",
    '\u202e',
    'a\u0000b',
  ],
  ...[
    '1',
    '1.00',
    '1,00',
    '1.000',
    '1,000.00',
    '1.000,00',
    '-5',
    '(5)',
    '5-',
    '$5',
    '1e9',
    'NaN',
    '٥',
    '1'.repeat(40),
    '1,,0',
  ],
  ...[
    'EUR',
    'eur',
    '€',
    'refund',
    'charge',
    'fee',
    'Completed',
    'declined',
    '{}',
    '[',
    '"a"',
    '"a;b"',
    '"a\nb"',
    '"a',
    'a"b',
    '""""',
  ],
];
const HEADERS = [
  ['reference', 'amount', 'currency', 'status'],
  ['Order', 'Type', 'Gross', 'Currency'],
  ['Kundenreferenz', 'Soll', 'Haben', 'Waehrung'],
  ['a', 'b', 'c', 'd'],
];
/** The values that such a column nearly always has. */
const USUAL: Readonly<Record<string, readonly string[]>> = {
  ...Object.fromEntries(['reference', 'Order', 'Kundenreferenz'].map((name) => [name, ['order-1', 'order-2', 'K']])),
  ...Object.fromEntries(['amount', 'Gross', 'Haben'].map((name) => [name, ['1', '1.00', '12.50', '-5', '1.000']])),
  ...Object.fromEntries(['currency', 'Currency', 'Waehrung'].map((name) => [name, ['EUR', 'usd', 'JPY']])),
  Type: ['charge', 'refund', 'fee'],
  Soll: ['', '0'],
  status: ['paid', 'declined'],
};
const BEFORE = [
  '',
  'sep=;',
  'sep=*',
  'sep=[',
  'sep=^',
  'sep=\\',
  'sep=.',
  'sep="',
  '"Girokonto";"DE00"',
  'Report of a day',
  '\ufeff',
  ';;;',
];

function fileOf(random: Random): string {
  const delimiter = random.pick([',', ';', '\t', '|']);
  const end = random.pick(['\n', '\r\n', '\r']);
  const header = random.pick(HEADERS);
  const cellOf = (name: string) => random.pick(random.below(8) === 0 ? CELLS : (USUAL[name] ?? CELLS));
  const lineOf = () => {
    const cells = header.map(cellOf);
    return (random.below(10) === 0 ? [...cells, ''].slice(0, random.pick([1, 3, 5])) : cells).join(delimiter);
  };
  const before = random.below(3) === 0 ? [random.pick(BEFORE)] : [];
  const lines = [...before, header.join(delimiter), ...Array.from({ length: random.below(12) }, lineOf)];
  return lines.join(end) + random.pick(['', end, end + end]);
}

it(`accounts for every line of ${FILES} generated files`, async () => {
  const random = seededRandom(seedFrom('STATEMENT_SEED', 1));
  const counts = { read: 0, refused: 0, skipped: 0, noStatement: 0 };
  for (let file = 0; file < FILES; file += 1) {
    const text = fileOf(random);
    const bytes = Buffer.from(text);
    const chunk = 1 + random.below(30);
    async function* chunks() {
      for (let at = 0; at < bytes.length; at += chunk) yield bytes.subarray(at, at + chunk);
    }
    const lines: string[] = [];
    for await (const some of linesOf(chunks())) lines.push(...some.map((line) => line.text));
    expect(lines.join('\n').replace(/^\ufeff/, '')).toBe(
      text
        .replace(/^\ufeff/, '')
        .replace(/\r\n|\r/g, '\n')
        .replace(/\n$/, ''),
    );
    try {
      const { format, columns } = readHead(lines);
      const content = await readStatement({
        bytes: chunks(),
        format,
        columns,
        currency: random.pick([undefined, 'EUR']),
      });
      const { read, refused, skipped } = content.lines;
      expect(read + refused + skipped, JSON.stringify(text)).toBe(lines.length);
      expect(content.unread.every(({ problem }) => /^[A-Z“].*\.$/s.test(problem))).toBe(true);
      counts.read += read;
      counts.refused += refused;
      counts.skipped += skipped;
    } catch (error) {
      if (!(error instanceof StatementError)) throw new Error(`in ${JSON.stringify(text)}`, { cause: error });
      counts.noStatement += 1;
    }
  }
  console.log(JSON.stringify(counts));
  expect(counts.read).toBeGreaterThan(FILES);
});
