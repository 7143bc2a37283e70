import { describe, expect, it } from 'vitest';
import { UsageError } from '#idempay/cli/usage.js';
import { type Batch, batchesOf, rowsOf } from '#idempay/commands/import/batches.js';
import type { Reading } from '#idempay/commands/import/import-state.js';
import { linesOf } from '#idempay/commands/import/lines.js';
import type { Row } from '#idempay/commands/import/rows.js';
import { casesOf } from '../../../testkit/cases.js';
import { type Random, seededRandom } from '../../../testkit/random.js';

const FILES = casesOf(5_000);
const SEED = 33;
const BREAKS = ['\n', '\r\n', '\r'];
const DELIMITERS = [',', ';', '\t', '|'];

describe(`${FILES} generated files`, () => {
  it('of anything are read to the end or refused with a sentence, and every line is counted once', async () => {
    const random = seededRandom(SEED);
    const gave = { refused: 0, good: 0, rejected: 0, noRow: 0 };
    for (let file = 0; file < FILES; file += 1) {
      const { reading, bytes } = anyFile(random);
      const name = `file ${file}: ${JSON.stringify(bytes.toString('latin1'))}`;
      const judged = await judge(bytes, reading, random);
      if (judged instanceof UsageError) {
        gave.refused += 1;
        continue;
      }
      const counts = expectEveryLineOnce(judged, bytes, name);
      gave.good += counts.good;
      gave.rejected += counts.rejected;
      gave.noRow += counts['no row'];
      // However the input is cut into chunks.
      expect(await judge(bytes, reading, random), name).toEqual(judged);
    }
    // The generator reaches each of the outcomes often.
    for (const [outcome, count] of Object.entries(gave)) expect(count, outcome).toBeGreaterThan(FILES / 10);
  });

  it('of rows whose content is known give exactly these rows', async () => {
    const random = seededRandom(SEED + 1);
    for (let file = 0; file < FILES; file += 1) {
      const { reading, bytes, good, rejected } = knownFile(random);
      const name = `file ${file}: ${JSON.stringify(bytes.toString())}`;
      const judged = await judge(bytes, reading, random);
      if (judged instanceof UsageError) throw new Error(`${judged.message} ${name}`);
      expectEveryLineOnce(judged, bytes, name);
      const created = judged.batches.flatMap((batch) => batch.good);
      expect(
        created.map(({ line, transaction: { fromAccount, amount } }) => [line, fromAccount, amount]),
        name,
      ).toEqual(good);
      expect(
        judged.batches.flatMap((batch) => batch.rejected.map(({ line }) => line)),
        name,
      ).toEqual(rejected);
    }
  });
});

interface Judged {
  readonly rows: readonly Row[];
  readonly batches: readonly Batch[];
}

/** As `--dry-run` judges it. Everything but a UsageError fails the test. */
async function judge(bytes: Buffer, reading: Reading, random: Random): Promise<Judged | UsageError> {
  const rows: Row[] = [];
  const batches: Batch[] = [];
  try {
    for await (const batch of batchesOf(chunksOf(bytes, random), reading)) batches.push(batch);
    for await (const row of rowsOf(linesOf(chunksOf(bytes, random)), reading)) rows.push(row);
    return { rows, batches };
  } catch (error) {
    if (error instanceof UsageError) return error;
    throw new Error(`${(error as Error).stack} in ${JSON.stringify(bytes.toString('latin1'))}`);
  }
}

async function* chunksOf(bytes: Buffer, random: Random): AsyncGenerator<Buffer> {
  const most = random.pick([1, 3, 17, 1000]);
  for (let at = 0; at < bytes.length; ) {
    const size = 1 + random.below(most);
    yield bytes.subarray(at, at + size);
    at += size;
  }
}

