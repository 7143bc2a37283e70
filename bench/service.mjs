// Starts and ends the servers that are measured.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { cpuTimeUs, deadline, watch } from './processes.mjs';
import { freePort } from './servers.mjs';

const REPOSITORY = fileURLToPath(new URL('../', import.meta.url));
const START_DEADLINE_MS = 20_000;
const POLL_MS = 50;

/**
 * @typedef {object} Server
 * @property {string} url
 * @property {number} pid
 * @property {() => number} cpuUs  CPU time of all its threads since it started
 * @property {Record<string, string>} [headers]  of every request
 * @property {() => Promise<void>} stop
 * @property {() => Promise<void>} kill  as a crash ends it
 */

/**
 * Starts a module of this repository, or of another one by its whole path, on a free port of 127.0.0.1 and waits until it
 * listens. It says so the way the service does: a line of JSON with `msg` "listening" and `port`.
 * @param {string} module  relative to the repository, or absolute
 * @param {Record<string, string>} environment
 * @returns {Promise<Server>}
 */
export function startServer(module, environment = {}) {
  return start(module, { HOST: '127.0.0.1', PORT: '0', ...environment }, (child) => listeningPort(child));
}

/** The processor that users have at first: it answers at once, and its log is on the disk before. @returns {Promise<Server>} */
export function startProcessor(chargeLog) {
  const environment = { PROCESSOR_HOST: '127.0.0.1', PROCESSOR_PORT: '0', CHARGE_LOG: chargeLog };
  return start('dist/reference-processor/main.js', environment, (child) => listeningPort(child));
}

/** A small server of `npm run peers`. It does not say when it listens, and ends by its signal. @returns {Promise<Server>} */
export async function startPeer(name, environment) {
  const port = await freePort();
  const module = `proof/peers/servers/${name}.mjs`;
  return start(module, { HOST: '127.0.0.1', PORT: String(port), ...environment }, () => untilConnected(port));
}

async function start(module, environment, portOf) {
  const entry = resolve(REPOSITORY, module);
  const child = spawn(process.execPath, [entry], {
    env: { PATH: process.env.PATH, ...environment },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = watch(child);
  const port = await Promise.race([
    portOf(child),
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
      if (code) throw new Error(`${module} ended with ${code}`);
    },
    kill: async () => {
      child.kill('SIGKILL');
      await ended;
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

/** @returns {Promise<number>} */
async function untilConnected(port) {
  for (;;) {
    const socket = connect({ host: '127.0.0.1', port });
    const isOpen = await once(socket, 'connect').then(
      () => true,
      () => false,
    );
    socket.destroy();
    if (isOpen) return port;
    await delay(POLL_MS);
  }
}
