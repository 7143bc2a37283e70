import { readFileSync } from 'node:fs';

/** Linux counts CPU time in hundredths of a second towards user space, whatever the kernel's own clock is. */
const TICK_US = 10_000;

/** CPU time of all threads of a process since it started, microseconds. */
export function cpuTimeUs(pid: number): number {
  const { user, system } = timesOf(pid);
  return user + system;
}

/** The same with all children, living and ended: PostgreSQL is a process for each connection. */
export function familyCpuTimeUs(pid: number): number {
  const { user, system, endedChildren } = timesOf(pid);
  const living = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean);
  return living.reduce((sum, child) => sum + cpuTimeOrZeroUs(Number(child)), user + system + endedChildren);
}

/** CPU time of the children of this process that have ended, microseconds: of every load generator, once its run is over. */
export function endedChildrenCpuTimeUs(): number {
  return timesOf('self').endedChildren;
}

/** A child may have ended since it was listed. */
function cpuTimeOrZeroUs(pid: number): number {
  try {
    return cpuTimeUs(pid);
  } catch {
    return 0;
  }
}

/** Fields 14 to 17 of proc(5) `stat`; the process name before them may contain spaces, its closing bracket is the last. */
function timesOf(pid: number | 'self') {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const [user = 0, system = 0, childrenUser = 0, childrenSystem = 0] = fields
    .slice(11, 15)
    .map((ticks) => Number(ticks) * TICK_US);
  return { user, system, endedChildren: childrenUser + childrenSystem };
}

/** Field `VmRSS` of proc(5) `status`. */
export function residentMbOf(pid: number): number {
  const [, kilobytes = '0'] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Number(kilobytes) / 1024;
}
