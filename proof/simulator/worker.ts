import { once } from 'node:events';
import { parentPort, Worker, workerData } from 'node:worker_threads';
import { ENVIRONMENTS, type EnvironmentName, environmentOfSeed, type RunResult } from './environment.js';
import { runSeed } from './seeds.js';

export interface SeedResult extends Pick<RunResult, 'violations' | 'steps' | 'counts'> {
  readonly environment: EnvironmentName;
  readonly seed: number;
}

/** Some seeds to run: from `from`, each `step`-th one before `end`. */
interface Share {
  readonly from: number;
  readonly end: number;
  readonly step: number;
  /** The environment of every seed; if undefined, each seed decides its own. */
  readonly environment: EnvironmentName | undefined;
  /** Not 0: no further seed is begun. */
  readonly stopped: Int32Array;
}

/**
 * Runs all seeds until it is stopped, in several threads. Rejects when a thread breaks down: that says nothing about the seeds.
 * Each thread ends by itself, after the seed that it runs: to terminate one within a call of SQLite aborts the whole process.
 */
export async function runInWorkers(
  { workers, ...share }: Omit<Share, 'step' | 'stopped'> & { readonly workers: number },
  stop: AbortSignal,
  onResult: (result: SeedResult) => void,
): Promise<void> {
  const stopped = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
  const end = () => Atomics.store(stopped, 0, 1);
  const threads = Array.from({ length: workers }, (_, index) => {
    const workerData: Share = { ...share, from: share.from + index, step: workers, stopped };
    return new Worker(new URL(import.meta.url), { workerData }).on('message', onResult);
  });
  stop.addEventListener('abort', end);
  const ended = threads.map((thread) => {
    // One that breaks down ends the others; one that has no seeds left does not.
    thread.once('error', end);
    return once(thread, 'exit');
  });
  await Promise.allSettled(ended);
  await Promise.all(ended);
}

async function runShare({ from, end, step, environment: only, stopped }: Share): Promise<void> {
  for (let seed = from; seed < end && Atomics.load(stopped, 0) === 0; seed += step) {
    const environment = only ?? environmentOfSeed(seed);
    const { violations, steps, counts } = await runSeed(ENVIRONMENTS[environment](), seed);
    parentPort?.postMessage({ environment, seed, violations, steps, counts } satisfies SeedResult);
  }
}

const breakDown = (error: unknown) => {
  throw error;
};

// Not as a rejection, which would be taken for one of a seed's.
if (parentPort) runShare(workerData).catch((error: unknown) => process.nextTick(breakDown, error));
