import { type Environment, listsOf } from '../environment.js';
import type { Stores } from '../stores.js';
import { checkTransactions } from './checker.js';
import { planTransactions, type TransactionPlan } from './plan.js';
import { runTransactions } from './run.js';

/** `sabotage`: stores that are wrong on purpose, for a test of the checker. */
export function transactionEnvironment(sabotage: (stores: Stores) => void = () => {}): Environment<TransactionPlan> {
  return {
    name: 'transactions',
    plan: planTransactions,
    async run(plan, { trace = false } = {}) {
      const history = await runTransactions(plan, trace, sabotage);
      const { digest, steps, trace: lines, counts } = history.simulation;
      return { violations: checkTransactions(history), digest, steps, trace: lines, counts };
    },
    lists: listsOf<'actions', TransactionPlan['scripts'][number]>('actions'),
  };
}
