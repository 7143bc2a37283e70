import type { Hunt } from './mutants.js';
import { run } from './run.js';

/** Minutes, not hours: a mistake that needs longer counts as overlooked. */
const MOST_SEEDS = 30_000;
const SESSION_MINUTES = 0.6;
const MOST_SESSIONS = 10;
const LONGEST_RUN_MS = 600_000;

export interface Found {
  /** The promise that was seen broken; undefined: nothing was noticed. */
  readonly what: string | undefined;
  /** What it took: seeds, sessions. */
  readonly effort: string;
}

/** Without a mistake: just enough to see that the hunter cries at a mistake and not always. */
export const CONTROL = { seeds: 500, sessions: 1 };

/** Looks for a broken promise in the build of `folder`, until one is found or the effort is spent. */
export function hunt(
  folder: string,
  how: Hunt,
  most: { readonly seeds: number; readonly sessions: number } = { seeds: MOST_SEEDS, sessions: MOST_SESSIONS },
): Promise<Found> {
  switch (how.by) {
    case 'simulator':
      return simulate(folder, how.world, most.seeds);
    case 'faults':
      return strike(folder, how.deployment, most.sessions);
    case 'contracts':
      return keepContracts(folder, how.file);
  }
}

async function simulate(folder: string, world: string, seeds: number): Promise<Found> {
  const args = ['build/proof/simulator/main.js', '--first', '--workers', '1', '--world', world, '--seeds', `${seeds}`];
  const { code, output } = await run(folder, args, LONGEST_RUN_MS);
  const [, seed, what] = /^seed (\d+) \(\w+\): (.*)$/m.exec(output) ?? [];
  if (code === 1 && what !== undefined) return { what, effort: `${Number(seed) + 1} seeds` };
  if (code === 0) return { what: undefined, effort: `${seeds} seeds` };
  throw new Error(`the simulator could not be run:\n${output}`);
}

async function strike(folder: string, deployment: string, sessions: number): Promise<Found> {
  for (let session = 1; session <= sessions; session += 1) {
    const options = ['--deployment', deployment, '--minutes', `${SESSION_MINUTES}`, '--seed', `${session}`];
    const { code, output } = await run(folder, ['build/proof/faults/main.js', ...options], LONGEST_RUN_MS);
    const [, rule, what] = /^VIOLATED: (.*)\n {2}\S.*?: (.*)$/m.exec(output) ?? [];
    if (code === 1 && rule !== undefined) return { what: `${rule}: ${what}`, effort: `${session} sessions` };
    if (code !== 0) throw new Error(`the fault suite could not be run:\n${output}`);
  }
  return { what: undefined, effort: `${sessions} sessions` };
}

async function keepContracts(folder: string, file: string): Promise<Found> {
  const args = ['node_modules/vitest/vitest.mjs', 'run', '--reporter=dot', '--bail=1', '--no-color', file];
  const { code, output } = await run(folder, args, LONGEST_RUN_MS);
  if (code === 0) return { what: undefined, effort: 'the suite' };
  const [, test] = /FAIL {2}\S+ > (.*)/.exec(output) ?? [];
  if (test === undefined) throw new Error(`the suite could not be run:\n${output}`);
  return { what: test, effort: 'the suite' };
}
