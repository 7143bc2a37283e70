// Files of results: one for each run, not in the repository. `npm run bench -- document` reads them.
import { execFile } from 'node:child_process';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { availableParallelism, cpus } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { DEPLOYMENTS } from './options.mjs';

const run = promisify(execFile);
const RESULTS = fileURLToPath(new URL('./results/', import.meta.url));
const IMAGES = fileURLToPath(new URL('../docs/images/', import.meta.url));
const SCRIPTS = fileURLToPath(new URL('./scripts/', import.meta.url));

/**
 * @typedef {object} Run
 * @property {'rates' | 'latency' | 'trickle' | 'overload' | 'soak'} kind
 * @property {'embedded' | 'distributed'} deployment
 * @property {object[]} rows  each with a `name`, `measuredAt`, and whatever its kind has
 */

/**
 * May be called after each row, so that a run that is cut short leaves what it has measured.
 * @param {Run & { startedAt?: Date }} run
 * @returns {Promise<string>} the file, relative to the repository
 */
export async function writeResults({ kind, deployment, rows, startedAt = new Date() }) {
  await mkdir(RESULTS, { recursive: true });
  const name = `${startedAt.toISOString().replaceAll(':', '-')}-${kind}-${deployment}.json`;
  const machine = { node: process.version, processor: cpus()[0]?.model, processors: availableParallelism() };
  await writeFile(join(RESULTS, name), `${JSON.stringify({ kind, deployment, startedAt, machine, rows }, null, 2)}\n`);
  return join('bench', 'results', name);
}

/**
 * The newest result of each row of each deployment: a run may be made in pieces.
 * @param {(row: object) => boolean} isWhole  a row that was tried for a second does not count
 * @returns {Promise<Run[]>} at most one for each deployment
 */
export async function newestResults(kind, isWhole = () => true) {
  const found = await readdir(RESULTS).catch(() => []);
  const byDeployment = new Map();
  for (const name of found.filter((each) => each.endsWith('.json')).toSorted()) {
    const result = JSON.parse(await readFile(join(RESULTS, name), 'utf8'));
    if (result.kind !== kind) continue;
    const run = byDeployment.get(result.deployment) ?? { ...result, rows: [] };
    // A newer row takes the place of the older one.
    const rows = new Map([...run.rows, ...result.rows.filter(isWhole)].map((row) => [row.name, row]));
    byDeployment.set(result.deployment, { ...run, machine: result.machine, rows: Array.from(rows.values()) });
  }
  const runs = DEPLOYMENTS.map((deployment) => byDeployment.get(deployment));
  return runs.filter((each) => each && each.rows.length > 0);
}

/** Throws a sentence when gnuplot is missing. */
export async function requireGnuplot() {
  await run('gnuplot', ['--version']).catch((cause) => {
    throw new Error('The plots need gnuplot on the PATH: apt-get install gnuplot-nox', { cause });
  });
}

/**
 * Draws an image of docs/images, or of bench/results where it is only a trial.
 * @param {string} script  file in bench/scripts; it is given `table` and `image`, and the variables
 * @param {string} image  name without `.svg`
 * @param {(string | number)[][]} lines  the first one names the columns
 */
export async function draw(script, image, lines, variables = {}, isTrial = false) {
  await mkdir(RESULTS, { recursive: true });
  await mkdir(IMAGES, { recursive: true });
  const table = join(RESULTS, `${image}.dat`);
  const [head, ...rest] = lines;
  await writeFile(table, `# ${head.join(' ')}\n${rest.map((line) => line.join(' ')).join('\n')}\n`);
  const all = { table, image: join(isTrial ? RESULTS : IMAGES, `${image}.svg`), ...variables };
  const assignments = Object.entries(all).map(([name, value]) => `${name}='${value}'`);
  await run('gnuplot', ['-e', assignments.join('; '), join(SCRIPTS, script)]);
}
