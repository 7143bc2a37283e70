/** Rule T4. */
export const TRANSACTION_STATUSES = [
  'PENDING',
  'PROCESSING',
  'ON_HOLD',
  'FLAGGED',
  'BLOCKED',
  'COMPLETED',
  'FAILED',
  'CANCELLED',
] as const;
export type TransactionStatus = (typeof TRANSACTION_STATUSES)[number];

/** Nothing moves out of these; setting the status that it has is no move. */
export const FINAL_STATUSES: readonly TransactionStatus[] = ['FAILED', 'CANCELLED'];

export const FIRST_TRANSACTION_ID = 100_000_000_000_001;
/** Ids have one length, so that the concatenation in the list tag cannot collide (rule T1). */
export const LAST_TRANSACTION_ID = 999_999_999_999_999;
export const ABOVE_ALL_IDS = LAST_TRANSACTION_ID + 1;

export interface NewTransaction {
  readonly fromAccount: string;
  readonly toAccount: string;
  /** Shortest plain decimal text; see `amount.ts`. */
  readonly amount: string;
  readonly status: TransactionStatus;
}

export interface Transaction extends NewTransaction {
  readonly id: number;
  /** One more with each change of the row; a cache entry only ever gives way to a higher one. */
  readonly version: number;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
}

/**
 * Rows of a list that are read at a time: short enough that other requests are served between two pages. A list of this length has more.
 */
export const LONG_LIST = 500;

export interface TransactionSearch extends TransactionFilter {
  /** The only status that is found; undefined finds each. */
  readonly status: TransactionStatus | undefined;
  /** Only ids below this one, which ended the page before. */
  readonly before: number | undefined;
  readonly limit: number;
}

export interface TransactionFilter {
  /** Equals `fromAccount`; empty: no filter (rule T6). */
  readonly from: string;
  /** Equals `toAccount`; empty: no filter. */
  readonly to: string;
  /** The client that reads the list: clients take turns. If omitted, nobody in particular. */
  readonly client?: string | undefined;
}
