import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { ENVIRONMENTS, type EnvironmentName, environmentOfSeed } from './environment.js';
import { runPlan, runSeed, shrink } from './seeds.js';
import { kindOf } from './violation-kinds.js';
import { runInWorkers, type SeedResult } from './worker.js';

/** Longer than a shortest plan usually takes; an endless search helps nobody. */
const SHRINK_LIMIT_MS = 60_000;
/** Failing seeds that are made shorter: the others are named. */
const MOST_SHRUNK = 3;
/** As a shell reports whoever ended by Ctrl-C. */
const INTERRUPTED = 130;
const LINE_EVERY_MS = 15_000;
const NAMES = Object.keys(ENVIRONMENTS) as EnvironmentName[];
/** `--first` ends with the first seed that breaks a promise or a store's rule, tells all that it breaks, and looks for no shorter one. */
const USAGE = `npm run simulate -- [--seeds N] [--from S] [--environment ${NAMES.join('|')}] [--workers N] [--trace] [--first]`;

/** Throws with a sentence for whoever typed it. */
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
  const environment = NAMES.find((name) => name === values.environment);
  if (values.environment !== environment) throw new Error(`--environment must be one of ${NAMES.join(', ')}`);
  const [seeds, from, workers] = (['seeds', 'from', 'workers'] as const).map((name) => {
    const least = name === 'from' ? 0 : 1;
    const number = Number(values[name]);
    if (Number.isSafeInteger(number) && number >= least) return number;
    throw new Error(`--${name} must be a whole number from ${least}`);
  }) as [number, number, number];
  return { from, end: from + seeds, workers, environment, trace: values.trace, first: values.first };
}

type Options = ReturnType<typeof readOptions>;

/** Exit code 1 when a seed has violations, 2 when the seeds could not be run, 130 when somebody stopped the run. */
async function main(options: Options): Promise<void> {
  const failures = options.trace ? await tell(options) : await runAll(options);
  if (failures.length > 0) process.exitCode ??= 1;
  for (const [index, failure] of failures.entries()) {
    const told = options.first ? failure.violations : failure.violations.slice(0, 1);
    if (index < MOST_SHRUNK && !options.first && process.exitCode !== INTERRUPTED) await explain(failure);
    else for (const violation of told) console.log(`seed ${failure.seed} (${failure.environment}): ${violation}`);
    console.log(`to see the whole history: ${replayOf(failure)}`);
  }
}

/** Until the end, or a signal: then what was run until then is told. */
async function runAll(options: Options): Promise<readonly SeedResult[]> {
  const report = new Report(options.end - options.from);
  const stop = new AbortController();
  const interrupt = () => {
    process.exitCode = INTERRUPTED;
    stop.abort();
  };
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, interrupt);
  await runInWorkers(options, stop.signal, (result) => {
    report.add(result);
    // An exception ends no search for a broken promise.
    if (options.first && result.violations.some((violation) => kindOf(violation) !== 'fault')) stop.abort();
  });
  console.log(report.summary());
  return report.failures;
}

/** One seed after another, with everything that happens. */
async function tell({ from, end, environment: only }: Options): Promise<readonly SeedResult[]> {
  const failures: SeedResult[] = [];
  for (let seed = from; seed < end; seed += 1) {
    const name = only ?? environmentOfSeed(seed);
    const environment = ENVIRONMENTS[name]();
    const { trace } = await runPlan(environment, environment.plan(seed), true);
    const result = await runSeed(environment, seed);
    const { steps, violations } = result;
    console.log([`seed ${seed} (${name})`, ...trace, `${steps} steps, ${violations.length} violations`].join('\n'));
    if (violations.length > 0) failures.push({ ...result, environment: name, seed });
  }
  return failures;
}

async function explain({ seed, environment: name, violations: told }: SeedResult): Promise<void> {
  const environment = ENVIRONMENTS[name]();
  const indented = (violations: readonly string[]) => violations.map((violation) => `  ${violation}`);
  console.log([`\nseed ${seed} (${name}) breaks its promises:`, ...indented(told)].join('\n'));
  const shortest = await shrink(environment, environment.plan(seed), SHRINK_LIMIT_MS);
  const { trace, violations } = await runPlan(environment, shortest, true);
  const lines = [`the shortest plan that was found:\n${JSON.stringify(shortest)}\nits history:`, ...trace];
  console.log([...lines, ...indented(violations)].join('\n'));
}

function replayOf({ seed, environment }: SeedResult): string {
  return `npm run simulate -- --seeds 1 --from ${seed} --environment ${environment} --trace`;
}

/** What all seeds came to so far, and how fast. */
class Report {
  readonly failures: SeedResult[] = [];
  private readonly beganAt = performance.now();
  private readonly counts = new Map<string, number>();
  private seeds = 0;
  private steps = 0;
  private toldAt = this.beganAt;

  constructor(private readonly planned: number) {}

  add(result: SeedResult): void {
    const { environment, seed, violations, steps, counts } = result;
    this.seeds += 1;
    this.steps += steps;
    for (const [what, times] of counts) {
      const counted = `${environment}: ${what}`;
      this.counts.set(counted, (this.counts.get(counted) ?? 0) + times);
    }
    if (violations.length > 0) {
      this.failures.push(result);
      // At once: a long run need not end to be looked at.
      console.error(`seed ${seed} (${environment}): ${violations[0]}`);
    }
    if (performance.now() - this.toldAt < LINE_EVERY_MS) return;
    this.toldAt = performance.now();
    const left = ((this.planned - this.seeds) / this.rate()).toFixed(0);
    console.error(`${this.seeds} of ${this.planned} seeds, ${left} s left, ${this.failures.length} with violations`);
  }

  summary(): string {
    return [
      `${this.seeds} seeds, every tenth run twice: ${this.rate().toFixed(1)} seeds a second`,
      `${this.steps} steps in one run of each seed`,
      ...[...this.counts].map(([what, times]) => `  ${what.padEnd(50)}${String(times).padStart(12)}`).sort(),
      `${this.failures.length} seeds with violations`,
    ].join('\n');
  }

  private rate(): number {
    return (this.seeds * 1000) / (performance.now() - this.beganAt);
  }
}

let options: Options | undefined;
try {
  options = readOptions();
  await main(options);
} catch (fault) {
  console.error(options ? fault : `${(fault as Error).message}\n${USAGE}`);
  process.exitCode = 2;
}
