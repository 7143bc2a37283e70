// Starts and ends the processes that are measured, and reads what CPU time they have used.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const START_DEADLINE_MS = 20_000;
/** Linux counts CPU time in hundredths of a second towards user space, whatever the kernel's own clock is. */
const TICK_US = 10_000;

/** @type {Set<import('node:child_process').ChildProcess>} */
const running = new Set();
// However the benchmark ends, nothing that it started goes on.
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});
for (const [signal, code] of /** @type {const} */ ([
  ['SIGINT', 130],
  ['SIGTERM', 143],
])) {
  process.once(signal, () => process.exit(code));
}

/**
 * @typedef {object} Server
 * @property {string} url
 * @property {() => number} cpuUs  CPU time of all its threads since it started
 * @property {() => Promise<void>} stop
 */

/**
 * Starts a module of this repository on a free port of 127.0.0.1 and waits until it listens. It says so the way the
 * service does: a line of JSON with `msg` "listening" and `port`.
 * @param {string} module  relative to the repository
 * @param {Record<string, string>} environment
 * @returns {Promise<Server>}
 */
export async function startServer(module, environment = {}) {
  const entry = fileURLToPath(new URL(`../${module}`, import.meta.url));
  const child = spawn(process.execPath, [entry], {
    env: { PATH: process.env.PATH, HOST: '127.0.0.1', PORT: '0', ...environment },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  running.add(child);
  const ended = once(child, 'exit').then(([code]) => {
    running.delete(child);
    return code;
  });
  const port = await Promise.race([
    listeningPort(child),
    ended.then((code) => Promise.reject(new Error(`${module} ended with ${code} before it listened`))),
    deadline(START_DEADLINE_MS, `${module} did not listen in time`),
  ]);
  return {
    url: `http://127.0.0.1:${port}`,
    cpuUs: () => cpuTimeUs(child.pid),
    stop: async () => {
      child.kill('SIGTERM');
      const code = await ended;
      if (code !== 0) throw new Error(`${module} ended with ${code}`);
    },
  };
}

/** @returns {Promise<number>} */
function listeningPort(child) {
  return new Promise((resolve) => {
    createInterface({ input: child.stdout }).on('line', (line) => {
      if (!line.includes('"listening"')) return;
      resolve(JSON.parse(line).port);
    });
  });
}

/** Fields 14 and 15 of proc(5) `stat`; the process name before them may contain spaces, its closing bracket is the last. */
function cpuTimeUs(pid) {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) * TICK_US;
}

function deadline(ms, sentence) {
  return new Promise((_, reject) => {
    setTimeout(() => reject(new Error(sentence)), ms).unref();
  });
}
