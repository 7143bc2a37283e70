const POLL_INTERVAL_MS = 20;

/**
 * Waits until `condition` returns something other than undefined and false, and returns it. Throws a sentence with
 * `what` when `deadlineMs` has passed; an error thrown by the condition ends the wait at once.
 */
export async function until<T>(
  what: string,
  deadlineMs: number,
  condition: () => Promise<T | undefined | false> | T | undefined | false,
): Promise<T> {
  const end = performance.now() + deadlineMs;
  for (;;) {
    const value = await condition();
    if (value !== undefined && value !== false) return value;
    if (performance.now() > end) throw new Error(`not within ${deadlineMs} ms: ${what}`);
    await pause(POLL_INTERVAL_MS);
  }
}

/** Real time passing: for the moment of a kill and the pace of a poll, never in place of a condition. */
export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
