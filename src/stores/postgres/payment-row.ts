import type { Claim, Fence } from '../../payments/values/payment.js';
import type { FinalRow } from '../shared/rows.js';
import { GENERATION } from './database-identity-statements.js';

/** Times leave the database as numbers: milliseconds since the epoch, or remaining ones by its own clock. */
export const PAYMENT_COLUMNS = `
  key, transaction_id, amount::text AS amount, currency, fingerprint, client, processor, state, epoch, owner, reason,
  CASE WHEN generation = ${GENERATION} THEN unsent_epoch END AS unsent_epoch,
  greatest(0, extract(epoch FROM lease_until - clock_timestamp()) * 1000)::float8 AS remaining_ms,
  (extract(epoch FROM clock_timestamp() - claimed_at) * 1000)::float8 AS age_ms,
  floor(extract(epoch FROM expires_at) * 1000)::float8 AS expires_at,
  coalesce(expires_at > clock_timestamp(), false) AS repeatable`;

export interface PaymentRow extends FinalRow {
  key: string;
  amount: string;
  currency: string;
  processor: string;
  epoch: number;
  owner: string;
  /** The epoch that was given up with nothing ever sent; it counts while it is the row's, or the takeover's before. */
  unsent_epoch: number | null;
  remaining_ms: number;
  age_ms: number;
  /** Final, and not past its expiry by the database's clock. */
  repeatable: boolean;
}

/** Reads a row that is durable where it decides an answer: one that is final, or that `ours` wrote. */
export type FindRow = (key: string, ours?: Fence) => Promise<PaymentRow | undefined>;

export function claimOf(row: PaymentRow): Claim {
  const { key, epoch, owner, amount, currency, fingerprint, processor } = row;
  const client = row.client ?? undefined;
  const unsent = row.unsent_epoch === row.epoch - 1;
  const transactionId = row.transaction_id;
  return {
    key,
    epoch,
    owner,
    transactionId,
    amount,
    currency,
    fingerprint,
    client,
    processor,
    unsent,
    ageMs: row.age_ms,
  };
}
