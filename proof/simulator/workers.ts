import { Worker } from 'node:worker_threads';
import type { Options } from './options.js';
import type { Chunk, ChunkResult } from './worker.js';

/** A fraction of a second each, so that all workers end at nearly the same time. */
const SEEDS_OF_A_CHUNK = 20;

/** Runs all seeds until it is stopped, some at a time in each worker; `onResult` hears of each chunk. */
export async function runInWorkers(
  options: Options,
  stop: AbortSignal,
  onResult: (result: ChunkResult) => void,
): Promise<void> {
  const end = options.from + options.seeds;
  let next = options.from;
  /** Without one of its workers a run proves nothing: the others go no further. */
  let isBroken = false;

  function nextChunk(): Chunk | undefined {
    if (next >= end || stop.aborted || isBroken) return undefined;
    const chunk = { from: next, seeds: Math.min(SEEDS_OF_A_CHUNK, end - next) };
    next += chunk.seeds;
    return chunk;
  }

  async function work(): Promise<void> {
    const worker = new Worker(new URL('./worker.js', import.meta.url), {
      workerData: { environment: options.environment },
    });
    try {
      for (let chunk = nextChunk(); chunk; chunk = nextChunk()) onResult(await resultOf(worker, chunk));
    } catch (error) {
      isBroken = true;
      throw error;
    } finally {
      await worker.terminate();
    }
  }

  const ended = await Promise.allSettled(Array.from({ length: options.workers }, work));
  for (const each of ended) if (each.status === 'rejected') throw each.reason;
}

/** Rejects when the worker ends before it has an answer: that says nothing about the seeds. */
function resultOf(worker: Worker, chunk: Chunk): Promise<ChunkResult> {
  return new Promise((resolve, reject) => {
    const seeds = `seeds ${chunk.from} to ${chunk.from + chunk.seeds - 1}`;
    const fail = (cause: unknown) => reject(new Error(`a worker broke down in ${seeds}: ${cause}`, { cause }));
    worker.once('error', fail);
    worker.once('exit', fail);
    worker.once('message', (result: ChunkResult) => {
      worker.off('error', fail);
      worker.off('exit', fail);
      resolve(result);
    });
    worker.postMessage(chunk);
  });
}
