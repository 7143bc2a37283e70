import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { ENVIRONMENT_NAMES, type EnvironmentName } from './environments.js';

export interface Options {
  readonly seeds: number;
  readonly from: number;
  /** Undefined: each seed says which. */
  readonly environment: EnvironmentName | undefined;
  readonly trace: boolean;
  /** Ends with the first seed that breaks a promise or a store's rule, tells all that it breaks, and looks for no shorter one. */
  readonly first: boolean;
  readonly workers: number;
}

export const USAGE = `npm run simulate -- [--seeds N] [--from S] [--environment ${ENVIRONMENT_NAMES.join('|')}] [--workers N] [--trace] [--first]`;

/** Throws with a sentence for whoever typed it. */
export function readOptions(args: readonly string[]): Options {
  const { values } = parseArgs({
    args: [...args],
    options: {
      seeds: { type: 'string', default: '500' },
      from: { type: 'string', default: '0' },
      environment: { type: 'string' },
      workers: { type: 'string', default: String(availableParallelism()) },
      trace: { type: 'boolean', default: false },
      first: { type: 'boolean', default: false },
    },
  });
  const environment = ENVIRONMENT_NAMES.find((name) => name === values.environment);
  if (values.environment !== undefined && !environment)
    throw new Error(`--environment must be one of ${ENVIRONMENT_NAMES.join(', ')}`);
  return {
    seeds: wholeNumber('--seeds', values.seeds, 1),
    from: wholeNumber('--from', values.from, 0),
    workers: wholeNumber('--workers', values.workers, 1),
    environment,
    trace: values.trace,
    first: values.first,
  };
}

function wholeNumber(name: string, text: string, least: number): number {
  const number = Number(text);
  if (!Number.isSafeInteger(number) || number < least) throw new Error(`${name} must be a whole number from ${least}`);
  return number;
}
