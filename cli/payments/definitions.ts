import { type Command, Option } from '@commander-js/extra-typings';
import { pageAt } from '#idempay/platform/manual.js';
import { MEMBERS } from '#idempay/statements/columns.js';
import { examples, KEY, KEY_UNLESS_REFERENCE, OPTIONS, REFERENCE } from '../arguments.js';
import { wholeNumber } from '../connection.js';

const AMOUNT = new Option('--amount <amount>', 'a decimal number such as 100.50').makeOptionMandatory();
const CURRENCY = new Option('--currency <code>', 'an ISO 4217 code such as USD').makeOptionMandatory();
/** A token in the list of processes can be read by everybody on the machine. */
const SOURCE = new Option(
  '--source <token>',
  'who pays, as the processor names it; better in the variable, because everybody on the machine sees arguments',
).env('IDEMPAY_SOURCE');
const METADATA = new Option(
  '--metadata <name=value>',
  'a text of your own about the payment; repeat it for others',
).argParser((text, others: readonly string[] = []): readonly string[] => [...others, text]);
const STATE = new Option('--state <state>', 'only payments in this state').choices([
  'PROCESSING',
  'COMPLETED',
  'DECLINED',
  'CANCELLED',
] as const);
const KIND = new Option('--kind <kind>', 'payments (default), only refunds, or all').choices([
  'payment',
  'refund',
  'all',
] as const);

