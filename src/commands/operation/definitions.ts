import { type Command, Option } from '@commander-js/extra-typings';
import { examples, OPTIONS } from '#idempay/cli/arguments.js';
import { wholeNumber } from '#idempay/cli/connection.js';
import { pageAt } from '../../platform/manual.js';

/** A program of its own, which is compiled after the service. */
const REFERENCE_PROCESSOR = new URL('../../reference-processor/main.js', import.meta.url).href;
const KEYS_FILE = new Option('--file <file>', 'the file of API keys').env('API_KEYS_FILE');

/** Commands that use the settings and files of this machine; no running service is asked. */
export function addOperationCommands(program: Command): void {
  program
    .command('serve')
    .summary('serves until SIGTERM or SIGINT; so does idempay without a command')
    .description(
      'Serves until SIGTERM or SIGINT, as idempay does without a command. Settings are environment variables.',
    )
    .action(async () => (await import('../../serve.js')).serve());

  const processor = program
    .command('processor')
    .summary('runs the reference processor; check: the contract against an adapter')
    .description(
      `Runs the reference processor, which plays the company that moves the money (${pageAt('docs/reference/processor.md')}), until SIGTERM or SIGINT.\nIts settings are environment variables too: PROCESSOR_PORT (8090), CHARGE_LOG, PROCESSOR_DECLINE_RATE and others.`,
    )
    .addHelpText(
      'after',
      examples(
        ['idempay processor', 'in a terminal of its own'],
        ['PROCESSOR_URL=http://127.0.0.1:8090 idempay', 'a service that charges there'],
      ),
    )
    .action(async () => void (await import(REFERENCE_PROCESSOR)));
  processor
    .command('check')
    .summary('runs the contract of processors against an adapter, and charges for real')
    .description(
      `Runs the contract of ${pageAt('docs/reference/processor.md')} against an adapter: charges, repeats, look-ups, lost replies, content, twenty
charges at once, endings, pending charges, refunds, wrong requests. It charges for real, with up to 17 references, gives two of the charges
back, and prints each reference. Exit code: 0 the contract is kept, 15 it is broken, 5 the adapter cannot be reached.`,
    )
    .argument('[url]', 'of the adapter, as in PROCESSOR_URL, which is taken if it is omitted')
    .option('--amount <amount>', 'of each charge (default: 1.00)')
    .option('--currency <code>', 'ISO 4217', 'EUR')
    .option('--source <token>', 'sent with each charge: what stands for a payer who pays')
    .option('--declining-source <token>', 'what stands for a payer whose charge is declined')
    .option('--confirming-source <token>', 'what stands for a payer who must confirm the charge')
    .option(
      '--payer-command <command>',
      'confirms or refuses a pending charge: $IDEMPAY_PAYER_DOES, at $IDEMPAY_ACTION_URL',
    )
    .option('--restart-command <command>', 'kills the adapter, and starts it again')
    .addOption(
      new Option('--timeout-ms <ms>', 'for one call, as PROCESSOR_TIMEOUT_MS of the service')
        .default(10_000)
        .argParser((text) => wholeNumber('--timeout-ms', text, 10, 600_000)),
    )
    .addOption(
      new Option('--deadline <seconds>', 'how long look-ups may say that a charge is at work')
        .default(180)
        .argParser((text) => wholeNumber('--deadline', text, 1, 86_400)),
    )
    .addOption(OPTIONS.yes)
    .addOption(OPTIONS.json)
    .addHelpText(
      'after',
      examples(
        ['idempay processor check http://127.0.0.1:8091 --yes', 'before you go live, against a sandbox'],
        ['PROCESSOR_URL=https://idempay:secret@adapter.example idempay processor check --yes --json', 'for a script'],
      ),
    )
    .action(async (url, options) => {
      const { checkProcessor } = await import('../processor-check/check-processor.js');
      process.exitCode = await checkProcessor(url, options);
    });

  const keys = program.command('keys').summary('add, list and revoke API keys').description('The file of API keys.');
  keys
    .command('add')
    .argument('<name>', 'the client')
    .description('Writes an API key of the client, and prints its secret once.')
    .option('--scopes <scopes>', 'what it may do, with commas between: payments:write,payments:read')
    .option('--expires-at <time>', 'ISO 8601, such as 2027-01-01T00:00:00Z')
    .addOption(KEYS_FILE)
    .addOption(OPTIONS.json)
    .addHelpText(
      'after',
      examples(['idempay keys add shop --scopes payments:write,payments:read --file keys.json', '']),
    )
    .action(async (name, options) => (await import('./keys.js')).addKey(name, options));
  keys
    .command('list')
    .description('Shows the keys, without their secrets.')
    .addOption(KEYS_FILE)
    .addOption(OPTIONS.json)
    .action(async (options) => (await import('./keys.js')).listKeys(options));
  keys
    .command('revoke')
    .argument('<name>', 'the client')
    .description('Removes all keys of the client, or the one with this id.')
    .option('--id <id>', "as 'keys list' shows it")
    .addOption(KEYS_FILE)
    .action(async (name, options) => (await import('./keys.js')).revokeKeys(name, options));

  program
    .command('backup')
    .argument('<file>', 'a file that does not exist yet')
    .summary('copies the embedded database into a new file')
    .description('Copies the embedded database (DATA_DIR) into a new file, while the service runs or not.')
    .action(async (file) => (await import('./backup.js')).backup(file, process.env));

  program
    .command('restored')
    .summary('says that DATA_DIR is a restored snapshot')
    .description(
      'Says that DATA_DIR is a restored snapshot of the whole folder, so that its next start treats everything written after the snapshot as lost. Run it before that start. A copy of the database alone is noticed without it.',
    )
    .action(async () => (await import('./restored.js')).restored(process.env));

  program
    .command('adopt')
    .argument('<client>', "such as key:shop; 'nobody' if every order may be paid again")
    .summary('lets a client go on with orders that were paid without AUTH')
    .description(
      `Lets one client go on with the orders of a store (DATA_DIR, or DATABASE_URL) that were paid without credentials, before AUTH=required is
set: its references are computed as they were without credentials, and all payments, keys and refunds without a client are its own. It is done
once, and never taken back. Stop every service on the store first. It asks before it does so.`,
    )
    .addOption(KEYS_FILE)
    .addOption(OPTIONS.yes)
    .addHelpText('after', examples(['idempay adopt key:shop', 'after: idempay keys add shop --scopes ...']))
    .action(async (client, options) => (await import('./adopt.js')).adopt(process.env, client, options));

  program
    .command('transfer')
    .summary('moves the embedded deployment to Redis and PostgreSQL')
    .description(
      `Copies the embedded deployment in DATA_DIR to the empty stores of REDIS_URL and DATABASE_URL, and compares the copy. Stop the service first.
From then on it serves there, and no service starts on the folder. If the command dies, run it again: it goes on where it ended.`,
    )
    .option('--cancel', 'gives the copy up, unless a service has started on it, and frees the folder')
    .option('--target-is-gone', 'with --cancel: the stores are gone for ever, and are not asked')
    .addHelpText(
      'after',
      examples(
        ['DATA_DIR=./data REDIS_URL=redis://... DATABASE_URL=postgres://... idempay transfer', ''],
        ['idempay transfer --cancel', 'back to the folder, before the first start'],
      ),
    )
    .action(async (options) => (await import('./transfer.js')).transferDeployment(process.env, options));

  program
    .command('simulated')
    .summary('discard: removes the payments of a trial')
    .description('The payments of the simulated processor, which moved no money.')
    .command('discard')
    .description(
      `Removes all payments and all keys of a store (DATA_DIR, or DATABASE_URL) in which every payment was simulated, so that the same orders can be
paid at a processor. Transactions are kept. Stop every service on it first. It asks before it does so.`,
    )
    .addOption(OPTIONS.yes)
    .addHelpText('after', examples(['idempay simulated discard --yes', 'in a script, after the trial']))
    .action(async (options) => (await import('./discard-simulated.js')).discardSimulated(process.env, options));

  program
    .command('doctor')
    .summary('checks the settings against the live stores')
    .description('Checks the settings against the live stores, and prints what to change. It changes nothing.')
    .addOption(OPTIONS.json)
    .action(async (options) => {
      // A store that hangs would not close its connection.
      process.exit(await (await import('./doctor.js')).doctor(process.env, options));
    });
}
