import { type Command, Option } from '@commander-js/extra-typings';
import { examples, OPTIONS } from '#idempay/cli/arguments.js';
import { deadlineOption, wholeNumber } from '#idempay/cli/connection.js';
import { UsageError } from '#idempay/cli/usage.js';

const MOST_BATCH_ROWS = 1_000;
/** Nobody waits for an import, and a rate limit may hold it up for a minute. */
const DEADLINE_SECONDS = 300;
/** The default of IDEMPOTENCY_TTL_SECONDS. */
const KEY_LIFE_SECONDS = 86_400;
const YEAR_SECONDS = 31_536_000;

export function addImportCommand(transactions: Command): void {
  transactions
    .command('import')
    .summary('creates the transactions of a file, each once')
    .description(
      `Creates the transactions of a file, each once, in batches with idempotency keys. Run the same command again after a crash, kill or
error: it goes on where it stopped, and creates nothing twice. What it keeps for that is in FILE.import; remove it to import the
same file anew. Rejected rows are in FILE.rejected.ndjson, with line number and reason.

CSV needs a header that names fromAccount, toAccount and amount, and may name status, in any case. Blank lines and lines of separators
alone are no rows. NDJSON has such an object on each line. A name with a comma is left out in quotes: --ignore '"Fee, EUR",note'.`,
    )
    .argument('<file>', 'of any size; -: standard input')
    .addOption(
      new Option('--format <format>', 'of the file; known for .csv, .ndjson and .jsonl').choices([
        'csv',
        'ndjson',
      ] as const),
    )
    .addOption(
      new Option('--delimiter <character>', 'between the cells of CSV; tab: \\t').default(',').argParser(readDelimiter),
    )
    .addOption(
      new Option(
        '--ignore <names>',
        "columns or members to leave out, with commas between; '': without a name; may be repeated",
      ).argParser((text, before: readonly string[] | undefined) => [...(before ?? []), text]),
    )
    .addOption(
      new Option('--batch-rows <count>', 'rows of one request at most')
        .default(MOST_BATCH_ROWS)
        .argParser((text) => wholeNumber('--batch-rows', text, 1, MOST_BATCH_ROWS)),
    )
    .option('--dry-run', 'judge every row, and send nothing; rejected rows go to standard output')
    .option('--state <file>', 'in place of FILE.import; needed for standard input')
    .option('--rejected <file>', 'in place of FILE.rejected.ndjson')
    .addOption(
      new Option('--key-life <seconds>', 'IDEMPOTENCY_TTL_SECONDS of the service; counts for the first batch only')
        .default(KEY_LIFE_SECONDS)
        .argParser((text) => wholeNumber('--key-life', text, 1, YEAR_SECONDS)),
    )
    .addOption(new Option('--assume-created', 'treat the batch in doubt as created').conflicts('assumeNotCreated'))
    .addOption(new Option('--assume-not-created', 'treat the batch in doubt as not created'))
    .addOption(OPTIONS.json)
    .addOption(OPTIONS.url)
    .addOption(OPTIONS.apiKeyFile)
    .addOption(deadlineOption(DEADLINE_SECONDS))
    .addHelpText(
      'after',
      examples(
        ['idempay transactions import payroll.csv --dry-run', 'look first'],
        ['idempay transactions import payroll.csv', 'and again after a crash'],
        ["idempay transactions import ledger.csv --delimiter ';' --ignore note,booked", 'from another program'],
        ['zcat rows.ndjson.gz | idempay transactions import - --format ndjson --state rows.import', ''],
      ),
    )
    .action(async (file, options) => {
      process.exitCode = await (await import('./import.js')).importTransactions(file, options);
    });
}

function readDelimiter(text: string): string {
  const delimiter = text === '\\t' ? '\t' : text;
  if (/^[^\p{L}\p{N}"\r\n\s]$|^\t$/u.test(delimiter)) return delimiter;
  throw new UsageError('--delimiter takes one character, such as ; or \\t.');
}
