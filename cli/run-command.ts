import type { Command } from '@commander-js/extra-typings';
import { safeJson } from '#idempay/platform/safe-json.js';
import { type Ending, endingOf } from './endings.js';
import { EXIT } from './exit-codes.js';
import { endQuietlyWithReader, harmless } from './output/terminal.js';
import { UsageError } from './usage.js';

const HELP = ['help', '-h', '--help'];

/**
 * Runs a command of the program; `isHelp`: the help of all of them is asked for. A mistake, and any refusal of the service, ends in a
 * sentence on standard error and an exit code; a fault of this program ends in its stack.
 */
export async function runCommand(
  parameters: readonly string[],
  createProgram: (isHelp: boolean) => Promise<Command>,
): Promise<void> {
  endQuietlyWithReader();
  try {
    const [first = ''] = parameters;
    const program = await createProgram(HELP.includes(first));
    const names = program.commands.map((command) => command.name());
    if (![...names, ...HELP, '-v', '--version'].includes(first)) {
      throw new UsageError(`'${first}' is not an argument of Idempay: '--help' lists the commands.`);
    }
    await program.parseAsync(parameters, { from: 'user' });
  } catch (error) {
    const ending = endingOf(error);
    if (!ending) {
      console.error(error);
      // Node's own code for it is 1, which says that nothing was done.
      process.exitCode = EXIT.unknown;
      return;
    }
    process.exitCode = ending.exitCode;
    if (ending.message !== '') tell(ending, parameters.includes('--json'));
  }
}

function tell({ exitCode, message, ...named }: Ending, asJson: boolean): void {
  if (!asJson) {
    console.error(message.split('\n').map(harmless).join('\n'));
    return;
  }
  const [error] = Object.entries(EXIT).find(([, code]) => code === exitCode) ?? [];
  console.error(safeJson({ error, exitCode, message, ...named }));
}
