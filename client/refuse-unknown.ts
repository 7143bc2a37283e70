import { InvalidRequestError } from './errors.js';

/** A member that is misspelt would be left out without a word: another attempt would be cancelled, or everything listed. */
export function refuseUnknown(given: object, method: string, names: ReadonlySet<string>): void {
  const unknown = Object.keys(given).find((name) => !names.has(name));
  if (unknown === undefined) return;
  throw new InvalidRequestError(`'${unknown}' is no option of ${method}. There are ${[...names].join(', ')}.`);
}