/** The ranges of the rows follow each other from the first byte and line to the last, and nothing with a content is between rows. */
function expectEveryLineOnce({ rows, batches }: Judged, bytes: Buffer, name: string) {
  const lines = { good: 0, rejected: 0, 'no row': 0 };
  let [end, line] = [0, 1];
  let headers = 0;
  // One comparison for each file, because one for each row took longer than reading the rows.
  const [found, expected]: [unknown[], unknown[]] = [[], []];
  for (const row of rows) {
    found.push([row.end - row.bytes.length, row.line, bytes.subarray(end, row.end).equals(row.bytes)]);
    expected.push([end, line, true]);
    if (row.content.state === 'no row' && /[^\s,;|"]/.test(row.bytes.toString())) {
      headers += 1;
    }
    lines[row.content.state] += row.nextLine - row.line;
    [end, line] = [row.end, row.nextLine];
  }
  expect(found, name).toEqual(expected);
  const withoutLastBreak = bytes.toString('latin1').replace(/(\r\n|\r|\n)$/, '');
  const lineCount = bytes.length === 0 ? 0 : withoutLastBreak.split(/\r\n|\r|\n/).length;
  expect([end, line - 1], name).toEqual([bytes.length, lineCount]);
  expect(headers, name).toBeLessThanOrEqual(1);
  const linesOfBatches = (kind: 'good' | 'rejected') => batches.flatMap((batch) => batch[kind].map((row) => row.line));
  const linesOfRows = (kind: string) => rows.filter(({ content }) => content.state === kind).map((row) => row.line);
  for (const kind of ['good', 'rejected'] as const) expect(linesOfBatches(kind), name).toEqual(linesOfRows(kind));
  return lines;
}

const HEADERS = [
  ['fromAccount', 'toAccount', 'amount'],
  ['fromAccount', 'toAccount', 'amount', 'note'],
  [' FROMACCOUNT', 'toaccount ', '"Amount"', 'Status', '', 'note', 'note', ''],
  ['transactionId', 'fromAccount', 'toAccount', 'amount', 'status', 'createdAt'],
  ['"a\nnote"', 'amount', 'toAccount', 'fromAccount'],
  ['fromAccount', 'amount'],
  ['fromAccount', ' "toAccount"', 'amount'],
  ['amount', 'fromAccount', 'Amount', 'toAccount'],
];
const CELLS = [
  ...[
    'a',
    'b',
    '1',
    '2.50',
    ' 3 ',
    '\u00a04',
    '-5',
    '1e3',
    '1,000',
    'FLAGGED',
    '',
    ' ',
    'Smith "Bob" Robert',
    '5" x 3" screen',
  ],
  ...[
    '"',
    '""',
    '"""',
    '"c"',
    '"c',
    'c"',
    ' "c"',
    '"c" ',
    '"c""d"',
    '"c,d;e|f"',
    '"c\nd"',
    '"c\rd"',
    '"c\r\nd"',
    '=1+1',
  ],
  ...['\0', '\ufeff', 'M\u00fcller', '\u2028', '\u{1F600}', '__proto__', '\\"', "'", '\v', 'x'.repeat(70)],
];
const ENDINGS = [...BREAKS, ...BREAKS, '\n\n', '\r\r\n', '\n\r', '', ',\n', ' \n'];
const JSON_PIECES = [
  ...[
    '{"fromAccount":"a","toAccount":"b","amount":1}',
    '{"fromAccount":"a"',
    '{',
    '}',
    '[',
    ']',
    '"',
    ',',
    ':',
    'null',
    ' ',
  ],
  ...[
    '{"fromAccount":"a","toAccount":"b","amount":"2.5","Note":{"x":[]},"note":1}',
    '1e999',
    '{"a b":1}',
    '\\ud800',
    '\0',
  ],
  ...[
    '[['.repeat(200),
    '{"a":'.repeat(100),
    '{"fromAccount":"\\ud800","toAccount":"b","amount":1}',
    '\ufeff',
    '{"":1}',
  ],
];

/** Nothing that anybody would send, and everything that somebody does. */
function anyFile(random: Random): { readonly reading: Reading; readonly bytes: Buffer } {
  const delimiter = random.pick(DELIMITERS);
  const format = random.below(6) === 0 ? 'ndjson' : 'csv';
  const ignored = random.below(8) === 0 ? [] : ['', 'a note', 'note'];
  const reading: Reading = { format, delimiter, ignored, batchRows: 1 + random.below(4) };
  const many = <T>(most: number, make: () => T) => Array.from({ length: random.below(most + 1) }, make);
  const header = random.below(12) === 0 ? random.pick(HEADERS) : random.pick(HEADERS.slice(0, 5));
  const row = () => {
    const isUsual = random.below(3) > 0;
    const cells = isUsual
      ? header.map((name) => usualCell(random, name))
      : many(header.length + 1, () => random.pick(CELLS));
    return cells.join(random.below(20) === 0 ? random.pick(DELIMITERS) : delimiter) + random.pick(ENDINGS);
  };
  const json = () => many(3, () => random.pick(JSON_PIECES)).join('') + random.pick(ENDINGS);
  const before = `${random.below(5) === 0 ? '\ufeff' : ''}${random.below(5) === 0 ? random.pick(ENDINGS) : ''}`;
  const text =
    format === 'csv'
      ? `${before}${header.join(delimiter)}${random.pick(BREAKS)}${many(12, row).join('')}`
      : before + many(12, json).join('');
  return { reading, bytes: withDamage(Buffer.from(text), random) };
}

function usualCell(random: Random, name: string): string {
  if (random.below(8) === 0) return random.pick(CELLS);
  if (/amount/i.test(name)) return random.pick(['1', '2.50', ' 3 ', '"4"']);
  if (/status/i.test(name)) return random.pick(['', 'FLAGGED']);
  return /from/i.test(name) ? 'from' : 'to';
}

/** One file of ten is cut off, or has a byte that does not belong there. */
function withDamage(bytes: Buffer, random: Random): Buffer {
  const place = random.below(bytes.length + 1);
  const kind = random.below(20);
  if (kind === 0) return bytes.subarray(0, place);
  if (kind !== 1) return bytes;
  return Buffer.concat([bytes.subarray(0, place), Buffer.from([random.below(256)]), bytes.subarray(place)]);
}

/** Written by the rules of RFC 4180, with blank lines and wrong rows in between. */
function knownFile(random: Random) {
  const [delimiter, lineBreak] = [random.pick(DELIMITERS), random.pick(BREAKS)];
  const blank = () => random.pick(['', '', ' ', '\u00a0']);
  const quoted = (text: string) => `"${text.replaceAll('"', '""')}"`;
  const good: unknown[] = [];
  const rejected: number[] = [];
  let text = random.pick(['', '\ufeff']) + random.pick(['', lineBreak, delimiter.repeat(3) + lineBreak]);
  const line = () => text.split(/\r\n|\r|\n/).length;
  text += ['fromAccount', ' toAccount', 'AMOUNT ', '"a\nnote"'].join(delimiter) + lineBreak;
  for (let rows = random.below(10); rows > 0; rows -= 1) {
    const account = random.pick([
      'a',
      'M\u00fcller',
      ' blanks ',
      'a "b"',
      'a,b;c|d',
      '=1+1',
      "'",
      '__proto__',
      '\u{1F600}',
    ]);
    const note = random.pick(['', 'x', 'x\ny', '\r\nevil,thief,1000,\r\n', '"', '\n"\n"\n', ',,,']);
    const amount = `${1 + random.below(1000)}.${1 + random.below(9)}`;
    const cells = [quoted(account), `${blank()}to${blank()}`, blank() + amount + blank(), quoted(note)];
    const kind = random.below(6);
    if (kind === 0) text += random.pick(['', ' ', delimiter.repeat(3), ` ${delimiter} `, `""${delimiter}""`]);
    else if (kind === 1) {
      rejected.push(line());
      text += random
        .pick([cells.slice(1), [...cells, 'x'], cells.with(2, '0'), cells.with(0, ''), cells.with(1, quoted(account))])
        .join(delimiter);
    } else {
      good.push([line(), account, amount]);
      text += cells.join(delimiter);
    }
    text += rows === 1 && random.below(2) === 0 ? '' : lineBreak;
  }
  const reading: Reading = { format: 'csv', delimiter, ignored: ['a note'], batchRows: 1 + random.below(4) };
  return { reading, bytes: Buffer.from(text), good, rejected };
}
