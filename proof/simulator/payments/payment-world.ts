import { type RunResult, type World, withoutRange } from '../world.js';
import { judgePayments } from './judge.js';
import { type PaymentPlan, planPayments } from './plan.js';
import { runPayments, type Sabotage } from './run.js';

export const paymentWorld: World<PaymentPlan> = paymentWorldWith(undefined);

export function paymentWorldWith(sabotage: Sabotage | undefined): World<PaymentPlan> {
  return {
    name: 'payments',
    plan: planPayments,
    async run(plan, { trace = false } = {}): Promise<RunResult> {
      const history = await runPayments(plan, { trace, ...(sabotage && { sabotage }) });
      const { digest, steps, trace: lines, counts } = history.simulation;
      return { violations: judgePayments(history), digest, steps, trace: lines, counts };
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
        length: script.requests.length,
        without: (start: number, count: number) => {
          const shorter = { ...script, requests: withoutRange(script.requests, start, count) };
          return { ...plan, scripts: plan.scripts.with(index, shorter) };
        },
      })),
    ],
  };
}
