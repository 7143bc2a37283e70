import type { Metadata } from '../values/content.js';
import type { Money } from '../values/money.js';
import type { EndingScope, ExecutionNote, LookedUp } from '../values/payment.js';
import type { PaidCounts } from '../values/processor-names.js';
import type { RefundPart } from '../values/refund.js';

/** Port: the rows of the ledger as clients and operators look at them, final or not, for as long as they are kept. */
export interface PaymentHistory {
  find(key: string): Promise<PaymentRecord | undefined>;

  /** A payment with what became of it step by step, as far as its row tells. */
  findLife(key: string): Promise<PaymentLife | undefined>;

  /**
   * Up to `limit` payments, newest first claim first: transaction ids begin with its time, so this is their order. To find them at most
   * about `readLimit` rows are read for any selection: a page may be short, even empty, and not the last. Payments under way are all read.
   */
  newest(selection: Selection, readLimit: number): Promise<NewestPage>;

  /** The refunds of a payment that have rows, oldest first claim first; at most `MOST_REFUNDS` of the newest. */
  refundsOf(payment: string): Promise<readonly ClaimedPayment[]>;

  /** The last attempt at a reference that has a row. `client` is undefined if the service tells no clients apart. */
  newestAttempt(reference: string, client: string | undefined): Promise<PaymentRecord | undefined>;

  /** Up to `limit` payments that were settled in [from, to), in the order of their settling, then of their keys. */
  settled(period: SettledPeriod): Promise<SettledPage>;

  /** Counts the same payments, page by page. */
  countSettled(period: SettledPeriod): Promise<SettledCounts>;

  /** Counts what is COMPLETED of the `MOST_LOOKED_AT` oldest payments. */
  countPaid(): Promise<PaidCounts>;
}

/** Refunds of one payment that are shown. */
export const MOST_REFUNDS = 1_000;

/** A start counts among at most this many payments of a store, so that it takes no longer if there are more. */
export const MOST_LOOKED_AT = 10_000;

export type PaymentRecord = ClaimedPayment | CancelledPayment;

/** The kind of an operation: a payment takes money, and a refund gives a part of it back. */
export type OperationKind = 'payment' | 'refund';

/** Times are milliseconds since the epoch, by the store's clock. */
interface PaymentRow {
  readonly key: string;
  /** The order that the key is computed from, and which attempt at it. Both are undefined if the key was generated. */
  readonly reference: string | undefined;
  readonly attempt: number | undefined;
  /** The purpose of the payment, as its first claim said. Undefined if it said nothing. */
  readonly description: string | undefined;
  readonly metadata: Metadata | undefined;
  /** The client whose key it is. If it is undefined, every client sees the key. It is shown to operators only. */
  readonly client: string | undefined;
  /** The first claim and each takeover. */
  readonly executions: number;
  readonly claimedAt: number;
  readonly settledAt: number | undefined;
  /** Why it was declined; undefined for every other state. */
  readonly reason: string | undefined;
  /** Why an operator resolved it; undefined if the processor's own answer settled it. */
  readonly resolution: string | undefined;
  /**
   * The time at which the processor expects the end of a payment that waits there (rule P24). Undefined if the payment is not pending, or
   * is final.
   */
  readonly pendingUntil?: number | undefined;
  /** A cancellation ends the payment, or has ended it (rule P25). */
  readonly ending?: EndingScope | undefined;
  /** The processor's own name of the charge. */
  readonly processorId?: string | undefined;
}

export interface ClaimedPayment extends PaymentRow, Money {
  readonly state: 'PROCESSING' | 'COMPLETED' | 'DECLINED';
  readonly transactionId: string;
  readonly processor: string;
  /** It gives money back (rule P26). Undefined for a payment. */
  readonly refund?: RefundPart | undefined;
  /** The sum of a payment's refunds that are not declined, in minor units. Undefined before the first one. */
  readonly refundedUnits?: number | undefined;
}

/** It was closed before anything was claimed, at `claimedAt`, so it has none of these. */
export interface CancelledPayment extends PaymentRow {
  readonly state: 'CANCELLED';
  readonly transactionId?: undefined;
  readonly processor?: undefined;
  readonly amount?: undefined;
  readonly currency?: undefined;
  readonly refund?: undefined;
  readonly refundedUnits?: undefined;
}

