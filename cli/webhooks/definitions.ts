import { Argument, type Command } from '@commander-js/extra-typings';
import { examples, OPTIONS } from '../arguments.js';

const NAME = new Argument('<name>', 'the endpoint, as WEBHOOKS_FILE has it');

export function addWebhookCommands(program: Command): void {
  const webhooks = program
    .command('webhooks')
    .summary('list, start and stop webhooks, and send again what they refused')
    .description('For operators: the endpoints that the service tells how payments and refunds ended.');

  webhooks
    .command('list')
    .description('Lists the endpoints, with what is set aside.')
    .addOption(OPTIONS.json)
    .addOption(OPTIONS.url)
    .addOption(OPTIONS.apiKeyFile)
    .addOption(OPTIONS.deadline)
    .addHelpText('after', examples(['idempay webhooks list', '']))
    .action(async (options) => (await import('./webhooks.js')).listWebhooks(options));

  webhooks
    .command('set-aside')
    .summary('lists the settlements that an endpoint refused')
    .description(
      'Lists the settlements that an endpoint refused again and again while it took others, the longest first.',
    )
    .addArgument(NAME)
    .addOption(OPTIONS.json)
    .addOption(OPTIONS.url)
    .addOption(OPTIONS.apiKeyFile)
    .addOption(OPTIONS.deadline)
    .addHelpText('after', examples(['idempay webhooks set-aside shop', 'with the cause of each']))
    .action(async (name, options) => (await import('./webhooks.js')).listSetAside(name, options));

  webhooks
    .command('start')
    .summary('serves an endpoint again')
    .description('Serves an endpoint again that was stopped, by hand or by its answer 410. It goes on where it was.')
    .addArgument(NAME)
    .addOption(OPTIONS.json)
    .addOption(OPTIONS.url)
    .addOption(OPTIONS.apiKeyFile)
    .addOption(OPTIONS.deadline)
    .addHelpText('after', examples(['idempay webhooks start shop', '']))
    .action(async (name, options) => (await import('./webhooks.js')).startWebhook(name, options));

  webhooks
    .command('stop')
    .summary('sends nothing more to an endpoint')
    .description(
      'Sends nothing more to an endpoint until it is started. Nothing is lost: it then goes on where it was.',
    )
    .addArgument(NAME)
    .addOption(OPTIONS.json)
    .addOption(OPTIONS.url)
    .addOption(OPTIONS.apiKeyFile)
    .addOption(OPTIONS.deadline)
    .addHelpText('after', examples(['idempay webhooks stop shop', '']))
    .action(async (name, options) => (await import('./webhooks.js')).stopWebhook(name, options));

  webhooks
    .command('resend')
    .summary('tries settlements that are set aside again')
    .description('Tries settlements that are set aside again, at once: all of an endpoint, or one with --key.')
    .addArgument(NAME)
    .option('--key <key>', 'only this settlement')
    .addOption(OPTIONS.json)
    .addOption(OPTIONS.url)
    .addOption(OPTIONS.apiKeyFile)
    .addOption(OPTIONS.deadline)
    .addHelpText(
      'after',
      examples(
        ['idempay webhooks resend shop', 'when the receiver is repaired'],
        ['idempay webhooks resend shop --key "$KEY"', 'only one, as set-aside lists it'],
      ),
    )
    .action(async (name, options) => (await import('./webhooks.js')).resend(name, options));
}
