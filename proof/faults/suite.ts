import type { Violation } from '../../testkit/history/history.js';
import { type Options, readOptions, USAGE } from './options.js';
import { Progress } from './progress.js';
import { appendResult, type RunRecord, readState, removeState, saveState, writeViolations } from './results.js';
import { runFaults } from './run.js';
import { emptyTally, tableOf } from './tally.js';

/** Violations of one failure are many and alike: the first few tell which. */
const SHOWN_VIOLATIONS = 10;
const LONGEST_HISTORY = 4_000;

/** The fault suite. Exit code 1 when a promise was broken, 2 when it could not be run. */
const options = optionsOrUsage();
if (options) {
  try {
    process.exitCode = await run(options);
  } catch (fault) {
    console.error(fault instanceof Error ? (fault.stack ?? fault.message) : fault);
    process.exitCode = 2;
  }
}
// The channel to whoever started us would keep us alive.
if (process.connected) process.disconnect();

function optionsOrUsage(): Options | undefined {
  try {
    return readOptions(process.argv.slice(2));
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${USAGE}`);
    process.exitCode = 2;
    return undefined;
  }
}

async function run(options: Options): Promise<number> {
  const record = recordOf(options);
  const { deployment, seed, minutes, tally } = record;
  const totalMs = minutes * 60_000;
  const stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => stop.abort());
  // Whoever started us is gone, and nobody could stop us any more.
  process.on('disconnect', () => stop.abort());
  console.log(`${deployment}, ${minutes} minutes, --seed ${seed}${tally.sessions > 0 ? ', gone on with' : ''}`);

  const progress = new Progress(totalMs, tally.elapsedMs);
  const { violations } = await runFaults({
    deployment,
    totalMs,
    seed,
    stop: stop.signal,
    tally,
    onProgress: () => progress.show(tally),
    onSession: () => saveState(record),
  });
  progress.end();
  const complete = !stop.signal.aborted && violations.length === 0;
  if (!stop.signal.aborted) removeState(deployment);
  console.log(tableOf(tally));
  if (stop.signal.aborted) console.log('interrupted; --resume goes on');
  console.log(`appended to ${appendResult(record, complete)}`);
  if (violations.length > 0) show(record, violations);
  return violations.length > 0 ? 1 : 0;
}

function recordOf({ deployment, totalMs, seed, resume }: Options): RunRecord {
  if (resume) {
    const state = readState(deployment);
    if (!state) throw new Error(`there is no interrupted run of the ${deployment} deployment to go on with`);
    return state;
  }
  return {
    deployment,
    seed: seed ?? Math.floor(Math.random() * 2 ** 31),
    minutes: totalMs / 60_000,
    startedAt: new Date().toISOString(),
    tally: emptyTally(),
  };
}

function show(record: RunRecord, violations: readonly Violation[]): void {
  for (const { rule, subject, what, history } of violations.slice(0, SHOWN_VIOLATIONS)) {
    console.log(`\nVIOLATED: ${rule}\n  ${subject}: ${what}`);
    for (const entry of history) console.log(`  ${JSON.stringify(entry).slice(0, LONGEST_HISTORY)}`);
  }
  console.log(`\n${violations.length} violations, with their histories in ${writeViolations(record, violations)}`);
}
