// Starts and ends the servers that are measured.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { cpuTimeUs, deadline, watch } from './processes.mjs';

const START_DEADLINE_MS = 20_000;

/**
 * @typedef {object} Server
 * @property {string} url
 * @property {() => number} cpuUs  CPU time of all its threads since it started
 * @property {Record<string, string>} [headers]  of every request
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
  const ended = watch(child);
  const port = await Promise.race([
    listeningPort(child),
    ended.then((code) => Promise.reject(new Error(`${module} ended with ${code} before it listened`))),
    deadline(START_DEADLINE_MS, `${module} did not listen in time`),
  ]);
  return {
    url: `http://127.0.0.1:${port}`,
    pid: child.pid,
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
