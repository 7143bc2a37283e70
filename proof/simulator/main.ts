import { type EnvironmentName, environmentOf, environmentOfSeed } from './environments.js';
import { runPlan, runSeed } from './one-seed.js';
import { type Options, readOptions, USAGE } from './options.js';
import { Report } from './report.js';
import { shrink } from './shrink.js';
import { kindOf } from './violation-kinds.js';
import type { Failure } from './worker.js';
import { runInWorkers } from './workers.js';

/** Longer than a shortest plan usually takes; an endless search helps nobody. */
const SHRINK_LIMIT_MS = 60_000;
/** Failing seeds that are made shorter: the others are named. */
const MOST_SHRUNK = 3;
/** As a shell reports whoever ended by Ctrl-C. */
const INTERRUPTED = 130;
const SIGNALS = ['SIGINT', 'SIGTERM'] as const;

/** Exit code 1 when a seed has violations, 2 when the seeds could not be run, 130 when somebody stopped the run. */
async function main(): Promise<void> {
  let options: Options;
  try {
    options = readOptions(process.argv.slice(2));
  } catch (error) {
    console.error(`${(error as Error).message}\n${USAGE}`);
    process.exitCode = 2;
    return;
  }
  const { failures, isInterrupted } = options.trace ? await tell(options) : await runAll(options);
  for (const [index, failure] of failures.entries()) {
    const told = options.first ? failure.violations : failure.violations.slice(0, 1);
    if (index < MOST_SHRUNK && !options.first && !isInterrupted) await explain(failure);
    else console.log([...told.map((violation) => lineOf(failure, violation)), `  ${replayOf(failure)}`].join('\n'));
  }
  if (isInterrupted) process.exitCode = INTERRUPTED;
  else if (failures.length > 0) process.exitCode = 1;
}

interface Ended {
  readonly failures: readonly Failure[];
  readonly isInterrupted: boolean;
}

/** Until the end, or a signal: then what the workers have begun is ended, and told. */
async function runAll(options: Options): Promise<Ended> {
  const report = new Report(options.seeds, process.stderr);
  const stop = new AbortController();
  let isInterrupted = false;
  const interrupt = () => {
    isInterrupted = true;
    stop.abort();
  };
  for (const signal of SIGNALS) process.on(signal, interrupt);
  await runInWorkers(options, stop.signal, (result) => {
    report.add(result);
    if (options.first && report.failures.some(isAboutMoreThanFaults)) stop.abort();
  });
  for (const signal of SIGNALS) process.off(signal, interrupt);
  report.clearLine();
  console.log(report.summary());
  return { failures: report.failures, isInterrupted };
}

/** One seed after another, with everything that happens. */
async function tell({ from, seeds, environment: only }: Options): Promise<Ended> {
  const failures: Failure[] = [];
  for (let seed = from; seed < from + seeds; seed += 1) {
    const name: EnvironmentName = only ?? environmentOfSeed(seed);
    const environment = environmentOf(name);
    const { trace } = await runPlan(environment, environment.plan(seed), { trace: true });
    const { violations, steps } = await runSeed(environment, seed);
    console.log([`seed ${seed} (${name})`, ...trace, `${steps} steps, ${violations.length} violations`].join('\n'));
    if (violations.length > 0) failures.push({ environment: name, seed, violations });
  }
  return { failures, isInterrupted: false };
}

async function explain(failure: Failure): Promise<void> {
  const environment = environmentOf(failure.environment);
  console.log(`\nseed ${failure.seed} (${failure.environment}) breaks its promises:`);
  for (const violation of failure.violations) console.log(`  ${violation}`);
  const shortest = await shrink(environment, environment.plan(failure.seed), SHRINK_LIMIT_MS);
  const { trace, violations } = await runPlan(environment, shortest, { trace: true });
  console.log(`the shortest plan that was found:\n${JSON.stringify(shortest)}\nits history:`);
  for (const line of trace) console.log(line);
  for (const violation of violations) console.log(`  ${violation}`);
  console.log(`to see the whole history: ${replayOf(failure)}`);
}

/** An exception ends no search for a broken promise. */
function isAboutMoreThanFaults({ violations }: Failure): boolean {
  return violations.some((violation) => kindOf(violation) !== 'fault');
}

function lineOf({ seed, environment }: Failure, violation: string): string {
  return `seed ${seed} (${environment}): ${violation}`;
}

function replayOf({ seed, environment }: Failure): string {
  return `npm run simulate -- --seeds 1 --from ${seed} --environment ${environment} --trace`;
}

try {
  await main();
} catch (fault) {
  console.error(fault);
  process.exitCode = 2;
}
