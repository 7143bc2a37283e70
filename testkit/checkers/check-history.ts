import type { History, Violation } from '../history/history.js';
import { checkLists, checkSharedLists } from './lists.js';
import { checkPayments, type PaymentEvidence } from './payments.js';
import { checkRefusals, type RefusalEvidence } from './refusals.js';
import { checkTransactions } from './transactions.js';

export type Evidence = Omit<PaymentEvidence, 'keys' | 'disturbances'> & Pick<RefusalEvidence, 'maxInFlight'>;

export function checkHistory(history: History, evidence: Evidence): Violation[] {
  const { keys, refusals, disturbances } = history;
  return [
    ...history.violations,
    ...checkPayments({ ...evidence, keys, disturbances: disturbances.all }),
    ...checkRefusals({ ...evidence, keys, refusals, disturbances: disturbances.all }),
    ...checkTransactions(history.transactions),
    ...checkLists(history.lists),
    ...checkSharedLists(history.sharedLists),
  ];
}
