import { type Environment, listsOf } from '../environment.js';
import type { Stores } from '../stores.js';
import { checkPayments } from './checker.js';
import { type PaymentPlan, planPayments } from './plan.js';
import { runPayments } from './run.js';

/** `sabotage`: stores that are wrong on purpose, for a test of the checker. */
export function paymentEnvironment(sabotage: (stores: Stores) => void = () => {}): Environment<PaymentPlan> {
  return {
    name: 'payments',
    plan: planPayments,
    async run(plan, { trace = false } = {}) {
      const history = await runPayments(plan, trace, sabotage);
      const { digest, steps, trace: lines, counts } = history.simulation;
      return { violations: checkPayments(history), digest, steps, trace: lines, counts };
    },
    lists: listsOf<'requests', PaymentPlan['scripts'][number]>('requests'),
  };
}
