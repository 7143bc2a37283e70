import { readAmount } from './amounts.js';
import type { Columns } from './columns.js';

/** One payment on the processor's statement. */
export interface StatementRow {
  readonly line: number;
  /** In lower case; empty: the statement does not say. */
  readonly reference: string;
  /** Ours, `TXN...`; empty: the statement does not say. */
  readonly transactionId: string;
  /** As it stands there. */
  readonly amount: string;
  readonly units: bigint;
  readonly currency: string;
  /** As it stands there; empty: the statement has no statuses. */
  readonly status: string;
  /** What the status means. Without one: a statement lists what was paid. */
  readonly state: 'COMPLETED' | 'DECLINED' | 'OTHER';
}

const PAID_WORDS = 'succeeded success successful completed complete paid captured settled approved ok'.split(' ');
const DECLINED_WORDS = 'declined failed failure refused rejected denied'.split(' ');
/** Processors have transaction ids of their own: those say nothing to us. */
const OUR_TRANSACTION = /^TXN\d+$/;
const CURRENCY = /^[A-Z]{3}$/;

export function readStatementRow(
  line: number,
  fields: readonly string[],
  columns: Columns,
): StatementRow | { readonly problem: string } {
  const text = (index: number | undefined) => (index === undefined ? '' : (fields[index] ?? '').trim());
  const reference = text(columns.reference).toLowerCase();
  const statedTransaction = text(columns.transactionId).toUpperCase();
  const transactionId = OUR_TRANSACTION.test(statedTransaction) ? statedTransaction : '';
  if (reference === '' && transactionId === '') {
    return {
      problem:
        statedTransaction === ''
          ? 'It has neither a reference nor a transaction id.'
          : `“${text(columns.transactionId)}” is no transaction id of ours: they are TXN and digits.`,
    };
  }
  const amount = text(columns.amount);
  const read = readAmount(amount);
  if ('problem' in read) return read;
  const currency = text(columns.currency).toUpperCase();
  if (!CURRENCY.test(currency))
    return { problem: `The currency “${text(columns.currency)}” is not a code of three letters such as USD.` };
  const status = text(columns.status);
  return {
    line,
    reference,
    transactionId,
    amount,
    units: read.units,
    currency,
    status,
    state: stateOf(status.toLowerCase()),
  };
}

function stateOf(word: string): StatementRow['state'] {
  if (word === '' || PAID_WORDS.includes(word)) return 'COMPLETED';
  return DECLINED_WORDS.includes(word) ? 'DECLINED' : 'OTHER';
}
