import type { FeedPosition } from '../../payments/settlement-feed.js';

/**
 * Port: how far the feed of settlements was delivered to each endpoint, in the store of record. One process at a time serves an endpoint: it
 * has the lease, and everything that it writes counts only while the row names it as the owner. Times are by the store's clock, in
 * milliseconds.
 */
export interface EndpointRows {
  /**
   * Takes the lease if nobody has it, or lengthens the caller's own. A lease that ends later than two of `leaseMs` from now is nobody's: the
   * store's clock was set back since it was given. A store whose clock never goes back need not look.
   */
  take(asked: Lease & { readonly client: string | undefined; readonly leaseMs: number }): Promise<TakeResult>;

  /**
   * Makes the row of a new endpoint. If the row is of another client and nobody has its lease, it begins anew: with this position, and with
   * nothing set aside. Otherwise it changes nothing. Within ten minutes after rows may have been lost, the row names the incarnation of the feed
   * before the loss, so that the feed begins earlier: it may be a row that was lost.
   */
  begin(beginning: {
    readonly name: string;
    readonly client: string | undefined;
    readonly position: FeedPosition;
    /** As with `take`. */
    readonly leaseMs: number;
  }): Promise<void>;

  /** Everything up to this position was taken, or is set aside. */
  advance(lease: Lease, position: FeedPosition): Promise<LeaseResult>;

  /** Keeps a settlement apart, so that the position can pass it. A second time changes nothing. `full`: there are `mostSetAside` already. */
  setAside(
    lease: Lease,
    refused: { readonly key: string; readonly cause: string; readonly retryMs: number; readonly mostSetAside: number },
  ): Promise<LeaseResult | 'full'>;

  /** The keys whose time to be tried again has come, longest due first. */
  due(lease: Lease, limit: number): Promise<readonly string[]>;

  /** It was refused again, and is tried after `retryMs`; after `giveUpMs` since it was set aside, it is only kept. */
  refusedAgain(
    lease: Lease,
    refused: { readonly key: string; readonly cause: string; readonly retryMs: number; readonly giveUpMs: number },
  ): Promise<LeaseResult>;

  /** It was taken at last, or there is no such settlement any more. */
  removeSetAside(lease: Lease, key: string): Promise<LeaseResult>;

  /** The receiver wants nothing more (it answered 410). Nobody serves the endpoint until `start`. */
  stopServing(lease: Lease): Promise<LeaseResult>;

  /** Gives the lease back. */
  release(lease: Lease): Promise<void>;

  /** For operators. False if there is no such endpoint. */
  stop(name: string): Promise<boolean>;
  start(name: string): Promise<boolean>;
  /** Everything that is set aside, or this settlement, is tried again at once. The number of them; undefined if there is no such endpoint. */
  resend(name: string, key: string | undefined): Promise<number | undefined>;
  list(): Promise<readonly EndpointRow[]>;
  find(name: string): Promise<EndpointRow | undefined>;
  /** Longest set aside first, at most `limit`. */
  listSetAside(name: string, limit: number): Promise<readonly SetAside[]>;
}

/** `owner` names one run of one process: no other has the same. */
export interface Lease {
  readonly name: string;
  readonly owner: string;
}

/** Stale: the caller is not the owner any more, or the endpoint was stopped. */
export type LeaseResult = 'ok' | 'stale';

export type TakeResult =
  | {
      readonly state: 'taken';
      readonly position: FeedPosition;
      readonly setAside: number;
      /** One that is set aside is due. */
      readonly isDue: boolean;
    }
  | { readonly state: 'held' }
  | { readonly state: 'stopped' }
  /** There is no row, or it is of another client and nobody has its lease. */
  | { readonly state: 'new' };

export interface EndpointRow {
  readonly name: string;
  readonly client: string | undefined;
  /** The one who has stopped it. Undefined if it is served. */
  readonly stoppedBy: 'receiver' | 'operator' | undefined;
  /** Everything up to it was taken, or is set aside. */
  readonly position: FeedPosition;
  readonly setAside: number;
}

export interface SetAside {
  readonly key: string;
  /** The cause of the last refusal. */
  readonly cause: string;
  readonly setAsideAt: number;
  /** Undefined if it is only kept, until it is sent again by hand. */
  readonly nextTryAt: number | undefined;
}
