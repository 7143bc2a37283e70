import { settingDefaults } from '../config.js';
import { type Ending, endingOf } from './endings.js';
import { EXIT } from './exit-codes.js';
import { endQuietlyWithReader } from './output/terminal.js';
import { createProgram } from './program.js';
import { UsageError } from './usage.js';

/**
 * Runs a command. A mistake, and whatever the service answers, ends in a sentence on standard error and an exit code; a fault of this
 * program in its stack.
 */
export async function runCommand(parameters: readonly string[]): Promise<void> {
  endQuietlyWithReader();
  try {
    const program = createProgram(settingDefaults());
    const [first = ''] = parameters;
    const names = program.commands.map((command) => command.name());
    if (![...names, 'help', '-h', '--help', '-v', '--version'].includes(first)) {
      throw new UsageError(`'${first}' is not an argument of Idempay: '--help' shows those there are.`);
    }
    await program.parseAsync(parameters, { from: 'user' });
  } catch (error) {
    const ending = endingOf(error);
    if (!ending) throw error;
    process.exitCode = ending.exitCode;
    if (ending.message !== '') tell(ending, parameters.includes('--json'));
  }
}

function tell({ exitCode, message, idempotencyKey, status, requestId }: Ending, asJson: boolean): void {
  if (!asJson) {
    console.error(message);
    return;
  }
  const [error] = Object.entries(EXIT).find(([, code]) => code === exitCode) ?? [];
  console.error(JSON.stringify({ error, exitCode, message, idempotencyKey, status, requestId }));
}