export function addPaymentCommands(program: Command): void {
  program
    .command('pay')
    .summary('pays once')
    .description(
      'Pays once. With --reference nothing has to be kept: the same command may be run again after a crash or any error, on any machine.\nOnly after a decline, when the payer wants to try again, give the next --attempt.\nWithout a reference: one idempotency key for all requests, printed on standard error before money moves. With --key-file it is also\nkept on disk, and the same command may be run again. Exit code 11: trying again does not help, look for the key at the processor.\nWith --return-url the payment may wait for its payer: it prints the address to which the payer has to go, and ends with 16.\nRun the same command again for the outcome, or give --wait.',
    )
    .addOption(REFERENCE.reference)
    .addOption(REFERENCE.attempt)
    .addOption(AMOUNT)
    .addOption(CURRENCY)
    .option('--description <text>', 'what is paid')
    .addOption(METADATA)
    .addOption(SOURCE)
    .option('--return-url <url>', 'the payer is present, and comes back here after a confirmation')
    .option('--wait', 'goes on asking while the payment is pending')
    .option('--key-file <file>', 'without a reference: keeps the key of this one payment; written before money moves')
    .option('--resume <key>', 'goes on with the payment of this key')
    .addOption(OPTIONS.json)
    .addOption(OPTIONS.url)
    .addOption(OPTIONS.apiKeyFile)
    .addOption(OPTIONS.deadline)
    .addHelpText(
      'after',
      examples(
        ['idempay pay --reference order-17 --amount 100.50 --currency USD', 'run it again, anywhere: it pays once'],
        [
          'IDEMPAY_SOURCE=tok_1a2b3c idempay pay --reference order-17 --amount 100.50 --currency USD --description Shoes --metadata cart=8812',
          'who pays, and what it is about',
        ],
        ['idempay pay --reference order-17 --attempt 2 --amount 100.50 --currency USD', 'after a decline'],
        [
          'idempay pay --reference order-17 --amount 100.50 --currency USD --return-url https://shop.example/order-17 --wait',
          'a payer who has to confirm',
        ],
        ['idempay pay --amount 100.50 --currency USD --key-file order-17.key', 'without a reference, run it again'],
        ['idempay pay --amount 100.50 --currency USD', 'prints the key first'],
        ['idempay pay --resume 0190f3a2-... --amount 100.50 --currency USD', 'after a crash, with that key'],
      ),
    )
    .action(async (options) => {
      process.exitCode = await (await import('./pay.js')).pay(options);
    });

  program
    .command('status')
    .summary('shows the outcome of a payment')
    .description(
      'Tells what became of a payment: of a key, or of the newest attempt at a reference. Exit code: 0 completed, 3 declined, 4 not known\nyet, 8 cancelled, 7 no payment is known; of a key the message says whether it is certain that nothing was charged.',
    )
    .addArgument(KEY_UNLESS_REFERENCE)
    .addOption(REFERENCE.reference)
    .addOption(REFERENCE.attempt)
    .addOption(REFERENCE.client)
    .addOption(OPTIONS.json)
    .addOption(OPTIONS.url)
    .addOption(OPTIONS.apiKeyFile)
    .addOption(OPTIONS.deadline)
    .addHelpText('after', examples(['idempay status --reference order-17 && echo paid', 'in a script']))
    .action(async (key, options) => {
      process.exitCode = await (await import('./payments.js')).showStatus(key, options);
    });

  program
    .command('refund')
    .summary('gives a part of a payment back, once for each name')
    .description(
      'Gives a part of a payment back, or all of it. The same command may be run again after a crash or any error, on any machine: the money\nis given back once for each --name, and all refunds of a payment together never give back more than was paid.\nRun it again with the same --name, because another name is another refund.\nIf the processor takes time it ends with 16: run the same command again for the outcome, or give --wait.',
    )
    .option('--reference <text>', 'the order that was paid: order-17')
    .option('--key <key>', 'or the idempotency key of the payment')
    .addOption(REFERENCE.client)
    .requiredOption('--name <text>', 'your own name of this refund, such as line-2')
    .addOption(AMOUNT)
    .addOption(CURRENCY)
    .option('--reason <text>', 'for the processor, and in the record')
    .option('--wait', 'goes on asking while the refund is pending')
    .addOption(OPTIONS.json)
    .addOption(OPTIONS.url)
    .addOption(OPTIONS.apiKeyFile)
    .addOption(OPTIONS.deadline)
    .addHelpText(
      'after',
      examples(
        [
          'idempay refund --reference order-17 --name line-2 --amount 12.50 --currency USD',
          'run it again, anywhere: it gives the money back once',
        ],
        ['idempay refund --key "$KEY" --name all --amount 100.50 --currency USD --reason returned', 'all of a payment'],
      ),
    )
    .action(async (options) => {
      process.exitCode = await (await import('./refund.js')).refund(options);
    });

  program
    .command('settlements')
    .summary('shows payments and refunds as they end')
    .description(
      `Shows the payments and refunds that ended, in that order: those of the credential, and for operators all of them. With --follow it\ngoes on until it is ended, and waits for the next ones. With --cursor-file it goes on where it stopped: the place is kept after it was\nshown, so that each settlement is shown at least once. A program behind a pipe that dies loses lines that it has not processed; one that\nmust miss none takes page by page, as the loop in ${pageAt('docs/reference/settlements.md')} does. Exit code 8: the place is of no use\nany more; the message has the --from to begin again with.`,
    )
    .option('--follow', 'goes on, and waits for the next settlements')
    .option(
      '--after <cursor>',
      'begins after this place; now: with the next settlement, unless --cursor-file has a place already',
    )
    .option('--from <time>', 'settled at this day or moment (UTC), or later: 2026-11-20, 2026-11-20T13:00:00Z')
    .option('--cursor-file <file>', 'keeps the place, and begins there if it exists, unless --from or a place is given')
    .addOption(
      new Option('--kind <kind>', 'only payments, only refunds, or all (default)').choices([
        'payment',
        'refund',
        'all',
      ] as const),
    )
    .option('--client <name>', 'for operators: only settlements of this client, such as key:shop')
    .addOption(
      new Option('--limit <count>', 'settlements of a page, at most 1000').argParser((text) =>
        wholeNumber('--limit', text, 1, 1_000),
      ),
    )
    .addOption(OPTIONS.json)
    .addOption(OPTIONS.url)
    .addOption(OPTIONS.apiKeyFile)
    .addOption(OPTIONS.deadline)
    .addHelpText(
      'after',
      examples(
        ['idempay settlements --follow --after now', 'what ends from now on'],
        ['idempay settlements --follow --cursor-file settlements.cursor', 'goes on where it was ended'],
        ['idempay settlements --cursor-file next.cursor --json > page.jsonl', 'one page, for a program'],
      ),
    )
    .action(async (options) => (await import('./settlements.js')).showSettlements(options));

  const payments = program
    .command('payments')
    .summary(
      'list, get, cancel, resolve, export and reconcile payments; list their refunds and steps; ask the processor',
    )
    .description('The payments as the service keeps them.');

  payments
    .command('list')
    .description('Lists payments, the newest first.')
    .option('--reference <text>', 'only the attempts at this reference')
    .option('--content <text>', 'for operators: this description, or value of the metadata; needs --from')
    .option('--find <text>', 'how the key begins, or the transaction id: 0190f3, TXN1795')
    .addOption(STATE)
    .addOption(KIND)
    .option('--pending', 'only those that wait for their payer, or for a bank')
    .option('--processor <name>', 'only payments of this processor')
    .option('--from <time>', 'first paid with at this day or moment (UTC), or later: 2026-11-20, 2026-11-20T13:00:00Z')
    .option('--to <time>', 'first paid with before this day or moment')
    .addOption(OPTIONS.limit)
    .addOption(OPTIONS.json)
    .addOption(OPTIONS.url)
    .addOption(OPTIONS.apiKeyFile)
    .addOption(OPTIONS.deadline)
    .addHelpText(
      'after',
      examples(
        ['idempay payments list --reference order-17', 'all attempts at it'],
        ['idempay payments list --state PROCESSING', 'those without an outcome'],
        ['idempay payments list --pending', 'those that wait for their payer'],
        ['idempay payments list --kind refund --state PROCESSING', 'refunds without an outcome'],
        ['idempay payments list --content ann@shop.example --from 2026-11-01', 'by the metadata, as an operator'],
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
    .command('refunds')
    .description('Lists the refunds of one payment, the oldest first.')
    .addArgument(KEY)
    .addOption(OPTIONS.json)
    .addOption(OPTIONS.url)
    .addOption(OPTIONS.apiKeyFile)
    .addOption(OPTIONS.deadline)
    .addHelpText('after', examples(['idempay payments refunds "$KEY" --json | jq -r .refund.name', 'their names']))
    .action(async (key, options) => (await import('./payments.js')).listRefunds(key, options));

  payments
    .command('timeline')
    .summary('shows what became of a payment step by step')
    .description(
      'Shows the steps of a payment, the oldest first, and on standard error what happens next, and when an operator may resolve it.',
    )
    .addArgument(KEY_UNLESS_REFERENCE)
    .addOption(REFERENCE.reference)
    .addOption(REFERENCE.attempt)
    .addOption(REFERENCE.client)
    .addOption(OPTIONS.json)
    .addOption(OPTIONS.url)
    .addOption(OPTIONS.apiKeyFile)
    .addOption(OPTIONS.deadline)
    .addHelpText(
      'after',
      examples(
        ['idempay payments timeline --reference order-17', 'the newest attempt at an order'],
        ['idempay payments timeline "$KEY" --json | jq -r .next.resolvableAt', 'when it can be resolved'],
      ),
    )
    .action(async (key, options) => (await import('./payments.js')).showTimeline(key, options));

  payments
    .command('ask-processor')
    .summary('asks the processor what it knows of a payment')
    .description(
      'For operators, before a resolution: the service asks the processor now what it knows of a payment. Nothing is charged, and nothing is\nwritten.',
    )
    .addArgument(KEY_UNLESS_REFERENCE)
    .addOption(REFERENCE.reference)
    .addOption(REFERENCE.attempt)
    .addOption(REFERENCE.client)
    .addOption(OPTIONS.json)
    .addOption(OPTIONS.url)
    .addOption(OPTIONS.apiKeyFile)
    .addOption(OPTIONS.deadline)
    .addHelpText('after', examples(['idempay payments ask-processor "$KEY" --json | jq -r .answer', 'in a script']))
    .action(async (key, options) => (await import('./payments.js')).askProcessor(key, options));

  payments
    .command('cancel')
    .summary('closes a payment that is not to be made')
    .description(
      'Closes a payment that is not to be made, so that no late worker or stale page can ever charge it. One that is\nunder way, or waits for its payer, is ended at the processor. Of a payment and its\ncancellation exactly one succeeds: run it again until it ends with 0, or with 8, which says what the outcome is.\nIt asks before it does so.',
    )
    .addArgument(KEY_UNLESS_REFERENCE)
    .addOption(REFERENCE.reference)
    .addOption(REFERENCE.attempt)
    .addOption(REFERENCE.client)
    .option('--only-attempt', 'ends this attempt only: the next one may follow, as with another card')
    .addOption(OPTIONS.yes)
    .addOption(OPTIONS.json)
    .addOption(OPTIONS.url)
    .addOption(OPTIONS.apiKeyFile)
    .addOption(OPTIONS.deadline)
    .addHelpText(
      'after',
      examples(
        ['idempay payments cancel --reference order-17 --yes', 'an order that was paid otherwise'],
        ['idempay payments cancel --reference order-17 --client key:shop', 'as an operator'],
        ['idempay payments cancel --reference order-17 --only-attempt --yes', 'the payer takes another card'],
      ),
    )
    .action(async (key, options) => (await import('./payments.js')).cancelPayment(key, options));

  payments
    .command('resolve')
    .summary('ends a payment that stays unknown')
    .description(
      `For operators: ends a payment that stays unknown, once you found its outcome at the processor (${pageAt('docs/reference/processor.md')}).\nIt asks before it does so.`,
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
    .summary('every payment that was settled on a day, in a month or on a range of days')
    .description(
      'For operators and accounts: every payment that was settled on a day, in a month, or from one day to another (UTC), in that order.',
    )
    .option('--day <day>', 'such as 2026-11-20')
    .option('--month <month>', 'such as 2026-10')
    .option('--from <day>', 'the first of several days, at most 366')
    .option('--to <day>', 'the last of them, which is included')
    .option('--processor <name>', 'only payments of this processor')
    .addOption(KIND)
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
        ['idempay payments export --month 2026-10 --spreadsheet -o october.csv', 'for a spreadsheet'],
        ['idempay payments export --from 2026-10-26 --to 2026-11-01 -o week.ndjson', 'seven days'],
        ['idempay payments export --month 2026-10 --kind all -o october.ndjson', 'with the refunds'],
      ),
    )
    .action(async (options) => (await import('./payments.js')).exportPayments(options));

  payments
    .command('reconcile')
    .summary("compares a processor's statement with the payments of a day")
    .description(
      `For operators and accounts: compares a processor's statement with the payments that were settled on a day (UTC), as the page of the console does.
The statement is CSV with a header, or one JSON object on each line. It is read on this machine and sent nowhere. Its columns are
recognised by their names, and can be named. Exit code: 0 agreed, 13 there are differences, 14 no difference was found but not every
line could be read, or the file is no statement.`,
    )
    .argument('<statement>', 'the file, of any size; -: standard input')
    .requiredOption('--day <day>', 'such as 2026-11-24; it must have ended, in UTC')
    .option('--processor <name>', 'only payments of this processor')
    .addOption(
      new Option(
        '--column <member=name>',
        `which column has a member; repeat it for others. Members: ${MEMBERS.join(', ')}`,
      ).argParser((text, others: readonly string[] = []): readonly string[] => [...others, text]),
    )
    .option('--currency <code>', 'of lines that have none')
    .addOption(
      new Option('--decimal-mark <mark>', 'what is before the decimals; default: as the amounts show').choices([
        '.',
        ',',
      ] as const),
    )
    .option('--delimiter <character>', 'between the cells of CSV: , ; | or \\t for a tab; default: recognised')
    .option(
      '--differences <file>',
      'gets all differences as CSV, and what was settled on a day next to it; appears when it is complete',
    )
    .addOption(OPTIONS.json)
    .addOption(OPTIONS.url)
    .addOption(OPTIONS.apiKeyFile)
    .addOption(OPTIONS.deadline)
    .addHelpText(
      'after',
      examples(
        ['idempay payments reconcile statement.csv --day 2026-11-24', 'what differs, for a person'],
        ['idempay payments reconcile statement.csv --day 2026-11-24 --json | jq .agreed', 'for a script'],
        [
          'idempay payments reconcile bank.csv --day 2026-11-24 --column order=Belegnummer --currency EUR --decimal-mark ,',
          'the columns of a bank',
        ],
        ['zcat statement.csv.gz | idempay payments reconcile - --day 2026-11-24 --differences differences.csv', ''],
      ),
    )
    .action(async (statement, options) => {
      process.exitCode = await (await import('./reconcile.js')).reconcilePayments(statement, options);
    });
}
