// Runs wrk, the load generator: a process of its own, so that its CPU time is not counted as the service's.
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);
const SCRIPTS = fileURLToPath(new URL('./scripts/', import.meta.url));
/** One thread of wrk saturates the service from one core; more would only take the other core away from it. */
const THREADS = '1';

/**
 * @typedef {object} Load
 * @property {string} script  file in bench/scripts
 * @property {string[]} [args]  for the script
 * @property {string} [path]  for scripts that do not build their own requests
 * @property {Record<string, string>} [headers]
 *
 * @typedef {object} Result
 * @property {number} requests
 * @property {number} requestsPerSecond
 * @property {number} p50Ms
 * @property {number} p99Ms
 * @property {number} used  tokens that the script handed out or collected
 */

/** Throws a sentence when wrk is missing. */
export async function requireWrk() {
  try {
    // Without arguments wrk prints its usage and fails; only its absence is a problem.
    await run('wrk', ['-v']);
  } catch (cause) {
    if (cause.code !== 'ENOENT') return;
    throw new Error('The benchmark needs wrk on the PATH: apt-get install wrk', { cause });
  }
}

/**
 * One run against one server. Throws when any request failed: a rate of errors is no rate.
 * @param {string} url
 * @param {Load} load
 * @param {{ seconds: number, connections: number }} extent
 * @returns {Promise<Result>}
 */
export async function runWrk(url, { script, args = [], path = '/', headers = {} }, { seconds, connections }) {
  const headerOptions = Object.entries(headers).flatMap(([name, value]) => ['-H', `${name}: ${value}`]);
  const { stdout } = await run('wrk', [
    ...['-t', THREADS, '-c', String(connections), '-d', `${seconds}s`, '--timeout', '10s'],
    ...headerOptions,
    ...['-s', `${SCRIPTS}${script}`, `${url}${path}`],
    ...['--', ...args],
  ]);
  const line = /^BENCH (.*)$/m.exec(stdout)?.[1];
  if (!line) throw new Error(`wrk reported nothing:\n${stdout}`);
  const { requests, durationUs, p50Us, p99Us, used, errors } = JSON.parse(line);
  if (Object.values(errors).some((count) => count > 0)) {
    throw new Error(`requests failed in ${script} ${args.slice(0, 2).join(' ')}: ${JSON.stringify(errors)}`);
  }
  return {
    requests,
    requestsPerSecond: requests / (durationUs / 1e6),
    p50Ms: p50Us / 1000,
    p99Ms: p99Us / 1000,
    used,
  };
}
