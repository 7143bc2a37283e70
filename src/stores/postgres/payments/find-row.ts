import type { FindResult } from '../../../payments/ports/ledger.js';
import { isPending, pendingOf } from '../../shared/payment-rows.js';
import type { ConfirmDurable } from '../connection/durability.js';
import type { PostgresPart } from '../connection/part.js';
import { endStateOf, type FindRow, type PaymentRow } from './payment-row.js';

/** A row that is final, or ours, decides an answer, so it is returned only when it is durable, and remembered like a commit. */
export function createFindRow(
  read: (key: string) => Promise<PaymentRow | undefined>,
  { lastCommits }: Pick<PostgresPart, 'lastCommits'>,
  confirmDurable: ConfirmDurable,
): FindRow {
  return async (key, ours) => {
    const row = await read(key);
    if (row && (row.state !== 'PROCESSING' || row.owner === ours?.owner)) {
      await confirmDurable();
      const { epoch, settled_at: settledAt } = row;
      if (settledAt === null) lastCommits?.add({ key, epoch, settled: false });
      else lastCommits?.saw({ key, epoch }, settledAt);
    }
    return row;
  };
}

/** The state of a row at this moment. */
export function findResultOf(row: PaymentRow): Exclude<FindResult, { readonly state: 'absent' }> {
  if (row.state !== 'PROCESSING') return endStateOf(row);
  if (isPending(row)) return { state: 'pending', payment: pendingOf(row, row.remaining_ms) };
  return row.remaining_ms > 0
    ? { state: 'under way', fingerprint: row.fingerprint, remainingMs: row.remaining_ms }
    : { state: 'abandoned' };
}
