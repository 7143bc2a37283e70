import { judgePayments } from './payment-judge.js';
import { type PaymentPlan, planPayments } from './payment-plan.js';
import { runPayments } from './payment-world.js';

export interface SeedResult {
  readonly violations: readonly string[];
  readonly digest: number;
  readonly steps: number;
  readonly trace: readonly string[];
}

export async function runPaymentPlan(plan: PaymentPlan, options: { trace?: boolean } = {}): Promise<SeedResult> {
  const history = await runPayments(plan, options);
  const { digest, steps, trace } = history.simulation;
  return { violations: judgePayments(history), digest, steps, trace };
}

export function runPaymentSeed(seed: number, options: { trace?: boolean } = {}): Promise<SeedResult> {
  return runPaymentPlan(planPayments(seed), options);
}
