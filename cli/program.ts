import { Command, type CommandUnknownOpts } from '@commander-js/extra-typings';
import { commandName } from './command-name.js';
import { UsageError } from './usage.js';

/** Options whose values are collected. */
const REPEATABLE: ReadonlySet<string> = new Set(['metadata', 'column', 'ignore']);

export interface ProgramParts {
  readonly description: string;
  readonly usage: string;
  readonly version: string;
  readonly addCommands: (program: Command) => void;
}

/** Every command with its options; the code of a command is loaded when it runs. */
export function createProgram({ description, usage, version, addCommands }: ProgramParts): Command {
  const program = new Command(commandName())
    .description(description)
    .usage(usage)
    .version(version, '-v, --version', 'the version')
    .helpOption('-h, --help', 'this text; after a command: the help of the command')
    .exitOverride()
    .configureOutput({
      writeOut: (text) => console.log(text.trimEnd()),
      writeErr: (text) => console.error(text.trimEnd()),
      // The error is thrown as well, and reported at the end.
      outputError: () => {},
    });
  const plain = program as unknown as Command;
  plain.hook('preAction', (_program, command) => refuseEmptyValues(command));
  addCommands(plain);
  refuseRepeatedOptions(plain);
  joinLinesOfSentences(plain);
  return plain;
}

/** The help is wrapped at the width of the terminal, so a line that the source ends within a sentence must not end there too. */
function joinLinesOfSentences(command: CommandUnknownOpts): void {
  for (const each of command.commands) joinLinesOfSentences(each);
  command.description(command.description().replaceAll(/(?<![.:])\n/g, ' '));
}

/**
 * Throws UsageError while the arguments are read. The parser takes the last of two values without a word: of two orders, one would be
 * paid.
 */
function refuseRepeatedOptions(command: CommandUnknownOpts): void {
  for (const each of command.commands) refuseRepeatedOptions(each);
  for (const option of command.options) {
    if (!option.required || REPEATABLE.has(option.attributeName())) continue;
    let isGiven = false;
    command.on(`option:${option.name()}`, () => {
      if (isGiven) throw new UsageError(`${option.long} is given more than once. Give it the one value that is meant.`);
      isGiven = true;
    });
  }
}

/**
 * Throws UsageError for an empty value. It is a variable that a script forgot to set, and would mean every account, no condition
 * (`--if-match`) or all keys of a client.
 */
function refuseEmptyValues(command: CommandUnknownOpts): void {
  const isEmpty = (name: string) => command.getOptionValue(name) === '' && command.getOptionValueSource(name) === 'cli';
  const option = command.options.find((each) => isEmpty(each.attributeName()));
  if (option)
    throw new UsageError(
      `${option.long} has an empty value, for example of a variable that is not set. Give it the value that is meant.`,
    );
  const argument = command.registeredArguments.find((each, index) => !each.variadic && command.args[index] === '');
  if (argument) throw new UsageError(`The argument '${argument.name()}' is empty.`);
}
