import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { ENVIRONMENTS, type EnvironmentName, environmentOfSeed } from './environment.js';
import { runPlan, runSeed, shrink } from './seeds.js';
import { kindOf } from './violation-kinds.js';
import { runInWorkers, type SeedResult } from './worker.js';

/** Longer than a shortest plan usually takes; an endless search helps nobody. */
const MOST_SHRINK_RUNS = 10_000;
/** Failing seeds that are made shorter: the others are named. */
const MOST_SHRUNK = 3;
/** The exit code of a process that Ctrl-C ended. */
const INTERRUPTED = 130;
const PROGRESS_EVERY_MS = 15_000;
const NAMES = Object.keys(ENVIRONMENTS) as EnvironmentName[];
/** `--first` ends with the first seed that breaks a promise or a store's rule, tells all that it breaks, and looks for no shorter one. */
const USAGE = `npm run proof -- simulate [--seeds N] [--from S] [--environment ${NAMES.join('|')}] [--workers N] [--trace] [--first]`;

function readOptions() {
  const { values } = parseArgs({
    options: {
      seeds: { type: 'string', default: '500' },
      from: { type: 'string', default: '0' },
      environment: { type: 'string' },
      workers: { type: 'string', default: String(availableParallelism()) },
      trace: { type: 'boolean', default: false },
      first: { type: 'boolean', default: false },
    },
  });
  const number = (name: 'seeds' | 'from' | 'workers', least: number) => {
    const given = Number(values[name]);
    if (Number.isSafeInteger(given) && given >= least) return given;
    throw new Error(`--${name} must be a whole number from ${least}`);
  };
  const environment = NAMES.find((name) => name === values.environment);
  if (values.environment !== environment) throw new Error(`--environment must be one of ${NAMES.join(', ')}`);
  const from = number('from', 0);
  return { ...values, environment, from, end: from + number('seeds', 1), workers: number('workers', 1) };
}

type Options = ReturnType<typeof readOptions>;
type Failure = Pick<SeedResult, 'environment' | 'seed' | 'violations'>;

/** Exit code 1 when a seed has violations, 2 when the seeds could not be run, 130 when somebody stopped the run. */
async function main(options: Options): Promise<void> {
  const failures = options.trace ? await tell(options) : await runAll(options);
  if (failures.length > 0) process.exitCode ??= 1;
  for (const [index, { environment, seed, violations }] of failures.entries()) {
    const told = options.first ? violations : violations.slice(0, 1);
    for (const violation of told) console.log(`seed ${seed} (${environment}): ${violation}`);
    if (index < MOST_SHRUNK && !options.first && process.exitCode !== INTERRUPTED) await explain(environment, seed);
    console.log(`  npm run proof -- simulate --seeds 1 --from ${seed} --environment ${environment} --trace`);
  }
}

/** Until the end, or a signal: then what was run until then is told. */
async function runAll(options: Options): Promise<readonly Failure[]> {
  const beganAt = performance.now();
  const failures: Failure[] = [];
  const counts = new Map<string, number>();
  let [seeds, steps] = [0, 0];
  const soFar = () => {
    const rate = ((seeds * 1000) / (performance.now() - beganAt)).toFixed(1);
    return `${seeds} of ${options.end - options.from} seeds, every tenth run twice, ${rate} a second`;
  };
  const progress = setInterval(() => console.error(soFar()), PROGRESS_EVERY_MS);
  const stop = new AbortController();
  const interrupt = () => {
    process.exitCode = INTERRUPTED;
    stop.abort();
  };
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, interrupt);
  await runInWorkers(options, stop.signal, ({ environment, seed, violations, ...result }) => {
    seeds += 1;
    steps += result.steps;
    for (const [event, times] of result.counts) {
      const what = `${environment}: ${event}`;
      counts.set(what, (counts.get(what) ?? 0) + times);
    }
    if (violations.length === 0) return;
    failures.push({ environment, seed, violations });
    // At once: a long run need not end to be looked at.
    console.error(`seed ${seed} (${environment}): ${violations[0]}`);
    // An exception ends no search for a broken promise.
    if (options.first && violations.some((violation) => kindOf(violation) !== 'fault')) stop.abort();
  }).finally(() => clearInterval(progress));
  const counted = [...counts].map(([what, times]) => `  ${what.padEnd(50)}${String(times).padStart(12)}`).sort();
  const lines = [soFar(), `${steps} steps in one run of each seed`, ...counted];
  console.log([...lines, `${failures.length} seeds with violations`].join('\n'));
  return failures;
}

async function tell({ from, end, environment: only }: Options): Promise<readonly Failure[]> {
  const failures: Failure[] = [];
  for (let seed = from; seed < end; seed += 1) {
    const environment = only ?? environmentOfSeed(seed);
    const run = ENVIRONMENTS[environment]();
    const { trace } = await runPlan(run, run.plan(seed), true);
    const { steps, violations } = await runSeed(run, seed);
    const end = `${steps} steps, ${violations.length} violations`;
    console.log([`seed ${seed} (${environment})`, ...trace, end].join('\n'));
    if (violations.length > 0) failures.push({ environment, seed, violations });
  }
  return failures;
}

async function explain(name: EnvironmentName, seed: number): Promise<void> {
  const environment = ENVIRONMENTS[name]();
  const shortest = await shrink(environment, environment.plan(seed), MOST_SHRINK_RUNS);
  const { trace, violations } = await runPlan(environment, shortest, true);
  const plan = `the shortest plan that was found:\n${JSON.stringify(shortest)}\nits history:`;
  console.log([plan, ...trace, ...violations.map((violation) => `  ${violation}`)].join('\n'));
}

let options: Options | undefined;
try {
  options = readOptions();
  await main(options);
} catch (fault) {
  console.error(options ? fault : `${(fault as Error).message}\n${USAGE}`);
  process.exitCode = 2;
}
