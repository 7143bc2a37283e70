import { readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { patience } from '../../testkit/time/patience.js';
import { kindOf } from '../simulator/violation-kinds.js';
import type { Mutant } from './mutants.js';
import type { Workspace } from './workspace.js';

const RUN_LIMIT_MS = 600_000;
/** A mutant may make a test wait for ever. It is noticed as soon as no test without a mutant takes as long. */
const HANGS_MS = 120_000;
const SESSION_MINUTES = 0.6;
const MOST_TRIES = 2;

/** The time that a check may spend on one mutant. A mistake that needs more counts as not noticed. */
export interface Effort {
  readonly seeds: number;
  readonly sessions: number;
}

export interface Finding {
  /** The promise that was broken or the test that failed; undefined if the mutant was not noticed. */
  readonly noticed: string | undefined;
  /** The effort that it took, such as `8 seeds`. */
  readonly effort: string;
}

/** Something that can notice a mutant. */
export interface Check {
  readonly name: string;
  /** Files whose mistakes it cannot notice: it does not run them. */
  readonly without: readonly RegExp[];
  run(workspace: Workspace, effort: Effort, mutant: Pick<Mutant, 'edits'>): Promise<Finding>;
}

const SIMULATOR = /^proof\/simulator\//;
const CLIENT = /^client\//;
const SERVICE = [/^src\//, /^proof\//];
const DISTRIBUTED = [/^src\/stores\/postgres\//, /^src\/stores\/redis\//, /^src\/stores\/distributed\.ts$/];
const EMBEDDED = /^src\/stores\/embedded\//;
const TRANSACTIONS = /^src\/transactions\//;
/** The suites of the ports run the adapters alone. */
const FEATURES = [/^src\/payments\//, TRANSACTIONS];
/** The simulator has models of statements and clients, and of the processor. */
const MODELLED = [
  /statements\.ts$/,
  /\/redis\/connection\//,
  /\/postgres\/connection\/postgres\.ts$/,
  /\/processors\//,
];

/** The tests that are nearest to a file, for a check that takes seconds: the first pattern that matches counts. */
const ROOMS: readonly (readonly [file: RegExp, tests: readonly string[]])[] = [
  [/^src\/stores\/(.*\/)?(transfer|leaving)/, ['commands/transfer.test', 'commands/transfer-cancelled']],
  [/^src\/stores\/(postgres|embedded)\/webhooks\//, ['contracts/endpoint-rows']],
  [/^src\/webhooks\//, ['unit/webhook-']],
  [
    /^src\/stores\/postgres\/(payments\/(ledger-|refund|claims|settlements)|connection\/database-identity-)/,
    [
      'contracts/distributed',
      'adapters/distributed-re',
      'adapters/distributed-settlements',
      'adapters/declined-ages',
      'adapters/live-leases',
      'adapters/pending-rows',
    ],
  ],
  [
    /^src\/stores\/postgres\/(payments\/settlement-read|connection\/database-clock)|^src\/stores\/shared\/settlement-reads/,
    ['contracts/distributed', 'adapters/distributed-settlements'],
  ],
  [
    /^src\/stores\/postgres\/payments\/retention/,
    ['contracts/distributed', 'adapters/distributed-ledger', 'adapters/retention-ages'],
  ],
  [
    /^src\/stores\/postgres\/transactions\//,
    ['contracts/distributed', 'adapters/distributed-re', 'adapters/transaction-creations'],
  ],
  [/^src\/stores\/postgres\//, ['contracts/distributed']],
  [/^src\/stores\/redis\//, ['contracts/distributed', 'adapters/redis-keys']],
  [
    /^src\/stores\/embedded\/(payments\/(claims|ledger|refund)|file\/adoption)/,
    [
      'contracts/embedded',
      'adapters/embedded-b',
      'adapters/embedded-r',
      'adapters/declined-ages',
      'adapters/live-leases',
      'adapters/pending-rows',
    ],
  ],
  [/^src\/stores\/embedded\/payments\/settlement-read/, ['contracts/embedded']],
  [
    /^src\/stores\/embedded\/payments\/retention/,
    ['contracts/embedded', 'adapters/embedded', 'adapters/retention-ages'],
  ],
  [/^src\/stores\/embedded\//, ['contracts/embedded', 'adapters/embedded', 'adapters/transaction-creations']],
  [/^src\/payments\/processors\//, ['unit/processor-messages', 'unit/http-processor', 'http/processor-contracts']],
  [
    /^src\/payments\/(asking|cancel|execution|pay|pending|recovery|refund)\.ts$/,
    ['protocol/', 'unit/pending-looks', 'adapters/lost-attempts'],
  ],
  [
    /^src\/payments\/(history\/resolve|compare-with-kept)\.ts$/,
    ['protocol/resolution', 'protocol/lost-pending', 'adapters/lost-attempts', 'unit/compare-with-kept'],
  ],
  [/^src\/payments\//, ['protocol/', 'unit/']],
  [
    /^src\/http\/payments\/(named-payment|pay|payment-answers)\.ts$/,
    ['http/access.test', 'http/references', 'http/pending-', 'http/ending-payments'],
  ],
  [/^src\/http\//, ['http/access.test', 'http/references']],
  [/^src\/limits\//, ['unit/unpaid-keys', 'http/request-limit']],
  [/^src\/platform\/rereading/, ['unit/rereading', 'unit/setting-files']],
];

const roomOf = (file: string) => ROOMS.find(([pattern]) => pattern.test(file))?.[1] ?? [];

export const CHECKS: readonly Check[] = [
  { name: 'simulator payments', without: [CLIENT, ...MODELLED, /transaction/, /list/], run: simulator('payments') },
  {
    name: 'simulator transactions',
    without: [CLIENT, /payment/, /ledger/, /key-store/],
    run: simulator('transactions'),
  },
  { name: 'unit', without: [SIMULATOR], run: tests('test/unit/') },
  { name: 'client calls', without: SERVICE, run: tests('test/http/client-calls') },
  { name: 'protocol', without: [CLIENT, SIMULATOR], run: tests('test/protocol/') },
  {
    name: 'contracts embedded',
    without: [CLIENT, SIMULATOR, ...DISTRIBUTED, ...FEATURES],
    run: tests('test/contracts/embedded'),
  },
  {
    name: 'contracts distributed',
    without: [CLIENT, SIMULATOR, EMBEDDED, ...FEATURES],
    run: tests('test/contracts/distributed'),
  },
  { name: 'adapters', without: [CLIENT, SIMULATOR, ...FEATURES], run: tests('test/adapters/') },
  {
    name: 'room',
    without: [CLIENT, SIMULATOR, TRANSACTIONS],
    run: (workspace, _effort, { edits }) => {
      const files = new Set(edits.flatMap(({ file }) => roomOf(file)).map((name) => `test/${name}`));
      if (files.size === 0) throw new Error(`no room has ${edits.map(({ file }) => file)}`);
      return tests(...files)(workspace);
    },
  },
  { name: 'restores', without: [CLIENT, SIMULATOR], run: tests('test/proof/faults-restored') },
  { name: 'faults embedded', without: [CLIENT, SIMULATOR, ...DISTRIBUTED], run: faults('embedded') },
  { name: 'faults distributed', without: [CLIENT, SIMULATOR, EMBEDDED], run: faults('distributed') },
];

/**
 * The patterns that match none of these files, with the checks that have them. A check with one would count for mutants of files that it
 * does not run.
 */
export function patternsWithoutFile(files: readonly string[]): string[] {
  return CHECKS.flatMap(({ name, without }) =>
    without.filter((pattern) => !files.some((file) => pattern.test(file))).map((pattern) => `${name}: ${pattern}`),
  );
}

function simulator(environment: string): Check['run'] {
  return async (workspace, { seeds }) => {
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
  };
}

function tests(...files: readonly string[]): (workspace: Workspace) => Promise<Finding> {
  return async (workspace) => {
    let effort = 'the suite';
    // A test that fails once and not again, as on a busy machine, has not noticed the mutant.
    for (let tries = 0; tries < MOST_TRIES; tries += 1) {
      const failed = await firstFailed(workspace, ...files);
      if (!failed) break;
      const again = await firstFailed(workspace, failed.file);
      if (again) return { noticed: again.test, effort: 'the suite' };
      effort = `only once: ${failed.test}`;
    }
    return { noticed: undefined, effort };
  };
}

interface FileResult {
  readonly name: string;
  readonly status: string;
  /** Why the file itself failed: it could not be loaded, or one of its hooks failed. */
  readonly message: string;
  readonly assertionResults: readonly { readonly status: string; readonly fullName: string }[];
}

async function firstFailed(
  workspace: Workspace,
  ...files: string[]
): Promise<{ file: string; test: string } | undefined> {
  const report = join(workspace.temporary, 'report.json');
  const options = [
    '--reporter=json',
    `--outputFile=${report}`,
    '--bail=1',
    '--no-color',
    `--testTimeout=${patience(HANGS_MS)}`,
  ];
  const { code, output } = await workspace.run(
    ['node_modules/vitest/vitest.mjs', 'run', ...options, ...files],
    RUN_LIMIT_MS,
  );
  if (code === 0) return undefined;
  const results: FileResult[] = JSON.parse(readFileSync(report, 'utf8')).testResults;
  // The first failure ends the run, and a file that is being loaded then fails as well.
  const failedFirst = results.toSorted((one, other) => Number(hasFailed(other)) - Number(hasFailed(one)));
  for (const { name, status, message, assertionResults } of failedFirst) {
    if (status !== 'failed') continue;
    const file = relative(workspace.folder, name);
    // Such a mutant would be noticed by the compiler, or the test kit is broken.
    if (assertionResults.length === 0) throw new Error(`${file} could not be loaded: ${message}`);
    const failed = assertionResults.find((result) => result.status === 'failed');
    if (failed || message) return { file, test: failed?.fullName ?? `${file}: ${message.split('\n')[0]}` };
  }
  throw new Error(`the tests could not be run:\n${output}`);
}

const hasFailed = ({ assertionResults }: FileResult) => assertionResults.some(({ status }) => status === 'failed');

/** Violations that also a busy machine causes. */
const NO_PROMISES = ['nothing fails by itself', 'everything is back after healing'];

function faults(deployment: string): Check['run'] {
  return async (workspace, { sessions }) => {
    for (let session = 1; session <= sessions; session += 1) {
      const options = ['--deployment', deployment, '--minutes', `${SESSION_MINUTES}`, '--seed', `${session}`];
      const { code, output } = await workspace.run(['build/proof/faults/main.js', ...options], RUN_LIMIT_MS);
      if (code !== 0 && code !== 1) throw new Error(`the fault suite could not be run:\n${output}`);
      const violation = code === 1 && violationsIn(workspace, output).find(({ rule }) => !NO_PROMISES.includes(rule));
      if (violation) return { noticed: `${violation.rule}: ${violation.what}`, effort: count(session, 'session') };
    }
    return { noticed: undefined, effort: count(sessions, 'session') };
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
