import { type RunResult, type World, withoutRange } from '../world.js';
import { judgeTransactions } from './judge.js';
import { planTransactions, type TransactionPlan } from './plan.js';
import { runTransactions, type Sabotage } from './run.js';

export const transactionWorld: World<TransactionPlan> = transactionWorldWith(undefined);

export function transactionWorldWith(sabotage: Sabotage | undefined): World<TransactionPlan> {
  return {
    name: 'transactions',
    plan: planTransactions,
    async run(plan, { trace = false } = {}): Promise<RunResult> {
      const history = await runTransactions(plan, { trace, ...(sabotage && { sabotage }) });
      const { digest, steps, trace: lines, counts } = history.simulation;
      return { violations: judgeTransactions(history), digest, steps, trace: lines, counts };
    },
    lists: (plan) => [
      {
        length: plan.troubles.length,
        without: (start, count) => ({ ...plan, troubles: withoutRange(plan.troubles, start, count) }),
      },
      {
        length: plan.scripts.length,
        without: (start, count) => ({ ...plan, scripts: withoutRange(plan.scripts, start, count) }),
      },
      ...plan.scripts.map((script, index) => ({
        length: script.actions.length,
        without: (start: number, count: number) => {
          const shorter = { ...script, actions: withoutRange(script.actions, start, count) };
          return { ...plan, scripts: plan.scripts.with(index, shorter) };
        },
      })),
    ],
  };
}
