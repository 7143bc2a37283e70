import { readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { kindOf } from '../simulator/violation-kinds.js';
import { TEMPORARY } from './run.js';
import type { Workspace } from './workspace.js';

const RUN_LIMIT_MS = 600_000;
const SESSION_MINUTES = 0.6;
const MOST_TRIES = 2;

/** What a check may spend on one mutant. A mistake that needs more counts as not noticed. */
export interface Effort {
  readonly seeds: number;
  readonly sessions: number;
}

export interface Finding {
  /** The promise that was broken or the test that failed; undefined: not noticed. */
  readonly noticed: string | undefined;
  /** What it took, such as `8 seeds`. */
  readonly effort: string;
}

/** Something that can notice a mutant. */
export interface Check {
  readonly name: string;
  /** Takes a minute for each session, so that it runs only where it is asked for. */
  readonly isExpensive?: boolean;
  /** Why it cannot notice a mistake in this file; undefined: it can. */
  cannotNotice(file: string): string | undefined;
  run(workspace: Workspace, effort: Effort): Promise<Finding>;
}

type Rule = readonly [file: RegExp, why: string];

const ONLY_SIMULATED: Rule = [/^proof\/simulator\//, 'only the simulator runs it'];
const ONLY_DISTRIBUTED: Rule = [/\/distributed\//, 'only the distributed deployment runs it'];
const ONLY_EMBEDDED: Rule = [/\/embedded\//, 'only the embedded deployment runs it'];
/** The suites of the ports run the adapters alone. */
const NO_ADAPTER: Rule = [/^src\/(payments|transactions)\//, 'the suites of the ports run adapters only'];
const MODELLED: Rule = [/statements\.ts$|redis\/redis-|postgres\/postgres/, 'the simulator has a model of it'];

export const CHECKS: readonly Check[] = [
  simulator(
    'payments',
    MODELLED,
    [/transaction|list/, 'it is about transactions'],
    [/processors\//, 'the processor is a model'],
  ),
  simulator('transactions', MODELLED, [/payment|ledger|key-store/, 'it is about payments']),
  tests('unit', ['test/unit/'], ONLY_SIMULATED),
  tests('protocol', ['test/protocol/'], ONLY_SIMULATED),
  tests('contracts embedded', ['test/contracts/embedded'], ONLY_SIMULATED, ONLY_DISTRIBUTED, NO_ADAPTER),
  tests('contracts distributed', ['test/contracts/distributed'], ONLY_SIMULATED, ONLY_EMBEDDED, NO_ADAPTER),
  tests('adapters', ['test/adapters/'], ONLY_SIMULATED, NO_ADAPTER),
  faults('embedded', ONLY_SIMULATED, ONLY_DISTRIBUTED),
  faults('distributed', ONLY_SIMULATED, ONLY_EMBEDDED),
];

function whyNot(rules: readonly Rule[]): Check['cannotNotice'] {
  return (file) => rules.find(([pattern]) => pattern.test(file))?.[1];
}

function simulator(environment: string, ...rules: readonly Rule[]): Check {
  return {
    name: `simulator ${environment}`,
    cannotNotice: whyNot(rules),
    async run(workspace, { seeds }) {
      const options = ['--first', '--workers', '1', '--environment', environment, '--seeds', `${seeds}`];
      const { output } = await workspace.run(['build/proof/simulator/main.js', ...options], RUN_LIMIT_MS);
      // A program that cannot be loaded ends with 1 too.
      if (!output.includes('seeds with violations')) throw new Error(`the simulator could not be run:\n${output}`);
      const violations = [...output.matchAll(/^seed (\d+) \(\w+\): (.*)$/gm)]
        .map(([, seed, what = '']) => ({ seed: Number(seed), what, kind: kindOf(what) }))
        .sort((one, other) => one.seed - other.seed);
      const promise = violations.find(({ kind }) => kind === 'promise');
      const found = promise ?? violations.find(({ kind }) => kind === "store's rule");
      if (!found) return { noticed: undefined, effort: count(seeds, 'seed') };
      const rule = found === promise ? '' : "the store's own rule: ";
      return { noticed: rule + found.what.replace('a bug: ', ''), effort: count(found.seed + 1, 'seed') };
    },
  };
}

interface Failed {
  readonly file: string;
  readonly test: string;
}

function tests(name: string, files: readonly string[], ...rules: readonly Rule[]): Check {
  return {
    name,
    cannotNotice: whyNot(rules),
    async run(workspace) {
      let effort = 'the suite';
      // A test that fails once and not again, as on a busy machine, has not noticed the mutant.
      for (let tries = 0; tries < MOST_TRIES; tries += 1) {
        const failed = await firstFailed(workspace, files);
        if (!failed) break;
        const again = await firstFailed(workspace, [failed.file]);
        if (again) return { noticed: again.test, effort: 'the suite' };
        effort = `only once: ${failed.test}`;
      }
      return { noticed: undefined, effort };
    },
  };
}

async function firstFailed(workspace: Workspace, files: readonly string[]): Promise<Failed | undefined> {
  const report = join(workspace.folder, TEMPORARY, 'report.json');
  const options = ['--reporter=json', `--outputFile=${report}`, '--bail=1', '--no-color'];
  const { code, output } = await workspace.run(
    ['node_modules/vitest/vitest.mjs', 'run', ...options, ...files],
    RUN_LIMIT_MS,
  );
  if (code === 0) return;
  for (const { name, message, assertionResults } of resultsIn(report, output)) {
    const file = relative(workspace.folder, name);
    const failed = assertionResults.find(({ status }) => status === 'failed');
    if (failed) return { file, test: failed.fullName };
    if (message) return { file, test: `${file}: ${message.split('\n')[0]}` };
  }
  throw new Error(`the tests could not be run:\n${output}`);
}

interface FileResult {
  readonly name: string;
  readonly message: string;
  readonly assertionResults: readonly { readonly status: string; readonly fullName: string }[];
}

function resultsIn(report: string, output: string): readonly FileResult[] {
  try {
    return JSON.parse(readFileSync(report, 'utf8')).testResults;
  } catch (cause) {
    throw new Error(`the tests left no report:\n${output}`, { cause });
  }
}

/** Violations that also a busy machine causes. */
const NO_PROMISES = ['nothing fails by itself', 'everything is back after healing'];

function faults(deployment: string, ...rules: readonly Rule[]): Check {
  return {
    name: `faults ${deployment}`,
    isExpensive: true,
    cannotNotice: whyNot(rules),
    async run(workspace, { sessions }) {
      for (let session = 1; session <= sessions; session += 1) {
        const options = ['--deployment', deployment, '--minutes', `${SESSION_MINUTES}`, '--seed', `${session}`];
        const { code, output } = await workspace.run(['build/proof/faults/main.js', ...options], RUN_LIMIT_MS);
        if (code !== 0 && code !== 1) throw new Error(`the fault suite could not be run:\n${output}`);
        const violation = code === 1 && violationsIn(workspace, output).find(({ rule }) => !NO_PROMISES.includes(rule));
        if (violation) return { noticed: `${violation.rule}: ${violation.what}`, effort: count(session, 'session') };
      }
      return { noticed: undefined, effort: count(sessions, 'session') };
    },
  };
}

/** All of them: the suite prints the first few, which may be of one kind. */
function violationsIn({ folder }: Workspace, output: string): readonly { rule: string; what: string }[] {
  const [, file] = /^\d+ violations, with their \w+ in (\S+)$/m.exec(output) ?? [];
  if (file === undefined) throw new Error(`the fault suite named no violations:\n${output}`);
  const lines = readFileSync(join(folder, file), 'utf8').trim().split('\n');
  return lines.map((line) => JSON.parse(line));
}

function count(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? '' : 's'}`;
}