/** Times are milliseconds since the epoch, by the store's clock. */
export interface PaymentLife {
  readonly payment: PaymentRecord;
  /** When it was read. */
  readonly now: number;
  /** The epoch of the row; a resolution raises it by one. */
  readonly epoch: number;
  /** The owner of this epoch: the execution at work, the one that settled it, or the resolution; undefined if it was given up. */
  readonly owner: string | undefined;
  /** Surely nothing was ever sent for it. */
  readonly unsent: boolean;
  /** It was charged, and nobody knows how much, so that an operator may resolve it at once. */
  readonly chargedUnknownAmount: boolean;
  /** Its age counts from here when an operator resolves it: the first claim, or earlier if the machine was suspended since then. */
  readonly resolutionCountsFrom: number;
  readonly leaseUntil: number;
  /** Recovery takes it then, unless it is final. */
  readonly recoverAt: number;
  /** Until then a final outcome is repeated. */
  readonly expiresAt: number | undefined;
  /** Every event except the first claim and the end, which other members hold. Oldest first. */
  readonly events: readonly PaymentEvent[];
  /** Events that were left out, between the first ones and the last ones. */
  readonly omitted: number;
}

/** `execution` is the epoch; owners are owners of executions. */
export type PaymentEvent = { readonly at: number; readonly execution: number } & (
  | {
      readonly kind: 'taken over' | 'resolved';
      /** The owner before, if it had neither settled nor given up the payment: its process died, was stopped or cut off. */
      readonly from: string | undefined;
    }
  | ({ readonly kind: 'given up'; readonly owner: string } & ExecutionNote)
  | { readonly kind: 'settled'; readonly owner: string; readonly lookedUp?: LookedUp | undefined }
);

export interface Selection {
  readonly state?: PaymentRecord['state'] | undefined;
  /** `all` selects both kinds. If omitted, payments. */
  readonly kind?: OperationKind | 'all' | undefined;
  /** Selects pending payments only. `PROCESSING` selects them too. */
  readonly isPending?: boolean | undefined;
  /** Only payments of this client; payments of all clients if it is undefined. */
  readonly client?: string | undefined;
  /** Only payments first claimed at or after this moment, by the clock of the process that did. */
  readonly claimedFrom?: number | undefined;
  /** Only payments first claimed before this moment. */
  readonly claimedTo?: number | undefined;
  /** Only attempts at this reference. */
  readonly reference?: string | undefined;
  /** Only payments of the processor with this name. */
  readonly processor?: string | undefined;
  /** Only payments whose key, or whose transaction id, begins so. */
  readonly find?: Prefix | undefined;
  /** Only payments whose description, or the value of one of whose metadata, is exactly this. */
  readonly content?: string | undefined;
  /** Only transaction ids below this one, which ended the page before. */
  readonly before?: string | undefined;
  readonly limit: number;
  /** The client that reads the list: clients are served one after the other. If omitted, nobody in particular. */
  readonly reader?: string | undefined;
}

/** The first hexadecimal digits of a key, in lower case and without dashes, or `TXN` and the first digits of a transaction id. */
export type Prefix = { readonly keyDigits: string } | { readonly transactionId: string };

export interface NewestPage {
  readonly payments: readonly PaymentRecord[];
  /** `before` of the next page; undefined after the last one. */
  readonly next: string | undefined;
}

export interface SettledPeriod {
  readonly from: number;
  readonly to: number;
  /** The same as in a `Selection`. */
  readonly kind?: OperationKind | 'all' | undefined;
  /** `next` of the page before. */
  readonly after: string | undefined;
  readonly limit: number;
  /** The client that reads, as of a `Selection`. */
  readonly reader?: string | undefined;
}

export interface SettledPage {
  readonly payments: readonly PaymentRecord[];
  /** The beginning of the next page; undefined after the last one. Opaque to all but the adapter. */
  readonly next: string | undefined;
}

export interface SettledCounts {
  readonly completed: number;
  readonly declined: number;
  /** `after` of the next page; undefined after the last page, which may be empty. */
  readonly next: string | undefined;
}
