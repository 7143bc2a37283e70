/** The longest wait: half of a proxy's usual time-out of 60 s. */
const LONGEST_WAIT_SECONDS = 30;

/** What stands between two commas; one in a quoted string separates nothing. A string that is never closed ends the list. */
const PREFERENCE = /(?:[^",]|"(?:[^"\\]|\\.)*(?:"|\\?$))+/g;
/** A token, or a quoted string without escapes, which no number needs. */
const WAIT = /^wait\s*=\s*(?:(\d+)|"(\d+)")$/i;

/**
 * The seconds of `Prefer: wait=N` (RFC 7240 4.3), at most 30; undefined where none is asked for. The first `wait` counts
 * (RFC 7240 2), and what is malformed is ignored, as every preference may be.
 */
export function preferredWaitSeconds(header: string | string[] | undefined): number | undefined {
  if (header === undefined) return undefined;
  for (const [preference] of String(header).matchAll(PREFERENCE)) {
    const [withoutParameters = ''] = preference.split(';');
    const wait = WAIT.exec(withoutParameters.trim());
    if (wait) return Math.min(Number(wait[1] ?? wait[2]), LONGEST_WAIT_SECONDS) || undefined;
  }
  return undefined;
}
