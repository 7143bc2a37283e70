/** A statement that runs longer is cancelled by the server. Every statement here is keyed or one page. */
export const STATEMENT_TIMEOUT_MS = 5_000;

/** A write under a cache mark is refused by the database when it begins later than this after the mark was asked for. */
export const WRITE_DEADLINE_MS = 2_000;
