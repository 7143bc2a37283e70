import { fork, spawnSync } from 'node:child_process';
import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import type { Violation } from '../../testkit/history/history.js';
import { DEPLOYMENT_NAMES, type DeploymentName } from './environment.js';
import { runFaults } from './run.js';
import { emptyTally, faultsOf, sigkillsOf, tableOf } from './tally.js';

const USAGE = `npm run proof -- faults [options]
  --deployment embedded|distributed   what is put through it (embedded)
  --minutes M                         how long, from 0.2 to 10,000 (5)
  --seed N                            a whole number: makes the choices of an earlier run again`;

/** Results belong to the machine that ran the suite, so Git ignores this folder. */
const FOLDER = join('proof', 'results');
const LINE_EVERY_MS = 10_000;
/** Violations of one failure are many and alike: the first few tell which. */
const SHOWN_VIOLATIONS = 10;
const LONGEST_HISTORY = 4_000;

/** The fault suite. Exit code 1 when a promise was broken, 2 when it could not be run. */
async function suite(): Promise<void> {
  const { deployment, minutes, seed } = readOptions();
  const startedAt = new Date();
  const stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => stop.abort());
  // The parent process is gone, so nothing could stop this one.
  process.on('disconnect', () => stop.abort());
  console.log(`${deployment}, ${minutes} minutes, --seed ${seed}`);

  const tally = emptyTally();
  const progress = setInterval(() => {
    const goneMinutes = ((Date.now() - startedAt.getTime()) / 60_000).toFixed(1);
    const counts = `${tally.sessions} sessions, ${faultsOf(tally)} faults, ${sigkillsOf(tally)} kills`;
    console.log(`${goneMinutes} of ${minutes} minutes: ${counts}`);
  }, LINE_EVERY_MS);
  const isEnough = () => stop.signal.aborted;
  const options = { deployment, totalMs: minutes * 60_000, seed, isEnough, tally };
  const { violations } = await runFaults(options).finally(() => clearInterval(progress));
  console.log(tableOf(tally));
  if (isEnough()) console.log(`interrupted; --seed ${seed + tally.sessions} goes on`);

  mkdirSync(FOLDER, { recursive: true });
  const results = join(FOLDER, 'faults.ndjson');
  const complete = !isEnough() && violations.length === 0;
  const commit = spawnSync('git', ['describe', '--always', '--dirty'], { encoding: 'utf8' }).stdout?.trim();
  const { version: node } = process;
  const line = { deployment, seed, minutes, startedAt, tally, endedAt: new Date(), complete, commit, node };
  appendFileSync(results, `${JSON.stringify(line)}\n`);
  console.log(`appended to ${results}`);
  if (violations.length > 0) report(violations, `violations-${deployment}-${seed}-${Date.now()}.ndjson`);
}

/** Throws the usage. */
function readOptions(): { deployment: DeploymentName; minutes: number; seed: number } {
  const { values } = parseArgs({
    options: {
      deployment: { type: 'string', default: 'embedded' },
      minutes: { type: 'string', default: '5' },
      seed: { type: 'string', default: `${Math.floor(Math.random() * 2 ** 31)}` },
    },
  });
  const deployment = DEPLOYMENT_NAMES.find((name) => name === values.deployment);
  const [minutes, seed] = [Number(values.minutes), Number(values.seed)];
  const isRight = minutes >= 0.2 && minutes <= 10_000 && Number.isSafeInteger(seed) && seed >= 0;
  if (!deployment || !isRight) throw new Error(USAGE);
  return { deployment, minutes, seed };
}

/** The first violations, and all of them with their whole histories in a file. */
function report(violations: readonly Violation[], name: string): void {
  const file = join(FOLDER, name);
  writeFileSync(file, violations.map((violation) => `${JSON.stringify(violation)}\n`).join(''));
  for (const { rule, subject, what, history } of violations.slice(0, SHOWN_VIOLATIONS)) {
    console.log(`\nVIOLATED: ${rule}\n  ${subject}: ${what}`);
    for (const entry of history) console.log(`  ${JSON.stringify(entry).slice(0, LONGEST_HISTORY)}`);
  }
  console.log(`\n${violations.length} violations, with their histories in ${file}`);
  process.exitCode = 1;
}

if (process.connected) {
  await suite().catch((fault) => {
    console.error(fault);
    process.exitCode = 2;
  });
  // The channel to the parent process would keep this process alive.
  if (process.connected) process.disconnect();
} else {
  // A terminal sends its Ctrl-C to a whole group of processes, and it must end none of the services and servers of a run. They are in a
  // session of their own, with the suite, which is asked to end by itself.
  const running = fork(fileURLToPath(import.meta.url), process.argv.slice(2), { detached: true });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => running.kill('SIGINT'));
  running.once('exit', (code) => process.exit(code ?? 1));
}
