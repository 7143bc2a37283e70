import { listElements } from './list-elements.js';

/** The longest wait: half of a proxy's usual time-out of 60 s. */
const LONGEST_WAIT_SECONDS = 30;

/** A token, or a quoted string without escapes, which neither a number nor `representation` needs. */
const WAIT = /^wait\s*=\s*(?:(\d+)|"(\d+)")$/i;
/** The preference has no value, and an empty value means none (RFC 7240 2). */
const ASYNC = /^respond-async(?:\s*=\s*"")?$/i;
const RETURN = /^return\s*=\s*(?:([!#$%&'*+.^_`|~\w-]+)|"([^"\\]*)")$/i;

/**
 * The seconds of `Prefer: wait=N` (RFC 7240 4.3), at most 30; undefined if none is asked for. The first `wait` counts (RFC 7240 2), and a
 * malformed one is ignored, as every preference may be.
 */
export function preferredWaitSeconds(header: string | string[] | undefined): number | undefined {
  const seconds = firstValue(header, WAIT);
  return seconds === undefined ? undefined : Math.min(Number(seconds), LONGEST_WAIT_SECONDS) || undefined;
}

/** True if `Prefer: return=representation` is asked for (RFC 7240 4.2). The first `return` counts. */
export function prefersRepresentation(header: string | string[] | undefined): boolean {
  return firstValue(header, RETURN)?.toLowerCase() === 'representation';
}

/** True if `Prefer: respond-async` is asked for (RFC 7240 4.1): the caller understands a 202. */
export function prefersAsync(header: string | string[] | undefined): boolean {
  if (header === undefined) return false;
  return listElements(String(header)).some((preference) => ASYNC.test(preference.split(';', 1)[0]?.trim() ?? ''));
}

function firstValue(header: string | string[] | undefined, preferred: RegExp): string | undefined {
  if (header === undefined) return undefined;
  for (const preference of listElements(String(header))) {
    const [withoutParameters = ''] = preference.split(';');
    const found = preferred.exec(withoutParameters.trim());
    if (found) return found[1] ?? found[2];
  }
  return undefined;
}
