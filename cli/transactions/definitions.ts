import { Argument, type Command, Option } from '@commander-js/extra-typings';
import type { TransactionStatus } from '#idempay/client';
import { examples, ID, OPTIONS } from '../arguments.js';

/** In the order in which a transaction may pass through them (rule T4 of the service). */
const TRANSACTION_STATUSES = [
  'PENDING',
  'PROCESSING',
  'ON_HOLD',
  'FLAGGED',
  'BLOCKED',
  'COMPLETED',
  'FAILED',
  'CANCELLED',
] as const satisfies readonly TransactionStatus[];
const FROM = new Option('--from <account>', 'only from this account');
const TO = new Option('--to <account>', 'only to this account');

/** `addImport` adds the one command of the group that keeps its state in SQLite, and so belongs to the service. */
export function addTransactionCommands(program: Command, addImport?: (transactions: Command) => void): void {
  const transactions = program
    .command('transactions')
    .summary(`list, get, create, set-status, delete${addImport ? ', import' : ''} and export transactions`)
    .description('Transactions between accounts.');

  transactions
    .command('list')
    .description('Lists transactions in ascending order of id.')
    .addOption(FROM)
    .addOption(TO)
    .addOption(OPTIONS.limit)
    .addOption(OPTIONS.json)
    .addOption(OPTIONS.url)
    .addOption(OPTIONS.apiKeyFile)
    .addOption(OPTIONS.deadline)
    .addHelpText(
      'after',
      examples(
        ['idempay transactions list --from alice', ''],
        ['idempay transactions list --json | jq -r .transactionId', 'all of them, for a script'],
      ),
    )
    .action(async (options) => (await import('./transactions.js')).listTransactions(options));

  transactions
    .command('get')
    .description('Shows one transaction and its tag.')
    .addArgument(ID)
    .addOption(OPTIONS.json)
    .addOption(OPTIONS.url)
    .addOption(OPTIONS.apiKeyFile)
    .addOption(OPTIONS.deadline)
    .addHelpText('after', examples(['idempay transactions get 100000000000001', '']))
    .action(async (id, options) => (await import('./transactions.js')).getTransaction(id, options));

  transactions
    .command('create')
    .summary('creates one transaction')
    .description(
      'Creates one transaction. With the same --idempotency-key the command may be run again, and creates it once.',
    )
    .requiredOption('--from <account>', 'the account that pays')
    .requiredOption('--to <account>', 'the account that gets it')
    .requiredOption('--amount <amount>', 'a decimal number such as 12.34')
    .addOption(new Option('--status <status>', 'the first status; PENDING without it').choices(TRANSACTION_STATUSES))
    .option('--idempotency-key <key>', 'your own, 1 to 64 visible ASCII characters; without it a new one')
    .addOption(OPTIONS.json)
    .addOption(OPTIONS.url)
    .addOption(OPTIONS.apiKeyFile)
    .addOption(OPTIONS.deadline)
    .addHelpText(
      'after',
      examples(['idempay transactions create --from alice --to bob --amount 12.34 --idempotency-key invoice-17', '']),
    )
    .action(async (options) => (await import('./transactions.js')).createTransaction(options));

  transactions
    .command('set-status')
    .description('Changes the status. FAILED and CANCELLED are final.')
    .addArgument(ID)
    .addArgument(new Argument('<status>', 'the new status').choices(TRANSACTION_STATUSES))
    .addOption(OPTIONS.ifMatch)
    .addOption(OPTIONS.json)
    .addOption(OPTIONS.url)
    .addOption(OPTIONS.apiKeyFile)
    .addOption(OPTIONS.deadline)
    .addHelpText(
      'after',
      examples(
        ['idempay transactions set-status 100000000000001 FLAGGED', ''],
        [`idempay transactions set-status 100000000000001 COMPLETED --if-match '"8f1c..."'`, 'as get showed it'],
      ),
    )
    .action(async (id, status, options) => (await import('./transactions.js')).setStatus(id, status, options));

  transactions
    .command('delete')
    .description('Deletes a transaction. It asks before it does so.')
    .addArgument(ID)
    .addOption(OPTIONS.ifMatch)
    .addOption(OPTIONS.yes)
    .addOption(OPTIONS.json)
    .addOption(OPTIONS.url)
    .addOption(OPTIONS.apiKeyFile)
    .addOption(OPTIONS.deadline)
    .addHelpText('after', examples(['idempay transactions delete 100000000000001 --yes', 'in a script']))
    .action(async (id, options) => (await import('./transactions.js')).deleteTransaction(id, options));

  addImport?.(transactions);

  transactions
    .command('export')
    .description('Writes every transaction by id, rising. Amounts are exact.')
    .addOption(FROM)
    .addOption(TO)
    .addOption(OPTIONS.format)
    .addOption(OPTIONS.spreadsheet)
    .addOption(OPTIONS.output)
    .addOption(OPTIONS.url)
    .addOption(OPTIONS.apiKeyFile)
    .addOption(OPTIONS.deadline)
    .addHelpText(
      'after',
      examples(
        ['idempay transactions export -o transactions.ndjson', 'a file that is whole, or not there'],
        ['idempay transactions export --format csv --from alice | gzip > alice.csv.gz', ''],
      ),
    )
    .action(async (options) => (await import('./transactions.js')).exportTransactions(options));
}
