/** A row of the payments' table, as both databases have it: times are milliseconds since the epoch. */
export interface StoredPayment {
  readonly key: string;
  readonly transaction_id: string;
  readonly amount: string;
  readonly currency: string;
  readonly fingerprint: string;
  readonly processor: string;
  readonly state: 'PROCESSING' | 'COMPLETED' | 'DECLINED';
  readonly epoch: number;
  readonly owner: string;
  readonly lease_until: number;
  readonly recover_at: number;
  readonly claimed_at: number;
  /** The epoch that was given up with nothing ever sent. */
  readonly unsent_epoch: number | null;
  readonly reason: string | null;
  /** What an operator gave as the reason of a verdict. */
  readonly resolution: string | null;
  readonly expires_at: number | null;
  readonly settled_at: number | null;
  readonly settled_hour: number | null;
}
