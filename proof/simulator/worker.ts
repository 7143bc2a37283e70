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
  /** Undefined: each seed says which. */
  readonly environment: EnvironmentName | undefined;
}

/** Runs all seeds until it is stopped, in several threads. Rejects when a thread breaks down: that says nothing about the seeds. */
export async function runInWorkers(
  { workers, ...share }: Omit<Share, 'step'> & { readonly workers: number },
  stop: AbortSignal,
  onResult: (result: SeedResult) => void,
): Promise<void> {
  const threads = Array.from({ length: workers }, (_, index) => {
    const workerData: Share = { ...share, from: share.from + index, step: workers };
    return new Worker(new URL(import.meta.url), { workerData }).on('message', onResult);
  });
  const end = () => Promise.all(threads.map((thread) => thread.terminate()));
  stop.addEventListener('abort', end);
  await Promise.all(threads.map((thread) => once(thread, 'exit'))).finally(end);
}

async function runShare({ from, end, step, environment: only }: Share): Promise<void> {
  for (let seed = from; seed < end; seed += step) {
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
