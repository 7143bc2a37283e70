import { type Command, Option } from '@commander-js/extra-typings';
import { examples, KEY, OPTIONS } from '../arguments.js';

const AMOUNT = new Option('--amount <amount>', 'a decimal number such as 100.50').makeOptionMandatory();
const CURRENCY = new Option('--currency <code>', 'an ISO 4217 code such as USD').makeOptionMandatory();
const STATE = new Option('--state <state>', 'only payments in this state').choices([
  'PROCESSING',
  'COMPLETED',
  'DECLINED',
] as const);

export function addPaymentCommands(program: Command): void {
  program
    .command('pay')
    .summary('pays once')
    .description(
      'Pays once, with one idempotency key for all attempts. The key is printed on standard error before money moves. With --key-file it\nis also kept on disk: the same command may then be run again after a crash or any error, and pays once.\nExit code 11: trying again does not help, look for the key at the processor.',
    )
    .addOption(AMOUNT)
    .addOption(CURRENCY)
    .option('--key-file <file>', 'keeps the key of this one payment; written before money moves')
    .option('--resume <key>', 'goes on with the payment of this key')
    .addOption(OPTIONS.json)
    .addOption(OPTIONS.url)
    .addOption(OPTIONS.apiKeyFile)
    .addOption(OPTIONS.deadline)
    .addHelpText(
      'after',
      examples(
        ['idempay pay --amount 100.50 --currency USD --key-file order-17.key', 'run it again: it pays once'],
        ['idempay pay --amount 100.50 --currency USD', 'prints the key first'],
        ['idempay pay --resume 0190f3a2-... --amount 100.50 --currency USD', 'after a crash, with that key'],
      ),
    )
    .action(async (options) => (await import('./pay.js')).pay(options));

  program
    .command('status')
    .summary('shows the outcome of a payment')
    .description(
      'Tells what became of a payment. Exit code: 0 completed, 3 declined, 4 not known yet, 7 no payment\nis known, and the message says whether it is certain that nothing was charged.',
    )
    .addArgument(KEY)
    .addOption(OPTIONS.json)
    .addOption(OPTIONS.url)
    .addOption(OPTIONS.apiKeyFile)
    .addOption(OPTIONS.deadline)
    .addHelpText('after', examples(['idempay status "$KEY" && echo paid', 'in a script']))
    .action(async (key, options) => {
      process.exitCode = await (await import('./payments.js')).showStatus(key, options);
    });

  const payments = program
    .command('payments')
    .summary('list, get, resolve and export payments')
    .description('The payments as the service keeps them.');

  payments
    .command('list')
    .description('Lists payments, the newest first.')
    .option('--find <text>', 'how the key begins, or the transaction id: 0190f3, TXN1795')
    .addOption(STATE)
    .option('--processor <name>', 'only payments of this processor')
    .option('--from <time>', 'issued at this day or moment (UTC), or later: 2026-11-20, 2026-11-20T13:00:00Z')
    .option('--to <time>', 'issued before this day or moment')
    .addOption(OPTIONS.limit)
    .addOption(OPTIONS.json)
    .addOption(OPTIONS.url)
    .addOption(OPTIONS.apiKeyFile)
    .addOption(OPTIONS.deadline)
    .addHelpText(
      'after',
      examples(
        ['idempay payments list --state PROCESSING', 'those without an outcome'],
        ['idempay payments list --from 2026-11-20 --json | jq -r .transactionId', 'for a script'],
      ),
    )
    .action(async (options) => (await import('./payments.js')).listPayments(options));

  payments
    .command('get')
    .description('Shows one payment.')
    .addArgument(KEY)
    .addOption(OPTIONS.json)
    .addOption(OPTIONS.url)
    .addOption(OPTIONS.apiKeyFile)
    .addOption(OPTIONS.deadline)
    .addHelpText('after', examples(['idempay payments get "$KEY" --json | jq -r .state', 'one member']))
    .action(async (key, options) => (await import('./payments.js')).getPayment(key, options));

  payments
    .command('resolve')
    .summary('ends a payment that stays unknown')
    .description(
      'For operators: ends a payment that stays unknown, once you found its outcome at the processor (docs/guides/processor.md).\nIt asks before it does so.',
    )
    .addArgument(KEY)
    .addOption(
      new Option('--outcome <outcome>', 'what the processor says')
        .choices(['completed', 'declined'] as const)
        .makeOptionMandatory(),
    )
    .requiredOption('--reason <text>', 'how it was found out: one line, at most 500 characters')
    .addOption(OPTIONS.yes)
    .addOption(OPTIONS.json)
    .addOption(OPTIONS.url)
    .addOption(OPTIONS.apiKeyFile)
    .addOption(OPTIONS.deadline)
    .addHelpText(
      'after',
      examples(['idempay payments resolve "$KEY" --outcome declined --reason "not in the statement of 20 Nov"', '']),
    )
    .action(async (key, options) => (await import('./payments.js')).resolvePayment(key, options));

  payments
    .command('export')
    .description('For operators: every payment that was settled on a day (UTC), in that order.')
    .requiredOption('--day <day>', 'such as 2026-11-20')
    .option('--processor <name>', 'only payments of this processor')
    .addOption(OPTIONS.format)
    .addOption(OPTIONS.spreadsheet)
    .addOption(OPTIONS.output)
    .addOption(OPTIONS.url)
    .addOption(OPTIONS.apiKeyFile)
    .addOption(OPTIONS.deadline)
    .addHelpText(
      'after',
      examples(
        ['idempay payments export --day 2026-11-20 -o 2026-11-20.ndjson', 'a file that is whole, or not there'],
        ['idempay payments export --day 2026-11-20 --format csv --spreadsheet -o day.csv', 'for a spreadsheet'],
      ),
    )
    .action(async (options) => (await import('./payments.js')).exportPayments(options));
}
