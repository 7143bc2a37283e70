import { InvalidRequestError } from './errors.js';

/** A misspelt member would be ignored silently, so that another attempt would be cancelled, or everything listed. */
export function refuseUnknown(
  given: object,
  kind: `option of ${string}` | 'member of a payment' | 'member of a refund',
  names: ReadonlySet<string>,
): void {
  const unknown = Object.keys(given).find((name) => !names.has(name));
  if (unknown === undefined) return;
  throw new InvalidRequestError(`'${unknown}' is no ${kind}. There are ${[...names].join(', ')}.`);
}
