import { describe, expect, it } from 'vitest';
import { batchesOf } from '#idempay/commands/import/batches.js';

/** Problems that imports of other projects met, as their issues tell it, in files with our columns. */
const HEADER = 'fromAccount,toAccount,amount,note\n';

interface Case {
  readonly delimiter?: string;
  readonly ignored?: readonly string[];
}

/** The lines of the created and of the rejected rows. */
async function linesOf(text: string | Buffer, { delimiter = ',', ignored = ['note'] }: Case) {
  const reading = { format: 'csv', delimiter, ignored, batchRows: 1000 } as const;
  const good: number[] = [];
  const rejected: number[] = [];
  async function* input() {
    yield Buffer.from(text);
  }
  for await (const batch of batchesOf(input(), reading)) {
    good.push(...batch.good.map(({ line }) => line));
    rejected.push(...batch.rejected.map(({ line }) => line));
  }
  return { good, rejected };
}

describe('a file as other projects met it', () => {
  it.each<[string, string, Case, { readonly good: readonly number[]; readonly rejected: readonly number[] }]>([
    [
      'alexpcosta/opengym#7: an inch mark swallows the rows after it',
      `${HEADER}a,b,1,Box Jump 24"\na,b,2,x\na,b,3,x\n`,
      {},
      { good: [3, 4], rejected: [2] },
    ],
    [
      'mholt/PapaParse#735: text after a word in quotes at the beginning of a cell',
      `${HEADER}"C" St,b,1,x\na,b,2,"C" St - West\na,b,3,x\n`,
      {},
      { good: [4], rejected: [2, 3] },
    ],
    [
      'OpenRefine/OpenRefine#690: one quote at the end of a long text',
      'fromAccount;note;toAccount;amount\na;y sont en paix ensemble". ;b;1\na;x;b;2\n',
      { delimiter: ';' },
      { good: [3], rejected: [2] },
    ],
    [
      'jexp/batch-import#50: a quote that is never closed reads the rest of the file',
      `${HEADER}"a,b,1,x\n${'a,b,2,x\n'.repeat(3)}`,
      {},
      { good: [3, 4, 5], rejected: [2] },
    ],
    [
      'adaltas/node-csv-parse#139: blanks after the separators of a line that begins with a quote',
      `fromAccount, toAccount, amount\n"a", b, 4\n`,
      {},
      { good: [2], rejected: [] },
    ],
    [
      'dotCMS/core#36508: a byte order mark before the first name, here in quotes',
      `\ufeff"fromAccount","toAccount","amount"\r\n"a","b","1"\r\n`,
      {},
      { good: [2], rejected: [] },
    ],
    [
      'firefly-iii/firefly-iii#691: rows of commas before and after the header',
      `,,,\n${HEADER},,,\na,b,1,x\n`,
      {},
      { good: [4], rejected: [] },
    ],
    [
      'microsoft/AzureStorageExplorer#3136: rows that were deleted in Excel are lines of commas',
      `${HEADER}a,b,1,x\n${',,,\n'.repeat(1_247)}`,
      {},
      { good: [2], rejected: [] },
    ],
    [
      'dataculturegroup/DataBasic#176: every line of Excel ends with a comma',
      'fromAccount,toAccount,amount,\na,b,1,\n',
      { ignored: [''] },
      { good: [2], rejected: [] },
    ],
    [
      'thephpleague/csv#543: several columns without a name',
      'fromAccount,,toAccount,,amount,\na,x,b,y,1,z\n',
      { ignored: [''] },
      { good: [2], rejected: [] },
    ],
    [
      'mautic/mautic#5408: lines end with CR, as Excel for macOS writes them',
      'fromAccount,toAccount,amount\ra,b,1\ra,b,2\r',
      {},
      { good: [2, 3], rejected: [] },
    ],
    [
      'rethinkdb/rethinkdb#637: the last row has no line break',
      'fromAccount,toAccount,amount\na,b,1\na,b,2',
      {},
      { good: [2, 3], rejected: [] },
    ],
    [
      'OpenRefine/OpenRefine#653: a NUL before the closing quote',
      `${HEADER}a,b,1,"x\0"\n"a\0",b,2,x\n`,
      {},
      { good: [2], rejected: [3] },
    ],
    [
      'portfolio-performance/portfolio#1611: lines with sums after the rows',
      `${HEADER}a,b,1,x\n\nTotal inflows,,1,\nTotal,,30k\n`,
      {},
      { good: [2], rejected: [4, 5] },
    ],
  ])('%s', async (_what, text, more, expected) => {
    expect(await linesOf(text, more)).toEqual(expected);
  });

  it.each([
    ['harelba/q#98: UTF-16', Buffer.from(`\ufeff${HEADER}a,b,1,x\n`, 'utf16le'), /UTF-8/],
    [
      'plaintextaccounting/hledger#177: a preamble',
      `"Kontonummer:","1030653008"\n""\n${HEADER}`,
      /must name fromAccount/,
    ],
    ['attic-labs/noms#2453: a name that stands twice', 'fromAccount,toAccount,amount,amount\na,b,1,2\n', /twice/],
  ])('is refused with a sentence: %s', async (_what, text, sentence) => {
    const refused = linesOf(text, {});
    await expect(refused).rejects.toThrow(sentence);
    await expect(refused).rejects.toMatchObject({ name: 'UsageError' });
  });
});
