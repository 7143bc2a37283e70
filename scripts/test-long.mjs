// The checks that take minutes: `npm run test:long` runs all of them, one after the other.
//   npm run test:long -- files [FILE ...]          the project `long` of vitest.config.ts, or some of its files
//   npm run test:long -- faults [OPTION ...]       minutes of random faults on each deployment (`npm run proof -- faults`)
//   npm run test:long -- topologies [NAME ...]     see test-topologies.mjs
//   npm run test:long -- fuzz                      50,000 good and broken requests to each deployment, against the description (FUZZ_REQUESTS, FUZZ_SEED),
//                                                  10,000 bodies of each kind to schema and judge (DESCRIBED_BODIES), and all generated
//                                                  cases of which `npm test` tries a quarter (CASES=all)
//   npm run test:long -- node24 [FILE ...]         the tests of `npm test` on Node.js 24, or some files of any project
//   npm run test:long -- mutants [TEXT ...]        a sample of the mutants, or those with such a name, against the checks without faults; and
//                                                  a mistake in each condition on a client, a time or an incarnation, against the tests nearest to it
//   npm run test:long -- bench                     every command of the benchmark, each row for a second: that it works, not how fast
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const VITEST = 'node_modules/vitest/vitest.mjs';
/** Fewer at a time than `npm test`: some measure how fast a service answers. */
const LONG_FILES = [process.execPath, VITEST, 'run', '--project', 'long', '--maxWorkers=3'];
/** They need both cores to attack a service with, and to be answered. */
const ALONE = ['test/faults/attacks.test.ts', 'test/faults/attacks-of-strangers.test.ts'];
const GENERATED = [
  'test/http/client-gateway',
  ...['test/http/fuzz', 'test/http/payment-body', 'test/unit/described-bodies', 'test/unit/client/gateway'],
  ...[
    'test/commands/pay-gateway',
    'test/commands/reconcile',
    'test/unit/statements/generated',
    'test/unit/import/generated-files',
  ],
];
const OF_NPM_TEST = ['--project', 'unit', '--project', 'fast'];
const NODE_24 = ['--yes', '--package=node@24.21.0', '--', 'node'];
/** One for each kind of promise; each is noticed within seconds. */
const MUTANTS = [
  'answer before commit',
  'takeover without look-up',
  'settle without epoch, in PostgreSQL',
  'unlock without token, in Redis',
  'no write mark, in memory',
  'fill without token, in Redis',
];
const PROOF = ['npm', 'run', '--silent', 'proof', '--'];
/** The commands of each part. */
const PARTS = {
  files: (names) =>
    names.length > 0
      ? [[...LONG_FILES, ...names]]
      : [
          [...LONG_FILES, ...ALONE.flatMap((file) => ['--exclude', file])],
          ...ALONE.map((file) => [...LONG_FILES, file]),
        ],
  faults: (options) =>
    ['embedded', 'distributed'].map((deployment) => [
      ...PROOF,
      'faults',
      '--minutes',
      '3',
      '--deployment',
      deployment,
      ...options,
    ]),
  topologies: (names) => [[process.execPath, 'scripts/test-topologies.mjs', ...names]],
  fuzz: () => [[process.execPath, VITEST, 'run', ...GENERATED]],
  node24: (names) => [['npx', ...NODE_24, VITEST, 'run', ...(names.length > 0 ? names : OF_NPM_TEST)]],
  mutants: (names) => [
    [...PROOF, 'mutants', ...(names.length > 0 ? names : MUTANTS).flatMap((name) => ['--only', name])],
    ...(names.length > 0 ? [] : [[...PROOF, 'mutants', '--only', 'condition: ', '--checks', 'room']]),
  ],
  bench: () =>
    [
      ['embedded'],
      ['distributed'],
      ['latency', 'embedded'],
      ['latency', 'distributed'],
      ['tail', 'embedded'],
      ['tail', 'distributed'],
      ['pending', 'embedded', '200', '50'],
      ['pending', 'distributed', '200', '50'],
      ['feed', 'embedded', '2000', '50'],
      ['feed', 'distributed', '2000', '50'],
      ['soak'],
      ['growth', 'embedded', '2000'],
      ['growth', 'distributed', '2000'],
      ['order-index', '2000'],
      ['scaling', 'embedded'],
      ['scaling', '2', '2'],
    ].map((run) => ['npm', 'run', '--silent', 'bench', '--', ...run]),
};
/** The settings of a part, unless the caller sets something else. */
const COUNTS = { fuzz: { FUZZ_REQUESTS: '50000', DESCRIBED_BODIES: '10000', CASES: 'all' } };
/** The shortest runs show that the benchmark works. */
const BRIEF = { BENCH_SECONDS: '1', BENCH_ROUNDS: '1', SOAK_MINUTES: '1', SCALING_OPERATIONS: '1000' };

const [asked, ...names] = process.argv.slice(2);
if (asked !== undefined && !(asked in PARTS)) {
  console.error(`There is no part "${asked}". Name one of: ${Object.keys(PARTS).join(', ')}.`);
  process.exit(1);
}
const failed = [];
for (const part of asked === undefined ? Object.keys(PARTS) : [asked]) {
  console.log(`\n=== ${part}`);
  if (
    !PARTS[part](names)
      .map((command) => run(command, COUNTS[part]))
      .every(Boolean)
  )
    failed.push(part);
}
if (failed.length > 0) {
  console.error(`failed: ${failed.join(', ')}`);
  process.exit(1);
}

function run([command, ...parameters], counts = {}) {
  return (
    spawnSync(command, parameters, { cwd: root, stdio: 'inherit', env: { ...counts, ...process.env, ...BRIEF } })
      .status === 0
  );
}
