import type { Claim, EndingScope, Fence, FinalOutcome } from '../../../payments/values/payment.js';
import {
  type ContentColumns,
  contentOf,
  type FinalRow,
  finalOf,
  openMembersOf,
  type RefundColumns,
  unsentMarkBefore,
} from '../../shared/payment-rows.js';
import { GENERATION } from '../connection/database-identity-statements.js';

/** Times leave the database as numbers: milliseconds since the epoch, or remaining ones by its own clock. */
export const PAYMENT_COLUMNS = `
  key, transaction_id, amount::text AS amount, currency, fingerprint, client, processor, state, epoch, owner, reason, reference, attempt, source, content, claimed_after_loss, ending, processor_id,
  refund_of, refund_name, refund_reason, refund_charge_id,
  CASE WHEN generation = ${GENERATION} THEN unsent_epoch END AS unsent_epoch,
  greatest(0, extract(epoch FROM lease_until - clock_timestamp()) * 1000)::float8 AS remaining_ms,
  (extract(epoch FROM clock_timestamp() - claimed_at) * 1000)::float8 AS age_ms,
  floor(extract(epoch FROM CASE WHEN coalesce(reference, refund_name) IS NULL THEN expires_at ELSE clock_timestamp() + (expires_at - settled_at) END) * 1000)::float8
    AS expires_at,
  floor(extract(epoch FROM settled_at) * 1000)::float8 AS settled_at,
  floor(extract(epoch FROM pending_until) * 1000)::float8 AS pending_until,
  coalesce(expires_at > clock_timestamp() OR reference IS NOT NULL OR refund_name IS NOT NULL, false) AS repeatable`;

export interface PaymentRow extends FinalRow, ContentColumns, RefundColumns {
  key: string;
  /** Null, as the currency and the processor, if it was cancelled. */
  amount: string | null;
  currency: string | null;
  processor: string | null;
  reference: string | null;
  attempt: number | null;
  /** When it was claimed, an earlier row of its key may have been lost. */
  claimed_after_loss: boolean | null;
  pending_until: number | null;
  ending: EndingScope | null;
  processor_id: string | null;
  epoch: number;
  owner: string;
  /** The epoch that was given up with nothing ever sent; it counts while it is the row's, or the takeover's before. See the schema. */
  unsent_epoch: number | null;
  remaining_ms: number;
  age_ms: number;
  /** Null while it is PROCESSING. */
  settled_at: number | null;
  /** Final, and not past its expiry by the database's clock; a payment with a reference and a refund never are. */
  repeatable: boolean;
}

/** Reads a row that is durable if it decides an answer: one that is final, or that `ours` wrote. */
export type FindRow = (key: string, ours?: Fence) => Promise<PaymentRow | undefined>;

/** The state, at this moment, of a row that is not PROCESSING. */
export function endStateOf(
  row: PaymentRow,
): { state: 'final'; final: FinalOutcome } | { state: 'cancelled' | 'expired' } {
  if (row.state === 'CANCELLED') return { state: 'cancelled' };
  return row.repeatable ? { state: 'final', final: finalOf(row) } : { state: 'expired' };
}

/** Takes a row that is PROCESSING, which has an amount, a currency and a processor. */
export function claimOf(row: PaymentRow): Claim {
  const { key, epoch, owner, fingerprint } = row;
  const [amount, currency, processor] = [row.amount, row.currency, row.processor] as [string, string, string];
  const client = row.client ?? undefined;
  const mark = unsentMarkBefore(row);
  const transactionId = row.transaction_id;
  const claim = {
    key,
    epoch,
    owner,
    transactionId,
    amount,
    currency,
    fingerprint,
    client,
    processor,
    reference: row.reference ?? undefined,
    attempt: row.attempt ?? undefined,
    content: contentOf(row),
    unsent: mark === 'unsent',
    ageMs: row.age_ms,
    ...openMembersOf(row),
  };
  return mark === 'unsent since a loss' ? { ...claim, mayBeLost: true } : claim;
}
