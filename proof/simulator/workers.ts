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

  function nextChunk(): Chunk | undefined {
    if (next >= end || stop.aborted) return undefined;
    const chunk = { from: next, seeds: Math.min(SEEDS_OF_A_CHUNK, end - next) };
    next += chunk.seeds;
    return chunk;
  }

  async function work(): Promise<void> {
    const worker = new Worker(new URL('./worker.js', import.meta.url), { workerData: { world: options.world } });
    try {
      for (let chunk = nextChunk(); chunk; chunk = nextChunk()) {
        const given = chunk;
        onResult(
          await new Promise<ChunkResult>((resolve, reject) => {
            const fail = (error: Error) =>
              reject(
                new Error(`a worker broke down in seeds ${given.from} to ${given.from + given.seeds - 1}`, {
                  cause: error,
                }),
              );
            worker.once('message', (result: ChunkResult) => {
              worker.off('error', fail);
              resolve(result);
            });
            worker.once('error', fail);
            worker.postMessage(given);
          }),
        );
      }
    } finally {
      await worker.terminate();
    }
  }

  await Promise.all(Array.from({ length: options.workers }, work));
}
