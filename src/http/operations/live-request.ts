import { publicErrors } from '../errors/public-errors.js';

export const LIVE_PARAMETERS = ['since'] as const;
/** Milliseconds since the epoch, to the year 5138. */
const MOMENT_MS = /^\d{1,14}$/;

/** Throws the 400 that names the parameter. An empty one counts as absent. */
export function readSince(text: string | undefined): number {
  if (!text) return Number.NEGATIVE_INFINITY;
  if (MOMENT_MS.test(text)) return Number(text);
  throw publicErrors.invalidRequest("'since' must be a time in milliseconds since 1970, such as 1795000000000.");
}
