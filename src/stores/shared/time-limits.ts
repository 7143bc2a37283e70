/** A statement that runs longer is cancelled by the server. Every statement here is keyed or one page. */
export const STATEMENT_TIMEOUT_MS = 5_000;

/**
 * A statement that waits longer for one lock is refused by the server, so that a blocked row does not use up the time of the others in
 * its batch.
 */
export const LOCK_TIMEOUT_MS = 2_000;

/** A write under a cache mark is refused by the database when it begins later than this after the mark was asked for. */
export const WRITE_DEADLINE_MS = 2_000;
