import type { ChargeLine } from '#idempay/reference-processor/charge-log.js';
import type { Violation } from '../history/history.js';
import { listTag } from './lists.js';

export const RESTORED_RULES = {
  oneCharge: 'a restore charges no key twice',
  oneChargePerOrder: 'a restore charges no order twice',
  paidAsAnswered: 'after a restore nothing is answered as paid that was not charged so',
  answered: 'after a restore an order that was charged is answered as paid',
  noIdTwice: 'a restore gives no id twice',
  notStale: 'after a restore a read by id shows the row',
  rightTag: 'after a restore a 304 confirms the tag of the list that is there',
} as const;

/** The state at rest after the database was set back. Data that the backup lacks is lost, and is no violation. */
export interface RestoredEvidence {
  /** The rows that the restored database has. */
  readonly rows: readonly {
    readonly id: number;
    readonly status: string;
    readonly from: string;
    readonly to: string;
  }[];
  /** The status that each process shows for each id that was ever acknowledged; `gone` stands for 404. */
  readonly reads: readonly { readonly id: number; readonly status: string; readonly at: string }[];
  /** True if a list was answered with 304 to a tag of before the restore. */
  readonly lists: readonly { readonly account: string; readonly tag: string; readonly isConfirmed: boolean }[];
  /** The ids of all creates that were ever acknowledged. */
  readonly ids: readonly number[];
  readonly charges: readonly RestoredCharge[];
  /** The requests that were answered as paid. The transaction id of an answer may differ from the one before the restore. */
  readonly answers: readonly { readonly key: string; readonly amount: string; readonly currency: string }[];
  /** Charged orders that were not answered as paid, and their last answer. */
  readonly unanswered: readonly string[];
}

/** A line of the processor's log. */
type RestoredCharge = Pick<ChargeLine, 'reference' | 'order' | 'status' | 'amount' | 'currency'>;

export function checkRestored(evidence: RestoredEvidence): Violation[] {
  return [...checkPayments(evidence), ...checkTransactions(evidence)];
}

function checkPayments({ charges, answers, unanswered }: RestoredEvidence): Violation[] {
  const { oneCharge, oneChargePerOrder, paidAsAnswered, answered } = RESTORED_RULES;
  const succeeded = charges.filter(({ status }) => status === 'succeeded');
  const orders = succeeded.flatMap(({ order }) => order ?? []);
  const isCharged = ({ key, amount, currency }: RestoredEvidence['answers'][number]) =>
    succeeded.some((charge) => charge.reference === key && charge.amount === amount && charge.currency === currency);
  return [
    ...twice(charges.map(({ reference }) => reference)).map((key) => violation(oneCharge, key, 'charged twice')),
    ...twice(orders).map((order) => violation(oneChargePerOrder, order, 'charged twice')),
    ...answers
      .filter((answer) => !isCharged(answer))
      .map((answer) => violation(paidAsAnswered, answer.key, JSON.stringify(answer))),
    ...unanswered.map((what) => violation(answered, 'an order', what)),
  ];
}

function checkTransactions({ rows, reads, lists, ids }: RestoredEvidence): Violation[] {
  const statusOf = new Map(rows.map(({ id, status }) => [id, status]));
  const stale = reads.filter(({ id, status }) => status !== (statusOf.get(id) ?? 'gone'));
  const wrong = lists.filter(({ account, tag, isConfirmed }) => {
    const shown = rows.filter(({ from, to }) => account === from || account === to).map(({ id }) => id);
    return isConfirmed !== (listTag(shown.toSorted((one, other) => one - other)) === tag);
  });
  return [
    ...twice(ids).map((id) => violation(RESTORED_RULES.noIdTwice, `${id}`, 'given twice')),
    ...stale.map(({ id, status, at }) =>
      violation(RESTORED_RULES.notStale, `${id}`, `${status} at ${at}, the row: ${statusOf.get(id) ?? 'gone'}`),
    ),
    ...wrong.map(({ account, tag, isConfirmed }) =>
      violation(RESTORED_RULES.rightTag, account, `${tag} was ${isConfirmed ? '' : 'not '}confirmed`),
    ),
  ];
}

function twice<T>(items: readonly T[]): T[] {
  const seen = new Set<T>();
  return items.filter((item) => seen.size === seen.add(item).size);
}

function violation(rule: string, subject: string, what: string): Violation {
  return { rule, subject, what, history: [] };
}
