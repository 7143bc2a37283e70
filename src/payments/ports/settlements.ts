import type { OperationKind, PaymentRecord } from './payment-history.js';

/**
 * Port: the payments and refunds that are final, in the order of their settling, for readers that go on from the place where they stopped.
 * Nothing is written for them: a row becomes final once, and its index by that time exists. Times are microseconds since the epoch, by the
 * store's clock.
 */
export interface Settlements {
  /**
   * Moves the bound as far as is certain now, and returns it: every settlement below it is committed, and none can be committed there any more.
   * Undefined while there is no bound yet, because transactions that began before this process looked are still open.
   */
  look(): Promise<SettlementBound | undefined>;

  /** Up to `limit` settlements between a place and the bound, in order. At most about `readLimit` rows are read for them. */
  page(question: SettlementQuestion): Promise<SettlementPage>;

  /** The clients and kinds of the settlements in [from, below), of at most `MOST_ENDS` rows: if there are as many, there may be others. */
  ends(fromUs: number, belowUs: number): Promise<readonly SettlementEnd[]>;
}

/** Ends that are read between two looks. */
export const MOST_ENDS = 1_000;

export interface SettlementBound {
  /** The incarnation of the feed: another one after rows may have been lost, and after the store's clock went back. */
  readonly incarnation: string;
  readonly atUs: number;
}

/**
 * A place in the order: after the settlements of this microsecond up to this key, or before all of them if there is no key. The key may be one
 * that no settlement has.
 */
export interface SettlementPlace {
  readonly atUs: number;
  readonly key?: string | undefined;
}

export interface SettlementQuestion {
  /** The place, with the incarnation that it is from. If omitted, the oldest settlement that retention has left. */
  readonly after?: (SettlementPlace & { readonly incarnation: string }) | undefined;
  /** The bound that `look` returned. */
  readonly bound: SettlementBound;
  /** Only settlements of this client; of all clients if it is undefined. */
  readonly client: string | undefined;
  /** Both kinds if it is undefined. */
  readonly kind: OperationKind | undefined;
  readonly limit: number;
  readonly readLimit: number;
  /** The client that reads: clients are served one after the other. If omitted, nobody in particular. */
  readonly reader?: string | undefined;
}

/** `settledAtUs`: with its key, its place. */
export type Settlement = PaymentRecord & { readonly settledAtUs: number };

export type SettlementPage =
  | {
      readonly state: 'page';
      readonly settlements: readonly Settlement[];
      /** The place of the next page. It names no settlement that the caller does not see. */
      readonly next: SettlementPlace;
      /** Everything below the bound was read. */
      readonly isLast: boolean;
    }
  /** Another incarnation has begun since the bound was read: the caller looks again. */
  | { readonly state: 'bound is over' }
  /**
   * The place is of another incarnation, so settlements before it may not have been shown. `fromUs`: the time to begin again from, so that
   * none is missing.
   */
  | { readonly state: 'other incarnation'; readonly fromUs: number }
  /** Retention has removed settlements after the place. `fromUs`: the time of the oldest one that may be left. */
  | { readonly state: 'removed'; readonly fromUs: number };

export interface SettlementEnd {
  readonly client: string | undefined;
  readonly kind: OperationKind;
}
