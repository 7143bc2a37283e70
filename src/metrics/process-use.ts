import { readdirSync } from 'node:fs';
import type { Buckets } from '../platform/buckets.js';
import type { Exposition } from './exposition.js';

const DELAY_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];
/** Often enough that no delay that a client would notice is missed, seldom enough to cost nothing. */
const SAMPLE_EVERY_MS = 50;
const OPEN_FILES = '/proc/self/fd';

export interface ProcessUse {
  loopDelay(): Buckets;
  stop(): void;
}

/**
 * The process: the delay of its event loop, processor time, memory and open files. Not the library's own collection, whose
 * delays start anew with each scrape (two scrapers would take them from each other), and which cannot be ended.
 */
export function showProcess(exposition: Exposition, version: string, deployment: string): ProcessUse {
  exposition.gauge('idempay_build_info', 'Always 1; its labels say what runs.', () => [[{ version, deployment }, 1]]);
  exposition.gauge('idempay_process_start_time_seconds', 'When it started, since the Unix epoch.', () => [
    [{}, performance.timeOrigin / 1000],
  ]);
  exposition.counter('idempay_process_cpu_seconds_total', 'Processor time, of all its threads.', () => {
    const { user, system } = process.cpuUsage();
    return [[{}, (user + system) / 1_000_000]];
  });
  exposition.gauge('idempay_process_resident_memory_bytes', 'Memory that it holds.', () => [[{}, memoryBytes()]]);
  exposition.gauge('idempay_process_heap_used_bytes', 'Memory of objects, in use or not collected yet.', () => [
    [{}, process.memoryUsage().heapUsed],
  ]);
  exposition.gauge('idempay_process_open_fds', 'Open files and connections; only where the system tells.', () => {
    const count = openFiles();
    return count === undefined ? [] : [[{}, count]];
  });
  return sampleDelays(exposition);
}

export const memoryBytes = () => process.memoryUsage.rss();

function sampleDelays(exposition: Exposition): ProcessUse {
  const delays = exposition.histogram(
    'idempay_event_loop_delay_seconds',
    `How late the event loop was, asked every ${SAMPLE_EVERY_MS} ms.`,
    DELAY_SECONDS,
  );
  const delayed = delays.of();
  let dueAt = performance.now() + SAMPLE_EVERY_MS;
  const timer = setInterval(() => {
    const now = performance.now();
    delayed(Math.max(0, now - dueAt) / 1000);
    dueAt = now + SAMPLE_EVERY_MS;
  }, SAMPLE_EVERY_MS).unref();
  return { loopDelay: () => delays.buckets({}), stop: () => clearInterval(timer) };
}

function openFiles(): number | undefined {
  try {
    // Reading the folder opens one.
    return readdirSync(OPEN_FILES).length - 1;
  } catch {
    return undefined;
  }
}
