import type { Command } from '@commander-js/extra-typings';
import { addPaymentCommands } from '#idempay/cli/payments/definitions.js';
import * as cli from '#idempay/cli/program.js';
import { addTransactionCommands } from '#idempay/cli/transactions/definitions.js';
import { addWebhookCommands } from '#idempay/cli/webhooks/definitions.js';
import { VERSION } from '../platform/version.js';
import { addImportCommand } from './import/definition.js';
import { addOperationCommands } from './operation/definitions.js';

/**
 * The commands that ask a service, and the commands that look into its settings and stores. `settings`: name and default of each, for the
 * help.
 */
export function createProgram(settings: ReadonlyMap<string, string> = new Map()): Command {
  const program = cli.createProgram({
    description: 'Idempay takes payments exactly once. Without a command it serves until SIGTERM or SIGINT.',
    usage: '[command]',
    version: `idempay ${VERSION}`,
    addCommands: (all) => {
      addPaymentCommands(all);
      addTransactionCommands(all, addImportCommand);
      addWebhookCommands(all);
      addOperationCommands(all);
    },
  });
  return program.addHelpText('after', () => settingsText(settings));
}

function settingsText(settings: ReadonlyMap<string, string>): string {
  return [
    '',
    'Settings of the service are environment variables, here with their defaults. .env.example says what each is for.',
    '',
    ...[...settings].map(([name, fallback]) => `  ${name.padEnd(32)}${fallback}`),
  ].join('\n');
}
