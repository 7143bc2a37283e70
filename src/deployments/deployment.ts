import type { KeyValueStoreReport } from '../health/key-value-store.js';
import type { StoreOfRecordReport } from '../health/store-of-record.js';
import type { SharedRequestCounts } from '../limits/request-limit.js';
import type { SharedSamples } from '../live/shared-samples.js';
import type { KeyStore } from '../payments/ports/key-store.js';
import type { Ledger } from '../payments/ports/ledger.js';
import type { OpenKeyCounts } from '../payments/ports/open-key-counts.js';
import type { PaymentHistory } from '../payments/ports/payment-history.js';
import type { TransactionCache } from '../transactions/transaction-cache.js';
import type { TransactionStore } from '../transactions/transaction-store.js';

/** Where everything is kept: the adapters of one deployment, open and ready. */
export interface Deployment {
  readonly keys: KeyStore;
  readonly ledger: Ledger;
  readonly paymentHistory: PaymentHistory;
  readonly transactions: TransactionStore;
  readonly transactionCache: TransactionCache;
  readonly keyValueStore: KeyValueStoreReport;
  readonly storeOfRecord: StoreOfRecordReport;
  readonly openKeyCounts: OpenKeyCounts;
  /** Where there may be other processes. */
  readonly requestCounts?: SharedRequestCounts;
  readonly sharedSamples?: SharedSamples;
  /** Resolves, with the reason, when the stores are broken beyond use: the process must end, and a new start recovers. */
  readonly broken: Promise<Error>;
  close(): Promise<void>;
}

/** What the adapters notice of a store, by its name, for the log. Neither may throw; both are called often. */
export interface StoreEvents {
  failed(store: string, fault: unknown): void;
  /** The store did something that it can do only while it is available. */
  served(store: string): void;
}

/** What an operator should read in the log. */
export interface Notices {
  warn(sentence: string, cause?: Error): void;
}

/** The deployment cannot be opened; the message is a sentence for the person who started it. */
export class CannotOpen extends Error {
  override readonly name = 'CannotOpen';
}
