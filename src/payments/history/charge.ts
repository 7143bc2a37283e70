import { StoreUnavailable } from '../../platform/faults.js';
import type { Ledger } from '../ports/ledger.js';
import type { PaymentHistory, PaymentRecord } from '../ports/payment-history.js';
import { isVisibleTo } from '../values/payment.js';
import { type ComputeKey, type NamedPayment, type Reference, referenceIn } from '../values/reference.js';

export const CHARGES = ['made', 'none', 'unknown'] as const;

/**
 * The answer to "was this payment charged?", for programs (rule P20). It is about the key, or of the whole reference if one is named or the
 * key is computed from one. `none` comes from rows only, never from their absence, and is certain: nothing was charged, and nothing will be
 * without another attempt.
 */
export type Charge = (typeof CHARGES)[number];

/** Reads the rows. It does not fail if the store is down: then the charge is unknown. */
export type TellCharge = (named: NamedPayment) => Promise<Charge>;

export function createTellCharge(context: {
  history: Pick<PaymentHistory, 'find' | 'newestAttempt'>;
  ledger: Pick<Ledger, 'mayBeLost'>;
  computeKey: ComputeKey;
}): TellCharge {
  const { history, ledger, computeKey } = context;

  async function ofKey(key: string, client: string | undefined): Promise<Charge> {
    const row = await history.find(key);
    if (!row || row.refund || !isVisibleTo(client, row.client)) return 'unknown';
    // A later attempt may have paid the order, although this one was declined.
    const reference = referenceIn(row);
    if (reference) return ofReference(reference);
    // A charge of a row that was lost may arrive after the cancellation.
    if (row.state === 'CANCELLED' && (await ledger.mayBeLost(key))) return 'unknown';
    return ofRow(row);
  }

  /** An attempt only follows a decline. The declines before count too, because an operator may have decided one of them. */
  async function ofReference(reference: Reference): Promise<Charge> {
    const keyOf = (attempt: number) => computeKey({ ...reference, attempt });
    const newest = await history.newestAttempt(reference.text, reference.client);
    let charge = ofRow(newest);
    const last = newest?.attempt ?? 0;
    for (let attempt = last - 1; attempt >= 1 && charge === 'none'; attempt -= 1) {
      charge = ofRow(await history.find(keyOf(attempt)));
    }
    // After a failover or a restore the row of a later attempt may be lost.
    if (charge === 'none' && (await ledger.mayBeLost(keyOf(last + 1)))) return 'unknown';
    return charge;
  }

  return async ({ key, client, reference }) => {
    try {
      return await (reference ? ofReference(reference) : ofKey(key, client));
    } catch (fault) {
      if (fault instanceof StoreUnavailable) return 'unknown';
      throw fault;
    }
  };
}

/** An operator's `declined` is what a person found out: a charge that arrives late would contradict it. */
function ofRow(row: PaymentRecord | undefined): Charge {
  switch (row?.state) {
    case 'COMPLETED':
      return 'made';
    case 'CANCELLED':
      return 'none';
    case 'DECLINED':
      return row.resolution === undefined ? 'none' : 'unknown';
    default:
      return 'unknown';
  }
}
