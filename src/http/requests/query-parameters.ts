import { publicErrors } from '../errors/catalogue.js';

/** A misspelt filter is refused and named, because without it the answer would be for everything. */
export function refuseUnknownParameters(query: unknown, known: readonly string[]): void {
  const unknown = Object.keys(query as object).find((name) => !known.includes(name));
  if (unknown === undefined) return;
  const names = known.length > 0 ? `Use ${known.join(', ')}.` : 'Send it without parameters.';
  throw publicErrors.invalidRequest(`'${unknown}' is not a query parameter of this path. ${names}`);
}

const WHOLE_NUMBER = /^[1-9]\d{0,5}$/;

/** The number of rows that a page may have. Throws the 400 if the text is no whole number from 1 to `most`. */
export function limitOf(text: string, most: number): number {
  const limit = WHOLE_NUMBER.test(text) ? Number(text) : Number.NaN;
  if (limit <= most) return limit;
  throw publicErrors.invalidRequest(`'limit' must be a whole number from 1 to ${most}.`);
}

/** The same question from the end of this page (RFC 8288). Empty parameters count as absent. */
export function pageAfter(path: string, query: Readonly<Record<string, string | undefined>>, cursor: string): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries({ ...query, cursor })) if (value) parameters.set(name, value);
  return `${path}?${parameters}`;
}
