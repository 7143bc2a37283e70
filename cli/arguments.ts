import { Argument, Option } from '@commander-js/extra-typings';
import { commandName } from './command-name.js';
import { API_KEY_FILE_OPTION, DEADLINE_OPTION, URL_OPTION, wholeNumber } from './connection.js';

/** Options that several commands have. */
export const OPTIONS = {
  url: URL_OPTION,
  apiKeyFile: API_KEY_FILE_OPTION,
  deadline: DEADLINE_OPTION,
  json: new Option('--json', 'one JSON document on each line'),
  yes: new Option('-y, --yes', 'do not ask'),
  limit: new Option('--limit <count>', 'rows at most; 0: all').argParser((text) =>
    wholeNumber('--limit', text, 0, 1_000_000_000),
  ),
  format: new Option(
    '--format <format>',
    'of the rows; default: csv if the name of --output ends so, else ndjson',
  ).choices(['ndjson', 'csv'] as const),
  output: new Option('-o, --output <file>', 'the file, which appears when it is complete; default: standard output'),
  spreadsheet: new Option('--spreadsheet', 'in CSV: no text is run as a formula; begins with a byte order mark'),
  ifMatch: new Option('--if-match <tag>', 'the tag (etag) it must still have'),
} as const;

export const KEY = new Argument('<key>', 'an idempotency key');
export const KEY_UNLESS_REFERENCE = new Argument('[key]', 'an idempotency key, where no --reference is given');
export const REFERENCE = {
  reference: new Option('--reference <text>', 'what is paid once, such as an order: order-17'),
  attempt: new Option('--attempt <number>', 'which attempt at the reference: 2 after a decline, and so on').argParser(
    (text) => wholeNumber('--attempt', text, 1, 99),
  ),
  client: new Option('--client <name>', 'for operators: whose reference it is, such as key:shop'),
} as const;
export const ID = new Argument('<id>', 'the id of a transaction');

/** The examples at the end of a command's help: the command, and its purpose. They are written for `idempay`. */
export function examples(...all: readonly (readonly [command: string, purpose: string])[]): string {
  const texts = all.map(
    ([command, purpose]) =>
      `  ${purpose ? `# ${purpose}\n  ` : ''}${command.replaceAll('idempay ', `${commandName()} `)}`,
  );
  return `\n${all.length > 1 ? 'Examples' : 'Example'}:\n${texts.join('\n')}`;
}
