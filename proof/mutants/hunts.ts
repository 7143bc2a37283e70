import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Violation } from '../../testkit/checkers/payment-evidence.js';
import { kindOf } from '../simulator/violation-kinds.js';
import type { Hunt } from './mutants.js';
import { run } from './run.js';

/** Minutes, not hours: a mistake that needs longer counts as overlooked. */
const MOST_SEEDS = 30_000;
const SESSION_MINUTES = 0.6;
const MOST_SESSIONS = 10;
const LONGEST_RUN_MS = 600_000;

export interface Found {
  /** The promise that was seen broken, or the store's own rule; undefined: neither, whatever else was seen. */
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

/** What a fault suite says of itself, or of a busy machine: nobody was told anything wrong. */
const NO_PROMISES = ['nothing fails by itself', 'everything is back after healing'];

async function simulate(folder: string, world: string, seeds: number): Promise<Found> {
  const args = ['build/proof/simulator/main.js', '--first', '--workers', '1', '--world', world, '--seeds', `${seeds}`];
  const { code, output } = await run(folder, args, LONGEST_RUN_MS);
  if (code !== 0 && code !== 1) throw new Error(`the simulator could not be run:\n${output}`);
  const lines = [...output.matchAll(/^seed (\d+) \(\w+\): (.*)$/gm)];
  const told = lines
    .map(([, seed, what = '']) => ({
      seed: Number(seed),
      effort: count(Number(seed) + 1, 'seed'),
      what,
      kind: kindOf(what),
    }))
    .sort((one, other) => one.seed - other.seed);
  const promise = told.find(({ kind }) => kind === 'promise');
  if (promise) return { what: promise.what, effort: promise.effort };
  const rule = told.find(({ kind }) => kind === "store's rule");
  if (rule) return { what: `the store's own rule: ${rule.what.replace('a bug: ', '')}`, effort: rule.effort };
  return { what: undefined, effort: effortOf(count(seeds, 'seed'), told[0]?.what) };
}

async function strike(folder: string, deployment: string, sessions: number): Promise<Found> {
  let noPromise: string | undefined;
  for (let session = 1; session <= sessions; session += 1) {
    const options = ['--deployment', deployment, '--minutes', `${SESSION_MINUTES}`, '--seed', `${session}`];
    const { code, output } = await run(folder, ['build/proof/faults/main.js', ...options], LONGEST_RUN_MS);
    if (code !== 0 && code !== 1) throw new Error(`the fault suite could not be run:\n${output}`);
    if (code === 0) continue;
    const violations = violationsIn(folder, output);
    const promise = violations.find(({ rule }) => !NO_PROMISES.includes(rule));
    if (promise) return { what: `${promise.rule}: ${promise.what}`, effort: count(session, 'session') };
    const [first] = violations;
    if (first) noPromise ??= `${first.rule}: ${first.what.split('\n')[0]}`;
  }
  return { what: undefined, effort: effortOf(count(sessions, 'session'), noPromise) };
}

/** All of them: it prints the first few, which may be of one kind. */
function violationsIn(folder: string, output: string): readonly Pick<Violation, 'rule' | 'what'>[] {
  const [, file] = /, with their journals in (\S+)$/m.exec(output) ?? [];
  if (file === undefined) throw new Error(`the fault suite named no violations:\n${output}`);
  const lines = readFileSync(join(folder, file), 'utf8').trim().split('\n');
  return lines.map((line) => JSON.parse(line) as Violation);
}

function effortOf(effort: string, noPromise: string | undefined): string {
  return noPromise === undefined ? effort : `${effort}, and no promise broken, only: ${noPromise}`;
}

async function keepContracts(folder: string, file: string): Promise<Found> {
  const args = ['node_modules/vitest/vitest.mjs', 'run', '--reporter=dot', '--bail=1', '--no-color', file];
  const { code, output } = await run(folder, args, LONGEST_RUN_MS);
  if (code === 0) return { what: undefined, effort: 'the suite' };
  const [, test] = /FAIL {2}\S+ > (.*)/.exec(output) ?? [];
  if (test === undefined) throw new Error(`the suite could not be run:\n${output}`);
  return { what: test, effort: 'the suite' };
}

function count(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? '' : 's'}`;
}
