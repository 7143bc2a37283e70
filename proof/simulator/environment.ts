import type { Faulty } from './faults.js';
import { checkPayments } from './payments/checker.js';
import { planPayments } from './payments/plan.js';
import { runPayments } from './payments/run.js';
import type { Simulation } from './simulation.js';
import { checkTransactions } from './transactions/checker.js';
import { planTransactions } from './transactions/plan.js';
import { runTransactions } from './transactions/run.js';
import type { Sabotage } from './world.js';

export interface RunResult extends Pick<Simulation, 'digest' | 'steps' | 'trace' | 'counts'> {
  /** One sentence for each broken promise. */
  readonly violations: readonly string[];
}

/** A part of the service that is simulated, with everything that can go wrong around it. */
export interface Environment {
  plan(seed: number): Faulty;
  run(plan: Faulty, trace?: boolean): Promise<RunResult>;
}

function environment<Plan extends Faulty, History extends { readonly simulation: Simulation }>(
  plan: (seed: number) => Plan,
  carryOut: (plan: Plan, how: readonly [trace: boolean, Sabotage]) => Promise<History>,
  check: (history: History) => string[],
) {
  return (sabotage: Sabotage = () => {}): Environment => ({
    plan,
    async run(planned: Plan, trace = false) {
      const history = await carryOut(planned, [trace, sabotage]);
      const { digest, steps, trace: lines, counts } = history.simulation;
      return { violations: check(history), digest, steps, trace: lines, counts };
    },
  });
}

export const ENVIRONMENTS = {
  payments: environment(planPayments, runPayments, checkPayments),
  transactions: environment(planTransactions, runTransactions, checkTransactions),
};

export type EnvironmentName = keyof typeof ENVIRONMENTS;

/** Without a choice: three of ten seeds are about transactions. */
export const environmentOfSeed = (seed: number) => (seed % 10 < 7 ? 'payments' : 'transactions');
