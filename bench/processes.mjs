// What every process of the benchmark has in common: however the benchmark ends, nothing that it started goes on, and no
// folder of it is left.
import { once } from 'node:events';
import { readFileSync, rmSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Linux counts CPU time in hundredths of a second towards user space, whatever the kernel's own clock is. */
const TICK_US = 10_000;

/** @type {Map<import('node:child_process').ChildProcess, NodeJS.Signals>} */
const running = new Map();
/** @type {string[]} */
const folders = [];

process.on('exit', () => {
  for (const [child, lastSignal] of running) child.kill(lastSignal);
  for (const folder of folders) rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
});
for (const [signal, code] of /** @type {const} */ ([
  ['SIGINT', 130],
  ['SIGTERM', 143],
])) {
  process.once(signal, () => process.exit(code));
}

/** A folder that is gone when the benchmark is. */
export async function temporaryFolder() {
  const folder = await mkdtemp(join(tmpdir(), 'idempay-bench-'));
  folders.push(folder);
  return folder;
}

/**
 * Watches a child process. `lastSignal` ends it when the benchmark has no time to wait for it.
 * @param {import('node:child_process').ChildProcess} child
 * @param {NodeJS.Signals} lastSignal
 * @returns {Promise<number | null>} its exit code, when it has ended
 */
export function watch(child, lastSignal = 'SIGKILL') {
  running.set(child, lastSignal);
  return once(child, 'exit').then(([code]) => {
    running.delete(child);
    return code;
  });
}

/** CPU time of all threads of a process since it started, microseconds. */
export function cpuTimeUs(pid) {
  const { user, system } = timesOf(pid);
  return user + system;
}

/** The same with all children, living and ended: PostgreSQL is a process for each connection. */
export function familyCpuTimeUs(pid) {
  const { user, system, endedChildren } = timesOf(pid);
  const living = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean);
  return living.reduce((sum, child) => sum + cpuTimeOrZeroUs(child), user + system + endedChildren);
}

/** CPU time of the children of this process that have ended, microseconds: of every load generator, once its run is over. */
export function endedChildrenCpuTimeUs() {
  return timesOf('self').endedChildren;
}

/** A child that has ended since it was listed. */
function cpuTimeOrZeroUs(pid) {
  try {
    return cpuTimeUs(pid);
  } catch {
    return 0;
  }
}

/** Fields 14 to 17 of proc(5) `stat`; the process name before them may contain spaces, its closing bracket is the last. */
function timesOf(pid) {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const [user, system, childrenUser, childrenSystem] = fields.slice(11, 15).map((ticks) => Number(ticks) * TICK_US);
  return { user, system, endedChildren: childrenUser + childrenSystem };
}

/** Rejects with the sentence after `ms`. */
export function deadline(ms, sentence) {
  return new Promise((_, reject) => {
    setTimeout(() => reject(new Error(sentence)), ms).unref();
  });
}
