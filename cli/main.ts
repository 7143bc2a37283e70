import { readFileSync } from 'node:fs';
import { commandName, nameCommand } from './command-name.js';
import { addPaymentCommands } from './payments/definitions.js';
import { createProgram } from './program.js';
import { runCommand } from './run-command.js';
import { addTransactionCommands } from './transactions/definitions.js';
import { addWebhookCommands } from './webhooks/definitions.js';

/** Not `idempay`, because that is the command of the service, and both may be installed in one folder. */
nameCommand('idempay-cli');

const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));

const parameters = process.argv.slice(2);
await runCommand(parameters.length > 0 ? parameters : ['--help'], async () =>
  createProgram({
    description: 'The commands of Idempay that ask a running service, and need nothing of it on this machine.',
    usage: '<command>',
    version: `${commandName()} ${version}`,
    addCommands: (program) => {
      addPaymentCommands(program);
      addTransactionCommands(program);
      addWebhookCommands(program);
    },
  }),
);
