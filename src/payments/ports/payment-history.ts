import type { Money } from '../values/money.js';

/** Port: the rows of the ledger as clients and operators look at them, final or not, for as long as they are kept. */
export interface PaymentHistory {
  find(key: string): Promise<PaymentRecord | undefined>;

  /**
   * Up to `limit` payments, newest key first. Keys are time-ordered (UUIDv7), so this is the order of their generation. To
   * find them at most about `readLimit` rows are read, whatever is asked for: a page may be short, even empty, and not the last.
   * What is under way is read as a whole.
   */
  newest(selection: Selection, readLimit: number): Promise<NewestPage>;

  /** Up to `limit` payments that were settled in [from, to), in the order of their settling, then of their keys. */
  settled(period: SettledPeriod): Promise<SettledPage>;

  /** Counts the same payments, page by page. */
  countSettled(period: SettledPeriod): Promise<SettledCounts>;
}

/** Times are milliseconds since the epoch, by the store's clock. */
export interface PaymentRecord extends Money {
  readonly key: string;
  readonly state: 'PROCESSING' | 'COMPLETED' | 'DECLINED';
  readonly transactionId: string;
  /** Whose key it is; undefined: everybody's. Not shown. */
  readonly client: string | undefined;
  readonly processor: string;
  /** The number of attempts: the first claim and each takeover. */
  readonly attempts: number;
  readonly claimedAt: number;
  readonly settledAt: number | undefined;
  /** Of a decline. */
  readonly reason: string | undefined;
  /** Why an operator resolved it; undefined where the processor's own answer settled it. */
  readonly resolution: string | undefined;
}

export interface Selection {
  readonly state: PaymentRecord['state'] | undefined;
  /** Only payments of this client; undefined: of all. */
  readonly client?: string | undefined;
  /** Only keys generated at or after this moment. */
  readonly createdFrom: number | undefined;
  /** Only keys generated before this moment. */
  readonly createdTo: number | undefined;
  /** Only payments of the processor with this name. */
  readonly processor?: string | undefined;
  /** Only payments whose key, or whose transaction id, begins so. */
  readonly find?: Prefix | undefined;
  /** Only keys below this one: where the page before ended. */
  readonly before: string | undefined;
  readonly limit: number;
}

/** Of a key its first hexadecimal digits, in lower case and without dashes; of a transaction id `TXN` and its first digits. */
export type Prefix = { readonly keyDigits: string } | { readonly transactionId: string };

export interface NewestPage {
  readonly payments: readonly PaymentRecord[];
  /** `before` of the next page; undefined after the last one. */
  readonly next: string | undefined;
}

export interface SettledPeriod {
  readonly from: number;
  readonly to: number;
  /** `next` of the page before. */
  readonly after: string | undefined;
  readonly limit: number;
}

export interface SettledPage {
  readonly payments: readonly PaymentRecord[];
  /** Where the next page begins; undefined after the last one. Opaque to all but the adapter. */
  readonly next: string | undefined;
}

export interface SettledCounts {
  readonly completed: number;
  readonly declined: number;
  /** As of a page; the last one may have counted nothing. */
  readonly next: string | undefined;
}
